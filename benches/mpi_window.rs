#![expect(unsafe_code, reason = "MPI's engine takes pointers")]
//! A case of MPI whose instructions `cargo xtask callgrind` counts: see `mpi.rs`. It is a program by itself, because the
//! compiler inlines a function that is called from one place alone, as `mpi.rs` calls those that begin a message.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/clock.rs"]
mod clock;
#[expect(dead_code, reason = "mpi.rs uses all of it")]
#[path = "support/ranks.rs"]
mod ranks;

use cases::{Case, Work};
use hikyaku::mpi::{
    datatype::{Datatype, Kind},
    engine::{Mode, Request},
};
use ranks::Ranks;

const CASES: &[Case] = &[("mpi_8b_in_memory_window_x1024", || windows(Ranks::in_memory()))];

/// Messages that are waited for together.
const WINDOW: usize = 32;

const TAG: i32 = 1;

/// Messages of 8 B from one rank to the other one in windows: receives that are begun, and sends, which are waited for
/// together.
fn windows(mut ranks: Ranks) -> Work {
    let mut requests = Vec::new();
    window(&mut ranks, &mut requests);
    Box::new(move || (0..32).map(|_| window(&mut ranks, &mut requests)).sum())
}

/// Gives the bytes that came.
fn window(ranks: &mut Ranks, requests: &mut Vec<Request>) -> u64 {
    let byte = Datatype::predefined(Kind::Byte);
    let target = ranks.0[1].1.as_mut_ptr();
    let (sender, receiver) = (&ranks.0[0].0, &ranks.0[1].0);
    let data = [7_u8; 8];
    for _ in 0..WINDOW {
        // SAFETY: `target` has 8 bytes that are not read before all requests have ended; see below.
        let begun = unsafe { receiver.ireceive(target, 8, &byte, 0, TAG) };
        requests.push(begun.expect("a receive"));
    }
    for _ in 0..WINDOW {
        // SAFETY: `data` lives until all requests have ended; see below.
        let begun = unsafe { sender.isend(Mode::Standard, data.as_ptr(), 8, &byte, 1, TAG) };
        requests.push(begun.expect("a send"));
    }
    let mut len = 0;
    Request::wait_all(&mut *requests, |ended| len += ended.expect("messages fit").len);
    requests.clear();
    len
}

fn main() {
    cases::run(CASES);
}
