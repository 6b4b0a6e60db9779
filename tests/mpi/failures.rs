//! The network of a process fails: every pending operation ends, and no memory is touched after that.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use hikyaku::{
    backends::{self, Backend, BindOptions, Sent, Transmit, Wake as Woken},
    forward_backend,
    mpi::{
        engine::{Communicator, Engine, Mode},
        error::ErrorClass,
    },
    time::Instant,
    transport::Transport,
};

use super::support::{byte, options};

/// A backend that fails on demand.
struct Failing {
    inner: Box<dyn Backend>,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the cable is cut"));
        }
        Ok(())
    }
}

impl Backend for Failing {
    forward_backend!(self => self.inner; capabilities, local_addr, received, stats, poll_notices, as_fd, descriptors);

    fn name(&self) -> &'static str {
        "failing"
    }
    fn transmit(&mut self, now: Instant, transmit: &Transmit<'_>) -> io::Result<Sent> {
        self.check()?;
        self.inner.transmit(now, transmit)
    }
    fn receive(&mut self, now: Instant, budget: usize) -> io::Result<usize> {
        self.check()?;
        self.inner.receive(now, budget)
    }
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        self.check()?;
        self.inner.wait(timeout)
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_failed_network_ends_everything_and_lets_go_of_memory() {
    for backend in ["loopback", "udp"] {
        let fails = Arc::new(AtomicBool::new(false));
        let inner = backends::bind(backend, "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap();
        let failing = Failing {
            inner,
            fails: Arc::clone(&fails),
        };
        let engine = Engine::on(Transport::builder(), Box::new(failing), 0).unwrap();
        // No process listens at the other address yet.
        let other = backends::bind(backend, "127.0.0.1:0".parse().unwrap(), &BindOptions::default()).unwrap();
        let addresses = [engine.local_addr(), other.local_addr()];
        let engine = engine.connect(&addresses, options()).unwrap();
        let comm = Communicator::world(&engine);
        let (mut letter, mut room) = (vec![1_u8; 200_000], vec![2_u8; 200_000]);
        let (base, place) = (letter.as_ptr(), room.as_mut_ptr());
        // SAFETY: both live until these have ended.
        let mut requests = unsafe {
            vec![
                comm.isend(Mode::Standard, base, 200_000, &byte(), 1, 0).unwrap(),
                comm.ireceive(place, 200_000, &byte(), 1, 0).unwrap(),
                // To this process itself: it would be received without any network.
                comm.isend(Mode::Synchronous, base, 200_000, &byte(), 0, 5).unwrap(),
            ]
        };
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        assert!(requests[1].poll(&mut context).is_pending());
        fails.store(true, Ordering::SeqCst);
        // The helper thread finds out, and wakes the task.
        let ended = loop {
            match requests[1].poll(&mut context) {
                Poll::Ready(ended) => break ended,
                Poll::Pending => thread::park(),
            }
        };
        let error = ended.unwrap_err();
        assert!(
            error.to_string().contains("the network of this process has failed"),
            "{error}"
        );
        requests.remove(1);
        for request in requests {
            assert_eq!(request.wait().unwrap_err().class(), ErrorClass::Other);
        }
        assert_eq!(engine.requests(), 0);
        letter.fill(9);
        room.fill(9);
        // The message to this process itself is gone, and with it all references to its memory.
        let mut taken = [0_u8; 1];
        // SAFETY: it lives until the call returns.
        let received = unsafe { comm.receive(taken.as_mut_ptr(), 1, &byte(), 0, 5) };
        assert_eq!((received.unwrap_err().class(), taken), (ErrorClass::Other, [0]));
        assert!(engine.progress().is_err() && engine.finalize(Duration::ZERO).is_err());
        assert_eq!(engine.requests(), 0);
    }
}

/// A process that has gone before this one has exchanged anything with it, and whose host says so, is not waited for as
/// if it were late.
#[test]
fn who_is_gone_before_it_was_met_is_missed_at_once() {
    let gone = Engine::bind(Transport::builder(), "udp", "127.0.0.1:0", 1)
        .unwrap()
        .local_addr();
    let engine = Engine::bind(Transport::builder(), "udp", "127.0.0.1:0", 0).unwrap();
    let addresses = [engine.local_addr(), gone];
    let comm = Communicator::world(&engine.connect(&addresses, options()).unwrap());
    // SAFETY: it lives until the call returns.
    let sent = unsafe { comm.send(Mode::Synchronous, [1_u8].as_ptr(), 1, &byte(), 1, 0) };
    let error = sent.unwrap_err();
    assert_eq!(error.class(), ErrorClass::ProcFailed);
    assert!(
        error.to_string().contains("no process listens at its address"),
        "{error}"
    );
}
