//! What a profiler is told, and what a trace holds of it.

use std::sync::{Arc, Mutex};

use hikyaku::{
    mpi::{
        collectives::{Blocks, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{
            ANY_SOURCE, ANY_TAG, Buffers, Communicator, Entry, Exit, LockKind, Mode, Operands, Options, Profiler,
            Region, Request, Target, Window,
        },
        operation::{Operation, Predefined},
    },
    time::Instant,
};

use crate::support::{byte, job_on, options};

/// Writes down what it is told, of all ranks.
#[derive(Debug, Default)]
struct Witness {
    entered: Mutex<Vec<&'static str>>,
    left: Mutex<Vec<(Entry, Told)>>,
    closed: Mutex<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    error: Option<&'static str>,
    request: Option<u64>,
    ended: Vec<(u64, i32, i32, u64)>,
    made: bool,
}

impl Profiler for Witness {
    fn enter(&self, _: Instant, entry: &Entry) {
        self.entered.lock().unwrap().push(entry.call);
    }

    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>) {
        assert!(begun <= now, "{entry:?}");
        let told = Told {
            error: exit.error.map(|error| error.class().name()),
            request: exit.request,
            ended: exit
                .ended
                .iter()
                .map(|(number, status)| (*number, status.source, status.tag, status.len))
                .collect(),
            made: exit.made.is_some(),
        };
        self.left.lock().unwrap().push((entry.clone(), told));
    }

    fn close(&self, _: Instant) {
        *self.closed.lock().unwrap() += 1;
    }
}

/// What rank 0 of a job calls, as its own profiler sees it.
fn witnessed(size: u32, program: impl Fn(Communicator) + Sync) -> Vec<(Entry, Told)> {
    let witness = Arc::new(Witness::default());
    let others = Arc::new(Witness::default());
    let options = Options {
        profiler: Some(Arc::new(Fork {
            first: Arc::clone(&witness),
            others: Arc::clone(&others),
        })),
        ..options()
    };
    job_on("loopback", size, &options, |world| {
        FIRST.set(world.rank() == 0);
        program(world);
    });
    assert_eq!(*witness.closed.lock().unwrap() + *others.closed.lock().unwrap(), size);
    let entered = witness.entered.lock().unwrap();
    let left = witness.left.lock().unwrap();
    assert_eq!(entered.len(), left.len(), "what is entered is left");
    left.clone()
}

thread_local! {
    static FIRST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The profiler of all ranks, which are threads here.
#[derive(Debug)]
struct Fork {
    first: Arc<Witness>,
    others: Arc<Witness>,
}

impl Fork {
    fn here(&self) -> &Witness {
        if FIRST.get() { &self.first } else { &self.others }
    }
}

impl Profiler for Fork {
    fn enter(&self, now: Instant, entry: &Entry) {
        self.here().enter(now, entry);
    }

    fn leave(&self, begun: Instant, now: Instant, entry: &Entry, exit: &Exit<'_>) {
        self.here().leave(begun, now, entry, exit);
    }

    fn close(&self, now: Instant) {
        self.here().close(now);
    }
}

fn names(told: &[(Entry, Told)]) -> Vec<&'static str> {
    told.iter().map(|(entry, _)| entry.call).collect()
}

#[test]
fn messages_are_told_with_their_arguments_and_requests() {
    let told = witnessed(2, |world| {
        let (mut room, datatype) = ([0_u8; 8], byte());
        if world.rank() == 1 {
            // SAFETY: the memory outlives the calls.
            unsafe {
                world
                    .send(Mode::Standard, [1, 2, 3].as_ptr(), 3, &datatype, 0, 5)
                    .unwrap();
                world.send(Mode::Standard, [1, 2].as_ptr(), 2, &datatype, 0, 6).unwrap();
                world.receive(room.as_mut_ptr(), 8, &datatype, 0, 7).unwrap();
            }
            return;
        }
        // SAFETY: as above.
        unsafe {
            let late = world.ireceive(room.as_mut_ptr(), 8, &datatype, ANY_SOURCE, 6).unwrap();
            let mut other = [0_u8; 8];
            world.receive(other.as_mut_ptr(), 8, &datatype, 1, ANY_TAG).unwrap();
            late.wait().unwrap();
            let sent = world
                .isend(Mode::Synchronous, [9].as_ptr(), 1, &datatype, 1, 7)
                .unwrap();
            assert!(Request::wait_any(&mut [None, Some(sent)]).unwrap().1.is_ok());
            assert!(world.send(Mode::Standard, [9].as_ptr(), 1, &datatype, 7, 7).is_err());
        }
    });
    assert_eq!(
        names(&told),
        [
            "MPI_Irecv",
            "MPI_Recv",
            "MPI_Wait",
            "MPI_Issend",
            "MPI_Waitany",
            "MPI_Send",
            "MPI_Barrier",
            "MPI_Finalize"
        ]
    );
    let (irecv, recv, wait, issend, any, send) = (&told[0], &told[1], &told[2], &told[3], &told[4], &told[5]);
    assert_eq!(
        (irecv.0.peer, irecv.0.tag, irecv.0.bytes),
        (Some(ANY_SOURCE), Some(6), 8)
    );
    let number = irecv.1.request.unwrap();
    assert_eq!((recv.0.tag, &recv.1.ended[..]), (Some(ANY_TAG), &[(0, 1, 5, 3)][..]));
    assert_eq!(
        (&wait.0.requests[..], &wait.1.ended[..]),
        (&[number][..], &[(number, 1, 6, 2)][..])
    );
    let number = issend.1.request.unwrap();
    assert_eq!((&any.0.requests[..], any.1.ended[0].0), (&[number][..], number));
    assert_eq!((send.0.peer, send.1.error), (Some(7), Some("MPI_ERR_RANK")));
}

#[test]
fn collectives_are_told_once_and_not_what_they_do() {
    let told = witnessed(3, |world| {
        let (int, mut values) = (Datatype::predefined(Kind::I32), [world.rank(); 2]);
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(values.as_mut_ptr().cast(), &int),
        };
        let sum = Operation::predefined(Predefined::Sum);
        let reduce = Call::of(Collective::Allreduce).with_count(2).with_in_place(true);
        // SAFETY: `values` outlives the requests.
        unsafe {
            let done = world
                .collective("MPI_Allreduce", &reduce, &buffers, Some(&sum), None)
                .unwrap();
            done.wait().unwrap();
            let begun = world
                .collective("MPI_Iallreduce", &reduce, &buffers, Some(&sum), None)
                .unwrap();
            begun.wait().unwrap();
        }
        let (counts, mut all) = ([2, 0, 1], [0_i32; 3]);
        let gather = Call::of(Collective::Gatherv)
            .with_input(counts[world.rank() as usize])
            .with_output(Blocks::Uneven {
                counts: &counts,
                displacements: &[0, 0, 2],
            });
        let buffers = Buffers {
            input: Region::Plain(values.as_mut_ptr().cast(), &int),
            output: Region::Plain(all.as_mut_ptr().cast(), &int),
        };
        // SAFETY: both outlive the request.
        unsafe { world.collective("MPI_Gatherv", &gather, &buffers, None, None) }
            .unwrap()
            .wait()
            .unwrap();
        let half = world.split(Some(world.rank() / 2), 0).unwrap().unwrap();
        half.duplicate().unwrap().barrier().unwrap();
    });
    assert_eq!(
        names(&told),
        [
            "MPI_Allreduce",
            "MPI_Iallreduce",
            "MPI_Wait",
            "MPI_Gatherv",
            "MPI_Comm_split",
            "MPI_Comm_dup",
            "MPI_Barrier",
            "MPI_Barrier",
            "MPI_Finalize"
        ]
    );
    let (reduce, gather) = (&told[0].0, &told[3].0);
    assert_eq!((reduce.count, reduce.bytes, reduce.operation), (2, 8, Some("MPI_SUM")));
    assert_eq!(told[0].1, Told::default());
    assert_eq!(
        (gather.peer, gather.bytes, &gather.received[..]),
        (Some(0), 8, &[8, 0, 4][..])
    );
    assert!(told[4].1.made && told[5].1.made);
    assert_ne!(told[6].0.context, told[7].0.context);
}

#[test]
fn windows_are_told() {
    let told = witnessed(2, |world| {
        let window = Window::allocate(&world, 64, 4).unwrap();
        let (datatype, mut value) = (Datatype::predefined(Kind::I32), 7_i32);
        let operands = Operands {
            base: (&raw mut value).cast(),
            count: 1,
            datatype: &datatype,
        };
        let target = Target {
            rank: 1,
            displacement: 3,
            count: 1,
            datatype: &datatype,
        };
        window.fence().unwrap();
        // SAFETY: `value` lives until the fence.
        unsafe { window.put(&operands, &target) }.unwrap();
        window.fence().unwrap();
        window.lock(LockKind::Exclusive, 0).unwrap();
        window.unlock(0).unwrap();
        window.free().unwrap();
    });
    assert_eq!(
        names(&told),
        [
            "MPI_Win_allocate",
            "MPI_Win_fence",
            "MPI_Put",
            "MPI_Win_fence",
            "MPI_Win_lock",
            "MPI_Win_unlock",
            "MPI_Win_free",
            "MPI_Barrier",
            "MPI_Finalize"
        ]
    );
    let (made, put) = (&told[0], &told[2].0);
    assert!(made.1.made);
    assert_eq!((made.0.bytes, made.0.displacement), (64, Some(4)));
    assert_eq!((put.peer, put.displacement, put.bytes), (Some(1), Some(3), 4));
    assert_eq!(told[1].0.context, put.context);
    assert_eq!(told[4].0.lock, Some("MPI_LOCK_EXCLUSIVE"));
}

#[test]
fn what_is_set_up_and_its_starts_are_told_with_the_same_number() {
    let told = witnessed(2, |world| {
        let (mut room, datatype) = ([0_u8; 8], byte());
        let other = 1 - world.rank();
        // SAFETY: `room` outlives both, and nobody else uses it.
        unsafe {
            if world.rank() == 0 {
                let send = world.psend_init(room.as_ptr(), (4, 2), &datatype, other, 3).unwrap();
                let running = send.start().unwrap();
                send.ready_range(0..2).unwrap();
                send.ready_list(&[3, 2]).unwrap();
                running.wait().unwrap();
            } else {
                let receive = world
                    .precv_init(room.as_mut_ptr(), (2, 4), &datatype, other, 3)
                    .unwrap();
                assert!(!receive.wait_for(1).unwrap(), "it is not started");
                let running = receive.start().unwrap();
                assert!(receive.wait_for(1).unwrap() && receive.arrived(1).unwrap());
                running.wait().unwrap();
            }
            let barrier = world
                .collective_init("MPI_Barrier_init", &Call::of(Collective::Barrier), &none(), None, None)
                .unwrap();
            barrier.start().unwrap().wait().unwrap();
        }
    });
    assert_eq!(
        names(&told),
        [
            "MPI_Psend_init",
            "MPI_Start",
            "MPI_Pready_range",
            "MPI_Pready_list",
            "MPI_Wait",
            "MPI_Request_free",
            "MPI_Barrier_init",
            "MPI_Start",
            "MPI_Wait",
            "MPI_Request_free",
            "MPI_Barrier",
            "MPI_Finalize"
        ]
    );
    for (set_up, about) in [(0, vec![1, 2, 3, 5]), (6, vec![7, 9])] {
        let number = told[set_up].1.request.unwrap();
        for call in about {
            assert_eq!(told[call].0.requests, [number], "{:?}", told[call]);
        }
    }
    let (set_up, range, list) = (&told[0].0, &told[2].0, &told[3].0);
    assert_eq!((set_up.partitions, set_up.bytes, set_up.peer), (Some(4), 8, Some(1)));
    assert_eq!((range.displacement, range.count), (Some(0), 2));
    assert_eq!(list.ready, [3, 2]);
}

fn none() -> Buffers<'static> {
    Buffers {
        input: Region::None,
        output: Region::None,
    }
}
