//! Cases of MPI's C functions whose instructions `cargo xtask callgrind` counts, beside the same calls in Rust: see
//! `benches/instructions.rs` of the package `hikyaku`, whose frame this uses.
#![expect(unsafe_code, reason = "MPI's C functions take pointers")]

#[path = "../../../../benches/support/cases.rs"]
mod cases;

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use cases::{Case, Work};
use mpi::traits::*;
// The functions below are its.
use mpi_abi as _;

const CASES: &[Case] = &[("c_8b_to_self_x1000", by_c), ("rust_8b_to_self_x1000", by_rust)];

const MESSAGES: u64 = 1_000;
const TAG: c_int = 1;

/// `MPI_COMM_WORLD` and `MPI_BYTE` of the standard's ABI; `MPI_STATUS_IGNORE`.
const WORLD: *mut c_void = ptr::without_provenance_mut(0x101);
const BYTE: *mut c_void = ptr::without_provenance_mut(0x247);
const IGNORE: *mut c_void = ptr::null_mut();

unsafe extern "C" {
    safe fn MPI_Init(argc: *mut c_int, argv: *mut c_void) -> c_int;
    fn MPI_Send(data: *const c_void, count: c_int, of: *mut c_void, to: c_int, tag: c_int, comm: *mut c_void) -> c_int;
    fn MPI_Recv(
        data: *mut c_void,
        count: c_int,
        of: *mut c_void,
        from: c_int,
        tag: c_int,
        comm: *mut c_void,
        status: *mut c_void,
    ) -> c_int;
}

/// Messages of 8 B of a process to itself, from the call that sends to the end of the one that receives.
fn by_c() -> Work {
    assert_eq!(MPI_Init(ptr::null_mut(), ptr::null_mut()), 0);
    let (out, mut into) = ([7_u8; 8], [0_u8; 8]);
    let mut message = move || {
        // SAFETY: `out` and `into` have 8 bytes, and live longer than the calls.
        let codes = unsafe {
            let sent = MPI_Send(out.as_ptr().cast(), 8, BYTE, 0, TAG, WORLD);
            (sent, MPI_Recv(into.as_mut_ptr().cast(), 8, BYTE, 0, TAG, WORLD, IGNORE))
        };
        assert_eq!(codes, (0, 0));
        u64::from(into[0])
    };
    // What happens once.
    message();
    Box::new(move || (0..MESSAGES).map(|_| message()).sum())
}

/// The same by the functions for Rust programs.
fn by_rust() -> Work {
    let universe = mpi::initialize().expect("a job of one process");
    let world = universe.world();
    let (out, mut into) = ([7_u8; 8], [0_u8; 8]);
    let mut message = move || {
        // (The job lives as long as it.)
        let _job = &universe;
        let own = world.process_at_rank(0);
        own.send_with_tag(&out[..], TAG).expect("a send");
        own.receive_into_with_tag(&mut into[..], TAG).expect("the message fits");
        u64::from(into[0])
    };
    message();
    Box::new(move || (0..MESSAGES).map(|_| message()).sum())
}

fn main() {
    cases::run(CASES);
}
