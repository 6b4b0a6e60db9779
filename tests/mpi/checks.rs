//! Calls of ranks are compared (`Options::check`): mistakes are errors that name both sides, and correct calls work as
//! ever.

use hikyaku::mpi::{
    Rank,
    collectives::{Blocks, Call, Collective},
    datatype::{Datatype, Kind},
    engine::{ANY_SOURCE, ANY_TAG, Buffers, Communicator, Mode, Options, Region, Request, Status},
    error::{Detail, Error, ErrorClass},
    operation::{Operation, Predefined},
};

use crate::{
    messages::all_to_all,
    support::{job_on, options},
};

/// Runs `program` as each rank of a job that checks.
fn checked<T: Send + 'static>(size: u32, program: impl Fn(Communicator) -> T + Sync + 'static) -> Vec<T> {
    let options = Options {
        check: true,
        ..options()
    };
    job_on("loopback", size, &options, move |world| {
        let result = program(world.clone());
        assert_eq!(world.engine().requests(), 0);
        result
    })
}

/// Memory that is large enough for all calls here.
type Room = [u64; 64];

/// A call of a collective with one buffer, which may be wrong.
struct Wrong {
    name: &'static str,
    call: Call<'static>,
    kind: Kind,
    operation: Option<Predefined>,
}

impl Wrong {
    fn bcast(root: usize, count: usize, kind: Kind) -> Self {
        let call = Call::of(Collective::Bcast)
            .with_root(root)
            .with_count(count * kind.size() as usize);
        Self {
            name: "MPI_Bcast",
            call,
            kind,
            operation: None,
        }
    }

    fn allreduce(count: usize, kind: Kind, operation: Predefined) -> Self {
        let call = Call::of(Collective::Allreduce).with_count(count).with_in_place(true);
        Self {
            name: "MPI_Allreduce",
            call,
            kind,
            operation: Some(operation),
        }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn begin(&self, world: &Communicator, room: &mut Room) -> Result<Request, Error> {
        let (datatype, base) = (Datatype::predefined(self.kind), room.as_mut_ptr().cast());
        let buffers = Buffers {
            input: Region::Plain(base, &datatype),
            output: Region::Plain(base, &datatype),
        };
        let operation = self.operation.map(Operation::predefined);
        // SAFETY: `room` is borrowed by the caller, which waits.
        unsafe { world.collective(self.name, &self.call, &buffers, operation.as_ref(), None) }
    }

    fn run(&self, world: &Communicator) -> Result<Status, Error> {
        let mut room = [0; 64];
        self.begin(world, &mut room)?.wait()
    }
}

/// Rank 2 of three makes one call and the others another; gives the error of each rank.
fn odd_one_out(
    odd: impl Fn() -> Wrong + Sync + 'static,
    others: impl Fn() -> Wrong + Sync + 'static,
) -> Vec<Result<Status, Error>> {
    checked(3, move |world| {
        let called = if world.rank() == 2 { odd() } else { others() };
        let told = called.run(&world);
        // The communicator can be used further.
        world.barrier().unwrap();
        told
    })
}

fn expect_mismatch(odd: impl Fn() -> Wrong + Sync + 'static, others: impl Fn() -> Wrong + Sync + 'static, said: &str) {
    let told = odd_one_out(odd, others);
    for (rank, told) in (0..).zip(told) {
        let error = told.expect_err(said);
        assert_eq!(error.class(), ErrorClass::NotSame);
        assert_eq!(error.peer(), Some(if rank == 2 { 0 } else { 2 }));
        assert_eq!(error.communicator(), Some(0));
        assert!(error.to_string().ends_with(said), "{error}");
    }
}

#[test]
fn collectives_that_do_not_go_together_are_told_on_all_ranks() {
    expect_mismatch(
        || Wrong::bcast(0, 4, Kind::I32),
        || Wrong::allreduce(8, Kind::F64, Predefined::Sum),
        "rank 2 called MPI_Bcast (root 0, 4 MPI_INT32_T) where rank 0 called MPI_Allreduce (8 MPI_DOUBLE, MPI_SUM)",
    );
    expect_mismatch(
        || Wrong::bcast(1, 4, Kind::I32),
        || Wrong::bcast(0, 4, Kind::I32),
        "rank 2 called MPI_Bcast (root 1, 4 MPI_INT32_T) where rank 0 called MPI_Bcast (root 0, 4 MPI_INT32_T)",
    );
    expect_mismatch(
        || Wrong::bcast(0, 5, Kind::I32),
        || Wrong::bcast(0, 4, Kind::I32),
        "rank 2 called MPI_Bcast (root 0, 5 MPI_INT32_T) where rank 0 called MPI_Bcast (root 0, 4 MPI_INT32_T)",
    );
    expect_mismatch(
        || Wrong::bcast(0, 4, Kind::F32),
        || Wrong::bcast(0, 4, Kind::I32),
        "rank 2 called MPI_Bcast (root 0, 4 MPI_FLOAT) where rank 0 called MPI_Bcast (root 0, 4 MPI_INT32_T)",
    );
    expect_mismatch(
        || Wrong::allreduce(1, Kind::F64I32, Predefined::Minloc),
        || Wrong::allreduce(1, Kind::F64I32, Predefined::Maxloc),
        "rank 2 called MPI_Allreduce (1 MPI_DOUBLE_INT, MPI_MINLOC) where rank 0 called MPI_Allreduce (1 MPI_DOUBLE_INT, \
         MPI_MAXLOC)",
    );
    expect_mismatch(
        || Wrong::bcast(0, 4, Kind::I32).named("MPI_Ibcast"),
        || Wrong::bcast(0, 4, Kind::I32),
        "rank 2 called MPI_Ibcast (root 0, 4 MPI_INT32_T) where rank 0 called MPI_Bcast (root 0, 4 MPI_INT32_T)",
    );
}

#[test]
fn bytes_go_with_everything_of_their_length() {
    for told in odd_one_out(|| Wrong::bcast(0, 16, Kind::Byte), || Wrong::bcast(0, 4, Kind::I32)) {
        told.unwrap();
    }
    expect_mismatch(
        || Wrong::bcast(0, 15, Kind::Byte),
        || Wrong::bcast(0, 4, Kind::I32),
        "rank 2 called MPI_Bcast (root 0, 15 MPI_BYTE) where rank 0 called MPI_Bcast (root 0, 4 MPI_INT32_T)",
    );
}

#[test]
fn immediate_and_persistent_collectives_and_barriers_are_compared_too() {
    checked(4, |world| {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        let sum = Wrong::allreduce(3, Kind::I64, Predefined::Sum).named("MPI_Iallreduce");
        let cast = Wrong::bcast(3, 2, Kind::I64).named("MPI_Ibcast");
        // In the other order at one rank: both are wrong.
        let (first, second) = if world.rank() == 1 {
            (&cast, &sum)
        } else {
            (&sum, &cast)
        };
        let first = first.begin(&world, &mut one).unwrap();
        let second = second.begin(&world, &mut two).unwrap();
        for request in [second, first] {
            assert_eq!(request.wait().unwrap_err().class(), ErrorClass::NotSame);
        }
        // In the same order they are right.
        let first = sum.begin(&world, &mut one).unwrap();
        let second = cast.begin(&world, &mut two).unwrap();
        second.wait().unwrap();
        first.wait().unwrap();
        let told = if world.rank() == 0 {
            world.barrier()
        } else {
            world.split(Some(0), 0).map(drop)
        };
        let said = told.unwrap_err().to_string();
        assert!(
            said.contains("MPI_Barrier") && said.contains("MPI_Comm_split"),
            "{said}"
        );
        let planned = |call: &Call<'_>, name, kind, memory: &mut Room| {
            let datatype = Datatype::predefined(kind);
            let buffers = Buffers {
                input: Region::None,
                output: Region::Plain(memory.as_mut_ptr().cast(), &datatype),
            };
            // SAFETY: the memory outlives what is planned.
            unsafe { world.collective_init(name, call, &buffers, None, None) }.unwrap()
        };
        let kind = if world.rank() == 2 { Kind::F64 } else { Kind::I64 };
        let bcast = Call::of(Collective::Bcast).with_count(16);
        let wrong = planned(&bcast, "MPI_Bcast_init", kind, &mut one);
        for _ in 0..2 {
            let error = wrong.start().unwrap().wait().unwrap_err();
            assert!(
                error.to_string().contains("MPI_Bcast_init (root 0, 2 MPI_DOUBLE)"),
                "{error}"
            );
        }
        two = [u64::from(world.rank() == 0); 64];
        let right = planned(&bcast, "MPI_Bcast_init", Kind::I64, &mut two);
        for _ in 0..3 {
            right.start().unwrap().wait().unwrap();
        }
        drop(right);
        assert_eq!(two[..2], [1, 1]);
    });
}

#[test]
fn uneven_blocks_are_compared_by_kind_as_far_as_there_are_any() {
    let gather = |world: &Communicator, kinds: [Kind; 3], counts: [usize; 3]| {
        let own = usize::try_from(world.rank()).unwrap();
        let call = Call::of(Collective::Gatherv)
            .with_input(counts[own])
            .with_output(Blocks::Uneven {
                counts: &counts,
                displacements: &[0, 10, 20],
            });
        let (input, output) = (Datatype::predefined(kinds[own]), Datatype::predefined(kinds[0]));
        let (mut from, mut into) = ([0_u64; 64], [0_u64; 64]);
        let buffers = Buffers {
            input: Region::Plain(from.as_mut_ptr().cast(), &input),
            output: if own == 0 {
                Region::Plain(into.as_mut_ptr().cast(), &output)
            } else {
                Region::None
            },
        };
        // SAFETY: both live until it has ended.
        unsafe { world.collective("MPI_Gatherv", &call, &buffers, None, None) }?.wait()
    };
    checked(3, move |world| {
        let (int, real) = (Kind::I32, Kind::F32);
        gather(&world, [int, int, int], [1, 5, 2]).unwrap();
        gather(&world, [int, int, real], [1, 5, 0]).unwrap();
        let error = gather(&world, [int, int, real], [1, 5, 2]).unwrap_err();
        assert!(
            error.to_string().ends_with(
                "rank 2 called MPI_Gatherv (root 0, MPI_FLOAT) where rank 0 called MPI_Gatherv (root 0, MPI_INT32_T)"
            ),
            "{error}"
        );
    });
}

fn send(world: &Communicator, count: u64, kind: Kind, to: Rank, tag: i32) -> Result<(), Error> {
    let data = vec![7_u64; count as usize + 1];
    // SAFETY: it lives until the call has ended.
    unsafe {
        world.send(
            Mode::Standard,
            data.as_ptr().cast(),
            count,
            &Datatype::predefined(kind),
            to,
            tag,
        )
    }
}

fn receive(world: &Communicator, count: u64, datatype: &Datatype, tag: i32) -> Result<Status, Error> {
    let mut data = vec![0_u64; 4 * count as usize + 1];
    // SAFETY: it lives until the call has ended, and has room for what is received.
    unsafe { world.receive(data.as_mut_ptr().cast(), count, datatype, ANY_SOURCE, tag) }
}

#[test]
fn a_message_of_other_types_is_an_error_of_its_receive() {
    for count in [4, 200_000] {
        checked(2, move |world| {
            let (other, int) = (1 - world.rank(), Datatype::predefined(Kind::I32));
            if world.rank() == 0 {
                for (tag, kind) in [
                    (1, Kind::F32),
                    (2, Kind::F32),
                    (3, Kind::I32),
                    (4, Kind::Packed),
                    (5, Kind::Byte),
                ] {
                    send(&world, count, kind, other, tag).unwrap();
                }
                send(&world, 3, Kind::I32, other, 6).unwrap();
                send(&world, count + 1, Kind::I32, other, 7).unwrap();
                return;
            }
            let error = receive(&world, count, &int, 1).unwrap_err();
            assert_eq!(
                (error.class(), error.peer(), error.call()),
                (ErrorClass::Type, Some(0), "MPI_Recv")
            );
            let said = format!("{count} MPI_FLOAT were sent, the receive is for {count} MPI_INT32_T");
            assert!(error.to_string().ends_with(&said), "{error}");
            let message = world.mprobe(0, 2).unwrap();
            assert_eq!(message.status().len, 4 * count);
            let mut data = vec![0_u32; count as usize];
            // SAFETY: it lives until the request has ended.
            let request = unsafe { Communicator::imreceive(message, data.as_mut_ptr().cast(), count, &int) };
            assert_eq!(request.unwrap().wait().unwrap_err().class(), ErrorClass::Type);
            assert_eq!(receive(&world, count, &int, 3).unwrap().len, 4 * count);
            // Packed data and bytes match everything.
            receive(&world, count, &int, 4).unwrap();
            assert_eq!(receive(&world, count, &int, ANY_TAG).unwrap().tag, 5);
            assert_eq!(world.probe(0, 6).unwrap().len, 12);
            assert_eq!(
                receive(&world, count, &int, 6).unwrap().len,
                12,
                "messages may be shorter"
            );
            let error = receive(&world, count, &int, 7).unwrap_err();
            let room = Detail::Truncated {
                sent: 4 * (count + 1),
                room: 4 * count,
            };
            assert_eq!((error.class(), error.detail()), (ErrorClass::Truncate, &room));
        });
    }
}

#[test]
fn layouts_may_differ_when_types_do_not() {
    checked(2, |world| {
        let pair = Datatype::structure(
            &[1, 1],
            &[0, 8],
            &[Datatype::predefined(Kind::F64), Datatype::predefined(Kind::I32)],
        );
        let pair = pair.unwrap();
        if world.rank() == 0 {
            let data = [0_u64; 16];
            // SAFETY: it lives until the calls have ended.
            unsafe {
                world
                    .send(Mode::Standard, data.as_ptr().cast(), 3, &pair, 1, 0)
                    .unwrap();
                world
                    .send(Mode::Standard, data.as_ptr().cast(), 3, &pair, 1, 1)
                    .unwrap();
            }
        } else {
            let same = Datatype::predefined(Kind::F64I32);
            assert_eq!(receive(&world, 3, &same, 0).unwrap().len, 36);
            let error = receive(&world, 9, &Datatype::predefined(Kind::F64), 1).unwrap_err();
            let said = "6 elements of several kinds were sent, the receive is for 9 MPI_DOUBLE";
            assert!(error.to_string().ends_with(said), "{error}");
        }
    });
}

#[test]
fn what_is_right_goes_on_as_ever() {
    for backend in ["loopback", "udp"] {
        let options = Options {
            check: true,
            ..options()
        };
        job_on(backend, 4, &options, |world| {
            all_to_all(
                &world,
                &[0, 1, 100, 16_384, 65_520, 65_521, 65_537, 131_072, 131_073, 1_000_000],
            );
            let part = world.split(Some(world.rank() % 2), 0).unwrap().unwrap();
            all_to_all(&part, &[0, 10_000]);
            let mut array = world.array(300_000);
            array.get_mut().unwrap().fill(world.rank() as u8);
            let next = (world.rank() + 1) % 4;
            let sent = world.send_array(&array, next, 5).unwrap();
            let (got, status) = world.receive_array(ANY_SOURCE, 5).unwrap();
            assert_eq!((got.len(), i32::from(got[299_999])), (300_000, status.source));
            // It is sent on from where it has landed.
            let on = world.send_array(&got, next, 6).unwrap();
            let (got, _) = world.receive_array(ANY_SOURCE, 6).unwrap();
            assert_eq!(i32::from(got[7]), (world.rank() + 2) % 4);
            sent.wait().unwrap();
            on.wait().unwrap();
        });
    }
}
