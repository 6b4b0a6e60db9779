//! Programs in C over the library.

#[path = "../../support/program.rs"]
mod program;

const LIBRARY: (&str, &str) = ("libmpich.so", "libmpi.so.12");
const FLAGS: &[&str] = &["-DMPICH_ABI"];

#[test]
fn a_tool_sees_settings_and_counters() {
    program::run("tools", LIBRARY, FLAGS, None, &[("HIKYAKU_EAGER_LIMIT", "777")]);
}

#[test]
fn error_handlers_live_while_they_are_had() {
    program::run("handlers", LIBRARY, FLAGS, None, &[]);
}
