//! Cases whose instructions are counted, and the program around them.

use std::hint::black_box;

/// Work that is prepared and not yet done.
pub(crate) type Work = Box<dyn FnMut() -> u64>;

/// Name, and what prepares it.
pub(crate) type Case = (&'static str, fn() -> Work);

/// The counted part. Valgrind finds it by its name, so it must stay a function.
#[inline(never)]
fn measured(work: &mut Work) -> u64 {
    black_box(work())
}

/// Runs the case that the command line names, or all of them; `--list` prints their names.
pub(crate) fn run(cases: &[Case]) {
    // Cargo adds `--bench`.
    let wanted = std::env::args().skip(1).find(|arg| arg != "--bench");
    for (name, prepare) in cases {
        match wanted.as_deref() {
            Some("--list") => println!("{name}"),
            Some(wanted) if wanted != *name => {}
            _ => {
                black_box(measured(&mut prepare()));
            }
        }
    }
}
