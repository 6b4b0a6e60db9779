//! Lengths that another rank claims falsely: an error that says so, and no memory is allocated for them.

use std::time::Duration;

use hikyaku::mpi::{
    datatype::Datatype,
    engine::{ANY_SOURCE, Communicator, Mode, Request},
    error::ErrorClass,
};

use super::support::{byte, options, processes};

const LINGER: Duration = Duration::from_secs(5);
/// More than any machine can address.
const ABSURD: u64 = 1 << 60;
const TAG: i32 = 3;

/// Begins to send a message of [`ABSURD`] bytes, all of which are at one address.
fn claim(world: &Communicator) -> Request {
    let nowhere = Datatype::resized(0, 0, &byte()).unwrap();
    static BYTE: u8 = 7;
    // SAFETY: an address whose contents stay unchanged.
    unsafe { world.isend(Mode::Standard, &raw const BYTE, ABSURD, &nowhere, 0, TAG) }.unwrap()
}

/// Rank 1 claims, and rank 0 calls `believe`, which must fail because of it; then rank 1 learns that its message is not
/// received.
fn check(believe: impl Fn(&Communicator) + Sync) {
    processes("loopback", 2, &options(), |world| {
        if world.rank() == 0 {
            believe(&world);
            world.finalize(LINGER).unwrap();
        } else {
            let claimed = claim(&world);
            let error = claimed.wait().unwrap_err();
            assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            world.finalize(LINGER).unwrap();
        }
    });
}

#[test]
fn an_array_of_absurd_length_is_an_error() {
    check(|world| {
        let error = world.receive_array(ANY_SOURCE, TAG).unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoMem, "{error}");
        assert!(error.to_string().contains(&ABSURD.to_string()), "{error}");
    });
}

#[test]
fn a_group_of_absurd_size_is_an_error() {
    check(|world| {
        let own = Communicator::own(world.engine());
        let error = own.create_intercommunicator(0, world, 1, TAG).unwrap_err();
        assert_eq!((error.class(), error.peer()), (ErrorClass::Group, Some(1)), "{error}");
    });
}
