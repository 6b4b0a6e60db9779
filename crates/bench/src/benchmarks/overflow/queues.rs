//! Two pollers with processes behind them, of which the receiving one does not always run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use hikyaku::{
    poller::{Poller, PollerOptions},
    transport::Transport,
};
use nix::sys::signal::Signal;

use super::{
    host::{END, Folder, LONG, OURS, PORT, Running, THEIRS, at, failed, options, poller, rank, seconds},
    options::{OverflowArgs, Part, Row},
};
use crate::{failure::Failure, machine::clock};

/// UDP port of the neighbour that answers.
const NEIGHBOUR: u16 = 7_101;
/// Between two looks at the clock of a process that sends, and between two calls.
const PAUSE: Duration = Duration::from_micros(100);
/// Processes that send to the same one: the window of a single one is no larger than a queue.
const SENDERS: u32 = 8;
/// Bytes of a call.
const CALL: usize = 64;

/// Sends messages at a rate: those of the time of a computation at once, as processes do that have computed, too. Says
/// how many, and in how many seconds the last one was acknowledged.
pub(super) fn flood(args: &OverflowArgs) -> Result<(), Failure> {
    let mut transport = rank(OURS, 0, 1)?;
    let to = transport.add_peer(at(THEIRS, PORT), 2).map_err(failed)?;
    println!("ready");
    let data = vec![7_u8; args.size as usize];
    let every = args.compute.max(1) as f64 / 1e3;
    let burst = f64::from(args.rate) * every / f64::from(SENDERS);
    let begun = seconds();
    let mut messages = 0_u64;
    while seconds() < begun + args.seconds as f64 {
        let due = (1.0 + ((seconds() - begun) / every).floor()) * burst;
        while (messages as f64) < due && transport.send(to, &data).is_ok() {
            messages += 1;
        }
        transport.progress().map_err(failed)?;
        clock::pause(PAUSE);
    }
    transport.flush(LONG).map_err(failed)?;
    println!("{messages} {}", seconds() - begun);
    transport.send(to, END).map_err(failed)?;
    transport.close(LONG).map_err(failed)
}

/// Calls its neighbour again and again. Says how often, and how many seconds the longest call has taken.
pub(super) fn call(args: &OverflowArgs) -> Result<(), Failure> {
    let mut transport = rank(OURS, 0, 3)?;
    let to = transport.add_peer(at(THEIRS, NEIGHBOUR), 4).map_err(failed)?;
    println!("ready");
    let (begun, mut calls, mut longest) = (seconds(), 0_u64, 0.0_f64);
    while seconds() < begun + args.seconds as f64 {
        let called = seconds();
        transport.send(to, &[1; CALL]).map_err(failed)?;
        transport.receive(Some(LONG)).map_err(failed)?;
        longest = longest.max(seconds() - called);
        calls += 1;
        clock::pause(PAUSE);
    }
    println!("{calls} {longest}");
    transport.send(to, END).map_err(failed)?;
    transport.close(LONG).map_err(failed)
}

/// Takes messages until the last one of each sender has come.
pub(super) fn take() -> Result<(), Failure> {
    serve(rank(THEIRS, PORT, 2)?, SENDERS, false)
}

/// Sends messages back until the last one comes.
pub(super) fn answer() -> Result<(), Failure> {
    serve(rank(THEIRS, NEIGHBOUR, 4)?, 1, true)
}

fn serve(mut transport: Transport, mut peers: u32, answers: bool) -> Result<(), Failure> {
    println!("ready");
    while peers > 0 {
        let message = transport.receive(Some(LONG)).map_err(failed)?;
        if message.data() == END {
            peers -= 1;
            continue;
        }
        if answers {
            let (peer, data) = (message.peer(), message.data().to_vec());
            transport.send(peer, &data).map_err(failed)?;
        }
    }
    transport.close(LONG).map_err(failed)
}

/// Sends to a process whose poller is stopped again and again.
pub(super) fn measure(args: &OverflowArgs, folder: &Folder, queues: u16) -> Result<Row, Failure> {
    let link = format!("queues{queues}");
    let socket = folder.file("sends");
    let dpdk = options(args, &folder.memif(&link, "server"), queues)?;
    let mut polled = PollerOptions::new(dpdk, at(OURS, 0).ip(), socket.clone().into());
    polled.buffers = 16_384;
    polled.spin = Some(Duration::ZERO);
    let mut ours = Poller::start(polled).map_err(failed)?;
    let (theirs, far) = poller(args, folder, &folder.memif(&link, "client"), queues, "nap")?;
    let ends = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ends);
    let runs = thread::spawn(move || ours.run(|| asked.load(Ordering::Relaxed)).map(|()| ours));
    let measured = between(args, [&socket, &far], &theirs);
    // Whatever has happened, it is to go on.
    theirs.signal(Signal::SIGCONT)?;
    ends.store(true, Ordering::Relaxed);
    let ours = runs
        .join()
        .map_err(|_| failed("the poller has panicked"))?
        .map_err(failed)?;
    let [messages, took, calls, longest] = measured?;
    let (stats, lost) = (ours.stats(), ours.dpdk_stats().untaken);
    drop(ours);
    theirs.end()?;
    Ok(Row {
        table: "queues",
        transport: "two pollers",
        queues,
        messages: messages as u64,
        resends: stats.resends,
        lost,
        lost_percent: 100.0 * lost as f64 / stats.packets_sent as f64,
        mb_per_s: messages * f64::from(args.size) / took / 1e6,
        round_trips: Some(calls as u64),
        longest_ms: Some(longest * 1e3),
    })
}

/// Runs the processes behind pollers with these sockets, and stops the second poller now and then.
fn between(args: &OverflowArgs, sockets: [&str; 2], theirs: &Running) -> Result<[f64; 4], Failure> {
    let start = |part: Part, socket: usize| Running::part(args, part, &[("HIKYAKU_POLLER", sockets[socket])]);
    let _takes = start(Part::Take, 1)?;
    let _answers = start(Part::Answer, 1)?;
    let mut calls = start(Part::Call, 0)?;
    let mut senders = (0..SENDERS)
        .map(|_| start(Part::Flood, 0))
        .collect::<Result<Vec<_>, _>>()?;
    let time = Duration::from_millis(args.compute);
    let mut runs = true;
    while runs {
        theirs.signal(Signal::SIGSTOP)?;
        clock::pause(time);
        theirs.signal(Signal::SIGCONT)?;
        clock::pause(time);
        runs = calls.runs()?;
        for sender in &mut senders {
            runs |= sender.runs()?;
        }
    }
    let (mut messages, mut took) = (0.0, 0.0_f64);
    for sender in &mut senders {
        let [sent, time] = sender.numbers()?;
        messages += sent;
        took = took.max(time);
    }
    let [called, longest] = calls.numbers()?;
    Ok([messages, took, called, longest])
}
