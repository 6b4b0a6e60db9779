//! Programs in C over the library.

#[path = "../../support/program.rs"]
mod program;

const LIBRARY: (&str, &str) = ("libmpi_abi.so", "libmpi_abi.so.1");

#[test]
fn a_tool_sees_settings_and_counters() {
    program::run("tools", LIBRARY, &[], None, &[("HIKYAKU_EAGER_LIMIT", "777")]);
}

#[test]
fn error_handlers_live_while_they_are_had() {
    program::run("handlers", LIBRARY, &[], None, &[]);
}

/// Through memory, where receives are known by numbers, and over the network.
#[test]
fn receives_end_in_all_ways() {
    for routes in ["memory", "network"] {
        program::run("requests", LIBRARY, &[], Some("2"), &[("HIKYAKU_ROUTES", routes)]);
    }
}

#[test]
fn wrong_arguments_are_errors_that_say_what_is_wrong() {
    program::run("mistakes", LIBRARY, &[], None, &[]);
}

#[test]
fn exceptions_of_error_handlers_pass_through_calls() {
    program::run("exceptions", LIBRARY, &[], None, &[]);
}

#[test]
fn the_library_calls_no_function_of_the_programs() {
    program::run("profiled", LIBRARY, &[], Some("2"), &[]);
}
