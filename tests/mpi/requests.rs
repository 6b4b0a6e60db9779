//! Requests of all kinds behind one type.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use hikyaku::mpi::{
    collectives::{Call, Collective},
    datatype::{Datatype, Kind},
    engine::{
        AnyRequest, AttachedBuffer, Buffers, Communicator, Completer, Generalized, Mode, PROC_NULL, PersistentMessage,
        Region, Status,
    },
    error::{Detail, Error, ErrorClass},
    operation::{Operation, Predefined},
};

use super::support::{THREADS, job, job_on, options};

const TAG: i32 = 5;

fn i64s() -> Datatype {
    Datatype::predefined(Kind::I64)
}

/// # Safety
/// `data` lives until nothing made by this runs any more.
unsafe fn sender(comm: &Communicator, mode: Mode, data: &[i64], to: i32) -> PersistentMessage {
    let data = (data.as_ptr().cast(), data.len() as u64, &i64s());
    // SAFETY: the caller's contract.
    unsafe { comm.send_init(mode, data, to, TAG) }.unwrap()
}

/// # Safety
/// As [`sender`].
unsafe fn receiver(comm: &Communicator, data: &mut [i64], from: i32) -> PersistentMessage {
    let data = (data.as_mut_ptr().cast(), data.len() as u64, &i64s());
    // SAFETY: the caller's contract.
    unsafe { comm.receive_init(data, from, TAG) }.unwrap()
}

#[test]
fn messages_start_again_and_again() {
    for backend in ["loopback", "udp"] {
        for count in [1, 50_000] {
            job_on(backend, 3, &options(), move |comm| {
                let (rank, n) = (comm.rank(), comm.size());
                let attached = Mutex::new(AttachedBuffer::default());
                attached.lock().unwrap().resize(1 << 20);
                let (mut sent, mut received) = (vec![0; count], vec![0; count]);
                for mode in [Some(Mode::Standard), Some(Mode::Synchronous), Some(Mode::Ready), None] {
                    let to = (rank + 1) % n;
                    let mut send: AnyRequest = match mode {
                        // SAFETY: `sent` lives until the end, and is only written to between the rounds.
                        Some(mode) => unsafe { sender(&comm, mode, &sent, to) },
                        // SAFETY: as above.
                        None => unsafe {
                            let data = (sent.as_ptr().cast(), count as u64, &i64s());
                            comm.buffered_send_init(data, to, TAG).unwrap()
                        },
                    }
                    .into();
                    // SAFETY: as above.
                    let mut receive: AnyRequest = unsafe { receiver(&comm, &mut received, (rank + n - 1) % n) }.into();
                    assert!(send.is_persistent() && !send.is_active());
                    for round in 0..5 {
                        sent.fill(i64::from(rank) + round * 10);
                        receive.start(&attached).unwrap();
                        comm.barrier().unwrap();
                        send.start(&attached).unwrap();
                        assert_eq!(receive.start(&attached).unwrap_err().class(), ErrorClass::Request);
                        let status = receive.wait().unwrap();
                        assert_eq!(
                            (status.source, status.tag, status.len),
                            ((rank + n - 1) % n, TAG, 8 * count as u64)
                        );
                        send.wait().unwrap();
                        assert!(
                            received
                                .iter()
                                .all(|x| *x == i64::from((rank + n - 1) % n) + round * 10)
                        );
                        assert!(!send.is_active() && !receive.is_active());
                    }
                    // An inactive request has an empty status, at once.
                    assert_eq!(receive.wait(), Ok(Status::EMPTY));
                    assert_eq!(receive.test(), Ok(Some(Status::EMPTY)));
                    assert_eq!(receive.status(), Ok(Some(Status::EMPTY)));
                    assert_eq!(receive.cancel().unwrap_err().class(), ErrorClass::Request);
                }
                attached.lock().unwrap().flush();
                assert_eq!(comm.engine().requests(), 0);
            });
        }
    }
}

#[test]
fn wrong_arguments_are_found_when_it_is_described() {
    job(2, |comm| {
        let mut data = [0_i64; 2];
        let base = data.as_mut_ptr().cast::<u8>();
        let class = |made: Result<PersistentMessage, Error>| made.map(drop).map_err(|error| error.class());
        let send = |count, to, tag| {
            // SAFETY: none of them is started.
            class(unsafe { comm.send_init(Mode::Standard, (base, count, &i64s()), to, tag) })
        };
        // SAFETY: as above.
        let receive = |from, tag| class(unsafe { comm.receive_init((base, 2, &i64s()), from, tag) });
        assert_eq!(send(2, 2, TAG), Err(ErrorClass::Rank));
        assert_eq!(send(2, 0, -1), Err(ErrorClass::Tag));
        assert_eq!(send(u64::MAX, 0, TAG), Err(ErrorClass::Count));
        assert_eq!(receive(2, TAG), Err(ErrorClass::Rank));
        assert_eq!(receive(-1, -1), Ok(()));
        assert_eq!(receive(0, -2), Err(ErrorClass::Tag));
        assert_eq!((send(2, PROC_NULL, TAG), receive(PROC_NULL, TAG)), (Ok(()), Ok(())));
    });
}

#[test]
fn one_table_holds_requests_of_all_kinds() {
    job(2, |comm| {
        let (other, attached) = (1 - comm.rank(), Mutex::default());
        let (sent, mut received) = ([1_i64, 2], [0_i64; 2]);
        let (mut own, mut parts) = ([7_i64; 4], [0_i64; 4]);
        let mut sum = [i64::from(comm.rank())];
        let datatype = i64s();
        let buffers = Buffers {
            input: Region::None,
            output: Region::Plain(sum.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Collective::Allreduce).with_count(1).with_in_place(true);
        let add = Operation::predefined(Predefined::Sum);
        // SAFETY: all memory lives until the end, and is not used while something runs.
        let mut table: Vec<AnyRequest> = unsafe {
            vec![
                receiver(&comm, &mut received, other).into(),
                sender(&comm, Mode::Standard, &sent, other).into(),
                comm.collective_init("MPI_Allreduce_init", &call, &buffers, Some(&add), None)
                    .unwrap()
                    .into(),
                comm.precv_init(parts.as_mut_ptr().cast(), (2, 2), &datatype, other, TAG)
                    .unwrap()
                    .into(),
                comm.psend_init(own.as_ptr().cast(), (4, 1), &datatype, other, TAG)
                    .unwrap()
                    .into(),
            ]
        };
        let calls: Vec<_> = table.iter().map(AnyRequest::call).collect();
        assert_eq!(
            calls,
            [
                "MPI_Recv_init",
                "MPI_Send_init",
                "MPI_Allreduce_init",
                "MPI_Precv_init",
                "MPI_Psend_init"
            ]
        );
        assert_eq!(AnyRequest::wait_ready(table.iter()), None, "all are inactive");
        for round in 1..4 {
            table.iter_mut().for_each(|request| request.start(&attached).unwrap());
            own.fill(round);
            let send = table.iter().find_map(AnyRequest::partitioned_send).unwrap();
            send.ready_range(0..4).unwrap();
            while let Some(ready) = AnyRequest::wait_ready(table.iter()) {
                assert!(table[ready].is_active() && table[ready].is_done());
                table[ready].wait().unwrap();
            }
            assert_eq!((received, parts), ([1, 2], [round; 4]));
            assert_eq!(sum, [round]);
            let arrived = table.iter().find_map(AnyRequest::partitioned_receive).unwrap();
            assert!(arrived.arrived(1).unwrap());
            // In the next round, the sum of both is one more.
            sum[0] = if comm.rank() == 0 { round } else { 1 };
        }
        // One that is begun once is over after that.
        // SAFETY: as above.
        let mut once: AnyRequest = unsafe {
            comm.ireceive(received.as_mut_ptr().cast(), 2, &datatype, PROC_NULL, TAG)
                .unwrap()
                .into()
        };
        assert!(once.is_active() && !once.is_persistent());
        assert_eq!(once.wait(), Ok(Status::NULL));
        assert_eq!(once.start(&attached).unwrap_err().class(), ErrorClass::Request);
        assert!(once.communicator().is_none() && table[0].communicator().unwrap().is_same(&comm));
        drop((once, table));
        assert_eq!(comm.engine().requests(), 0);
    });
}

/// What has been called, and what the callbacks give.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<&'static str>>>);

struct Operational {
    told: Told,
    status: Status,
    fails: bool,
}

impl Told {
    fn say(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn begin(&self, comm: &Communicator, status: Status, fails: bool) -> (AnyRequest, Completer) {
        let told = self.clone();
        AnyRequest::generalized(comm, Box::new(Operational { told, status, fails })).unwrap()
    }
}

fn code(call: &'static str, code: i32) -> Error {
    Error::new(ErrorClass::Other, call).with_detail(Detail::Code(code))
}

impl Generalized for Operational {
    fn query(&mut self) -> Result<Status, Error> {
        self.told.say("query");
        if self.fails {
            Err(code("query", 1))
        } else {
            Ok(self.status)
        }
    }

    fn cancel(&mut self, complete: bool) -> Result<(), Error> {
        self.told.say(if complete { "cancel complete" } else { "cancel" });
        if self.fails { Err(code("cancel", 2)) } else { Ok(()) }
    }

    fn free(&mut self) -> Result<(), Error> {
        self.told.say("free");
        if self.fails { Err(code("free", 3)) } else { Ok(()) }
    }
}

const STATUS: Status = Status {
    source: 42,
    tag: 7,
    len: 24,
    cancelled: false,
};

#[test]
fn operations_of_the_program_are_requests() {
    job(1, |comm| {
        let told = Told::default();
        let (mut request, completer) = told.begin(&comm, STATUS, false);
        assert_eq!(
            (request.test(), request.status(), request.is_done()),
            (Ok(None), Ok(None), false)
        );
        request.cancel().unwrap();
        completer.complete().unwrap();
        completer.complete().unwrap();
        request.cancel().unwrap();
        assert_eq!(request.status(), Ok(Some(STATUS)));
        assert_eq!(told.all(), ["cancel", "cancel complete", "query"]);
        assert_eq!(request.wait(), Ok(STATUS));
        assert_eq!((told.all(), request.is_active()), (vec!["query", "free"], false));
        drop(request);
        // Errors of callbacks: the first one counts.
        let (mut request, completer) = told.begin(&comm, STATUS, true);
        assert_eq!(*request.cancel().unwrap_err().detail(), Detail::Code(2));
        completer.complete().unwrap();
        assert_eq!(*request.test().unwrap_err().detail(), Detail::Code(1));
        drop((request, completer));
        assert_eq!(told.all(), ["cancel", "query", "free"]);
        // Freed before it is complete, and after.
        let (request, completer) = told.begin(&comm, STATUS, true);
        request.free().unwrap();
        assert!(told.all().is_empty());
        assert_eq!(*completer.complete().unwrap_err().detail(), Detail::Code(3));
        let (request, completer) = told.begin(&comm, STATUS, true);
        completer.complete().unwrap();
        assert_eq!(*request.free().unwrap_err().detail(), Detail::Code(3));
        assert_eq!((told.all(), comm.engine().requests()), (vec!["free", "free"], 0));
    });
}

#[test]
fn a_thread_that_waits_is_woken_by_the_one_that_completes() {
    if !THREADS {
        return;
    }
    job_on("udp", 2, &options(), |comm| {
        let told = Told::default();
        let mut data = [0_i64];
        let (request, completer) = told.begin(&comm, STATUS, false);
        // SAFETY: the receive is cancelled, and waited for, before the end.
        let receive = unsafe { comm.ireceive(data.as_mut_ptr().cast(), 1, &i64s(), 1 - comm.rank(), TAG) };
        let mut table = [receive.unwrap().into(), request];
        let waits = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !waits.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                completer.complete().unwrap();
            });
            waits.store(true, Ordering::Release);
            assert_eq!(AnyRequest::wait_ready(table.iter()), Some(1));
        });
        assert_eq!(table[1].wait(), Ok(STATUS));
        table[0].cancel().unwrap();
        assert!(table[0].wait().unwrap().cancelled);
    });
}
