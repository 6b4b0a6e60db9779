//! Errors say what was being done with whom, and end what waits.

use std::panic::AssertUnwindSafe;

use mpi::{
    Error, ErrorClass,
    collective::SystemOperation,
    datatype::{Partition, UserDatatype},
    request::WaitGuard,
    topology::Color,
    traits::*,
};

use super::support::{job, job_on};

fn class<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorClass {
    result.unwrap_err().class()
}

#[test]
fn errors_name_the_call_and_the_rank() {
    job(2, |world| {
        let other = world.process_at_rank(1 - world.rank());
        let tag = other.send_with_tag(&1, -3).unwrap_err().to_string();
        assert!(tag.contains("MPI_Send") && tag.contains("-3"), "{tag}");
        assert_eq!(class(other.receive_with_tag::<i32>(-7)), ErrorClass::Tag);

        other.send(&[1_u64; 3]).unwrap();
        let long = other.receive::<u64>().unwrap_err();
        assert_eq!((long.class(), long.peer()), (ErrorClass::Truncate, Some(other.rank())));
        other.send(&[1_u8; 3]).unwrap();
        assert_eq!(
            class(other.receive::<u64>()),
            ErrorClass::Truncate,
            "too short for a value"
        );
        other.send(&[1_u8; 3]).unwrap();
        assert_eq!(
            class(other.receive_vec::<u64>()),
            ErrorClass::Truncate,
            "no whole number of values"
        );
        other.send(&[5_u16; 3]).unwrap();
        let mut room = [0_u16; 5];
        let status = other.receive_into(&mut room).unwrap();
        assert_eq!((room, status.count(u16::equivalent_datatype())), ([5, 5, 5, 0, 0], 3));
        assert_eq!(status.count(u32::equivalent_datatype()), mpi::UNDEFINED);

        // Requests tell it when they are waited for.
        let late = mpi::request::scope(|scope| other.immediate_send_with_tag(scope, &1, -3).wait());
        assert_eq!(class(late), ErrorClass::Tag);
    });
}

#[test]
fn buffers_that_do_not_fit_are_told() {
    job(2, |world| {
        let mut three = [0; 3];
        assert_eq!(class(world.all_gather_into(&1, &mut three)), ErrorClass::Count);
        assert_eq!(class(world.all_to_all_into(&[1, 2], &mut three)), ErrorClass::Count);
        let sum = SystemOperation::sum();
        assert_eq!(
            class(world.all_reduce_into(&[1, 2], &mut three, sum)),
            ErrorClass::Count
        );
        assert_eq!(
            class(world.all_reduce_into(&[1.0; 3], &mut three, sum)),
            ErrorClass::Type
        );
        // Blocks that can be divided, but are not as long as what is sent.
        let mut four = [0; 4];
        for wrong in [
            world.all_gather_into(&1, &mut four),
            world.all_gather_into(&[1, 2, 3], &mut four),
            world.all_gather_into(&1, &mut four[..0]),
            world.all_to_all_into(&[1, 2], &mut four),
        ] {
            let wrong = wrong.unwrap_err();
            assert_eq!(wrong.class(), ErrorClass::Count, "{wrong}");
        }
        assert_eq!(four, [0; 4]);
        // As many bytes are enough.
        world.all_gather_into(&[1_i64, 2], &mut [0_u8; 32]).unwrap();
        let mut flags = [false; 3];
        assert_eq!(
            class(world.all_reduce_into(&[true; 3], &mut flags, sum)),
            ErrorClass::Op
        );
        let root = world.process_at_rank(0);
        let wrong = if root.is_self() {
            root.gather_into(&1)
        } else {
            root.gather_into_root(&1, &mut three)
        };
        assert_eq!(class(wrong), ErrorClass::Root);
        world.barrier().unwrap();
    });
}

#[test]
fn a_revoked_communicator_ends_its_requests() {
    job(2, |world| {
        let second = world.duplicate().unwrap();
        let mut room = [0; 4];
        let ended = mpi::request::scope(|scope| {
            let request = second
                .process_at_rank(1 - world.rank())
                .immediate_receive_into(scope, &mut room);
            second.revoke();
            request.wait()
        });
        assert_eq!(class(ended), ErrorClass::Revoked);
        assert_eq!(class(second.split_by_color(Color::with_value(0))), ErrorClass::Revoked);
        world.barrier().unwrap();
    });
}

#[test]
fn a_lost_process_ends_what_waits_for_it() {
    job_on("udp", 3, |world| {
        let lost = world.process_at_rank(2);
        let mut sum = 0;
        world.all_reduce_into(&1, &mut sum, SystemOperation::sum()).unwrap();
        assert_eq!(sum, 3);
        if lost.is_self() {
            return false;
        }
        let (mut room, letter) = (vec![7_u8; 300_000], vec![1_u8; 300_000]);
        let (received, sent) = mpi::request::scope(|scope| {
            let receiving = lost.immediate_receive_into(scope, &mut room);
            let sending = lost.immediate_send(scope, &letter);
            (receiving.wait(), sending.wait())
        });
        for error in [received.unwrap_err(), sent.unwrap_err()] {
            assert_eq!(
                (error.class(), error.peer()),
                (ErrorClass::ProcFailed, Some(2)),
                "{error}"
            );
        }
        room.clear();
        let met = world.barrier().unwrap_err();
        assert_eq!(
            (met.class(), met.peer(), met.call()),
            (ErrorClass::ProcFailed, Some(2), "MPI_Barrier")
        );
        // The others can go on among themselves.
        let survivors = world.group().exclude(&[2]);
        let survivors = world.split_by_subgroup(&survivors).unwrap().unwrap();
        survivors.barrier().unwrap();
        true
    });
}

#[test]
fn a_guard_that_can_tell_nobody_panics() {
    job(1, |world| {
        let left = std::panic::catch_unwind(AssertUnwindSafe(|| {
            mpi::request::scope(|scope| {
                let _guard = WaitGuard::from(world.this_process().immediate_send_with_tag(scope, &1, -1));
            });
        }));
        let said = left.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(said.contains("waited for by its guard: MPI_Isend"), "{said}");
    });
}

#[test]
fn mistakes_panic_where_they_are() {
    let said = |f: fn()| {
        let payload = std::panic::catch_unwind(f).unwrap_err();
        payload.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    assert!(said(|| drop(Partition::new(&[1, 2, 3], &[2, 2][..], &[0, 2][..]))).contains("not within 3 elements"));
    let vector = said(|| drop(UserDatatype::vector(-1, 1, 1, &i32::equivalent_datatype())));
    assert!(vector.contains("vector: ") && vector.contains("-1"), "{vector}");
    assert!(said(|| _ = Color::with_value(-2)).contains("-2"));
}
