//! Mistakes of programs: each is an error that names the call, and the rank if one is concerned.

use std::{cell::RefCell, time::Duration};

use hikyaku::mpi::{
    collectives::{Blocks, Call, Collective},
    datatype::{Datatype, Kind},
    engine::{Buffers, Communicator, Mode, PROC_NULL, Region, Request, Status},
    error::{Detail, Error, ErrorClass},
    group::Group,
    operation::{Operation, Predefined},
};

use crate::{
    messages::{receive, send},
    support::{byte, job, options, pattern, processes},
};

/// Expects an error of this class in this call.
fn expect<T>(result: Result<T, Error>, class: ErrorClass, call: &str) -> Error {
    let Err(error) = result else {
        panic!("{call} should have failed with {class}")
    };
    assert_eq!((error.class(), error.call()), (class, call), "{error}");
    assert!(error.to_string().starts_with(call), "{error}");
    error
}

/// A collective of one buffer of integers.
fn collective(
    world: &Communicator,
    name: &'static str,
    call: &Call<'_>,
    operation: Option<Predefined>,
) -> Result<Status, Error> {
    let (mut memory, datatype) = ([0_i32; 16], Datatype::predefined(Kind::F32));
    let region = Region::Plain(memory.as_mut_ptr().cast(), &datatype);
    let buffers = Buffers {
        input: region,
        output: region,
    };
    let operation = operation.map(Operation::predefined);
    // SAFETY: what is called here is refused, or has ended.
    unsafe { world.collective(name, call, &buffers, operation.as_ref(), None) }?.wait()
}

#[test]
fn arguments_that_can_not_be_are_told_with_their_call() {
    job(2, |world| {
        let (mut room, datatype) = (0_u64, byte());
        let base = (&raw mut room).cast::<u8>();
        // SAFETY: what is called here is refused.
        let sent = |rank, tag| unsafe { world.isend(Mode::Synchronous, base, 1, &datatype, rank, tag) };
        // SAFETY: as above.
        let received = |rank, tag| unsafe { world.ireceive(base, 1, &datatype, rank, tag) };
        for (rank, tag, class) in [
            (2, 0, ErrorClass::Rank),
            (-7, 0, ErrorClass::Rank),
            (1, -2, ErrorClass::Tag),
        ] {
            for error in [
                expect(sent(rank, tag), class, "MPI_Issend"),
                expect(received(rank, tag), class, "MPI_Irecv"),
                expect(world.probe(rank, tag), class, "MPI_Probe"),
                expect(world.iprobe(rank, tag), class, "MPI_Iprobe"),
                expect(world.mprobe(rank, tag), class, "MPI_Mprobe"),
                expect(world.improbe(rank, tag), class, "MPI_Improbe"),
            ] {
                match class {
                    ErrorClass::Rank => assert_eq!(error.detail(), &Detail::Rank { rank, size: 2 }),
                    _ => assert!(error.to_string().contains("tag is -2"), "{error}"),
                }
            }
        }
        let doubles = Datatype::predefined(Kind::F64);
        // SAFETY: it is more than memory can be, so it is refused.
        let many = unsafe { world.send(Mode::Ready, base, u64::MAX, &doubles, 0, 0) };
        expect(many, ErrorClass::Count, "MPI_Rsend");

        let error = collective(
            &world,
            "MPI_Bcast",
            &Call::of(Collective::Bcast).with_root(2).with_count(4),
            None,
        );
        assert!(
            expect(error, ErrorClass::Root, "MPI_Bcast")
                .to_string()
                .contains("root is 2")
        );
        let gather = Call::of(Collective::Gatherv)
            .with_root(world.rank() as usize)
            .with_input(1)
            .with_output(Blocks::Uneven {
                counts: &[1],
                displacements: &[0],
            });
        expect(
            collective(&world, "MPI_Gatherv", &gather, None),
            ErrorClass::Count,
            "MPI_Gatherv",
        );
        let band = Call::of(Collective::Allreduce).with_count(1).with_in_place(true);
        let error = collective(&world, "MPI_Allreduce", &band, Some(Predefined::Band));
        assert!(
            expect(error, ErrorClass::Op, "MPI_Allreduce")
                .to_string()
                .contains("MPI_BAND")
        );

        let stranger = Group::of_processes(&[0, 5]).unwrap();
        expect(
            world.create_group(&stranger, 0),
            ErrorClass::Group,
            "MPI_Comm_create_group",
        );
        expect(
            world.create_group(world.group(), -1),
            ErrorClass::Tag,
            "MPI_Comm_create_group",
        );
        expect(world.create(&stranger), ErrorClass::Group, "MPI_Comm_create");
        expect(world.split(Some(-3), 0), ErrorClass::Arg, "MPI_Comm_split");
        expect(world.merge(true), ErrorClass::Comm, "MPI_Intercomm_merge");
        expect(
            world.create_intercommunicator(9, &world, 0, 0),
            ErrorClass::Rank,
            "MPI_Intercomm_create",
        );
        // None of it has left anything behind.
        world.barrier().unwrap();
        assert_eq!(world.engine().requests(), 0);
    });
}

#[test]
fn who_has_said_goodbye_is_named() {
    processes("loopback", 3, &options(), |world| {
        world.barrier().unwrap();
        if world.rank() == 2 {
            world.engine().finalize(Duration::from_secs(2)).unwrap();
            return;
        }
        let large = pattern(300_000, 0);
        let ends = RefCell::new(Vec::new());
        let check = |error: Error| {
            assert_eq!(
                (error.class(), error.peer()),
                (ErrorClass::ProcFailed, Some(2)),
                "{error}"
            );
            assert!(error.to_string().contains("goodbye"), "{error}");
            ends.borrow_mut().push(error.call());
        };
        check(receive(&world, &mut [0], 2, 0).unwrap_err());
        check(world.probe(2, 0).unwrap_err());
        check(world.mprobe(2, 0).unwrap_err());
        check(send(&world, &large, 2, 0).unwrap_err());
        check(send(&world, &[1], 2, 0).unwrap_err());
        check(receive(&world, &mut [0], 2, 0).unwrap_err());
        let calls = [
            "MPI_Recv",
            "MPI_Probe",
            "MPI_Mprobe",
            "MPI_Send",
            "MPI_Send",
            "MPI_Recv",
        ];
        assert_eq!(*ends.borrow(), calls);
        // The others talk on.
        let other = 1 - world.rank();
        send(&world, &[7], other, 1).unwrap();
        receive(&world, &mut [0], other, 1).unwrap();
        world.engine().finalize(Duration::from_secs(2)).unwrap();
    });
}

#[test]
fn after_the_end_every_call_says_so() {
    processes("loopback", 2, &options(), |world| {
        world.barrier().unwrap();
        world.engine().finalize(Duration::from_secs(2)).unwrap();
        world.engine().finalize(Duration::from_secs(2)).unwrap();
        let other = 1 - world.rank();
        let ended = |error: Error| assert!(error.to_string().contains("finalised"), "{error}");
        ended(expect(send(&world, &[1], other, 0), ErrorClass::Other, "MPI_Send"));
        ended(expect(
            receive(&world, &mut [0], other, 0),
            ErrorClass::Other,
            "MPI_Recv",
        ));
        ended(expect(world.probe(other, 0), ErrorClass::Other, "MPI_Probe"));
        ended(expect(world.barrier(), ErrorClass::Other, "MPI_Barrier"));
        ended(expect(world.duplicate(), ErrorClass::Other, "MPI_Comm_dup"));
    });
}

#[test]
fn requests_that_are_given_up_go_on_and_are_forgotten() {
    job(2, |world| {
        let other = 1 - world.rank();
        let (large, mut room) = (pattern(300_000, 3), vec![0; 300_000]);
        // SAFETY: both live until the barrier, by which both messages have come.
        unsafe {
            drop(world.ireceive(room.as_mut_ptr(), 300_000, &byte(), other, 1).unwrap());
            drop(
                world
                    .isend(Mode::Standard, large.as_ptr(), 300_000, &byte(), other, 1)
                    .unwrap(),
            );
        }
        // What they have begun has ended when this has: messages do not overtake, and neither do acknowledgements.
        let mut last = vec![0; 300_000];
        // SAFETY: as above.
        let late = unsafe { world.ireceive(last.as_mut_ptr(), 300_000, &byte(), other, 2) };
        send(&world, &large, other, 2).unwrap();
        late.unwrap().wait().unwrap();
        world.barrier().unwrap();
        while world.engine().requests() > 0 {
            world.engine().progress().unwrap();
        }
        assert!(room == large && last == large);
    });
}

#[test]
fn nobody_is_nobody_in_all_calls() {
    job(1, |world| {
        assert_eq!(world.probe(PROC_NULL, 3), Ok(Status::NULL));
        assert_eq!(world.iprobe(PROC_NULL, 3), Ok(Some(Status::NULL)));
        for message in [
            world.mprobe(PROC_NULL, 3).unwrap(),
            world.improbe(PROC_NULL, 3).unwrap().unwrap(),
        ] {
            assert_eq!(message.status(), Status::NULL);
            let mut room = [7_u8; 4];
            // SAFETY: it lives until the request has ended.
            let request = unsafe { Communicator::imreceive(message, room.as_mut_ptr(), 4, &byte()) };
            assert_eq!(request.and_then(Request::wait), Ok(Status::NULL));
            assert_eq!(room, [7; 4]);
        }
        assert_eq!(send(&world, &[1], PROC_NULL, 3), Ok(()));
        assert_eq!(receive(&world, &mut [0], PROC_NULL, 3), Ok(Status::NULL));
    });
}
