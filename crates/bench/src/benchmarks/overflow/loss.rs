//! A process that computes, and looks at the network in between, itself or by a poller.

use hikyaku::{
    PeerId,
    backends::dpdk::{DpdkBackend, DpdkPort},
    transport::{Transport, WaitPolicy},
};

use super::{
    host::{END, Folder, LONG, OURS, PORT, Running, THEIRS, at, config, failed, options, poller, rank, seconds},
    options::{OverflowArgs, Part, Row},
};
use crate::{failure::Failure, machine::pin};

fn transport(backend: DpdkBackend) -> Result<Transport, Failure> {
    let builder = Transport::builder()
        .config(config())
        .processor(1)
        .wait(WaitPolicy::Spin);
    builder.backend(Box::new(backend)).map_err(failed)
}

/// The process that computes.
pub(super) fn compute(args: &OverflowArgs) -> Result<(), Failure> {
    let mut transport = rank(THEIRS, PORT, 2)?;
    println!("ready");
    loop {
        loop {
            transport.progress().map_err(failed)?;
            let mut any = false;
            while let Some(message) = transport.try_receive().map_err(failed)? {
                any = true;
                if message.data() == END {
                    transport.close(LONG).map_err(failed)?;
                    return Ok(());
                }
            }
            if !any {
                break;
            }
        }
        let until = seconds() + args.compute as f64 / 1e3;
        while seconds() < until {
            std::hint::spin_loop();
        }
    }
}

/// Two cores, which may be the same.
fn cores() -> [usize; 2] {
    let places = pin::places();
    let at = |index: usize| places.get(index).or_else(|| places.first()).copied().unwrap_or(0);
    [at(0), at(1)]
}

/// This process, and those that it starts, run there. If that is not allowed they run anywhere.
fn pin(cpu: usize) {
    let _ = pin::pin(cpu);
}

/// Sends to a process that computes.
pub(super) fn measure(args: &OverflowArgs, folder: &Folder, polled: bool) -> Result<Row, Failure> {
    let name = if polled { "behind" } else { "alone" };
    let [first, second] = cores();
    pin(first);
    let port = DpdkPort::open(&options(args, &folder.memif(name, "server"), 1)?).map_err(failed)?;
    let backend = port.bind(at(OURS, PORT), 1).map_err(failed)?;
    let device = folder.memif(name, "client");
    let descriptors = args.descriptors.to_string();
    let mut poller_process = None;
    // The poller has a core of its own; without one, the receiver has.
    pin(second);
    let receiver = if polled {
        let (process, socket) = poller(args, folder, &device, 1, "spin")?;
        poller_process = Some(process);
        pin(first);
        Running::part(args, Part::Compute, &[("HIKYAKU_POLLER", &*socket)])?
    } else {
        let variables = [
            ("HIKYAKU_BACKEND", "dpdk"),
            ("HIKYAKU_DPDK_DEVICE", &*device),
            ("HIKYAKU_DPDK_MEMORY", "no-huge"),
            ("HIKYAKU_DPDK_DESCRIPTORS", &*descriptors),
        ];
        Running::part(args, Part::Compute, &variables)?
    };
    pin(first);
    let mut sender = transport(backend)?;
    let to: PeerId = sender.add_peer(at(THEIRS, PORT), 2).map_err(failed)?;
    let data = vec![7_u8; args.size as usize];
    sender.send_blocking(to, &data).map_err(failed)?;
    sender.flush(LONG).map_err(failed)?;
    let (before, taken) = (sender.stats(), port.sent());
    let begun = seconds();
    let mut messages = 0_u64;
    while seconds() < begun + args.seconds as f64 {
        let due = (seconds() - begun) * f64::from(args.rate);
        while (messages as f64) < due && sender.send(to, &data).is_ok() {
            messages += 1;
        }
        sender.progress().map_err(failed)?;
    }
    sender.flush(LONG).map_err(failed)?;
    let took = seconds() - begun;
    // Before the other end goes: with it the port begins to count anew.
    let (after, taken) = (sender.stats(), port.sent().saturating_sub(taken));
    sender.send(to, END).map_err(failed)?;
    sender.close(LONG).map_err(failed)?;
    drop(receiver);
    if let Some(process) = poller_process {
        process.end()?;
    }
    // What the protocol has sent and the port has not taken: the queue was full.
    let packets = after.packets_sent - before.packets_sent;
    let lost = packets.saturating_sub(taken);
    Ok(Row {
        table: "loss",
        transport: if polled { "a poller" } else { "the process" },
        queues: 1,
        messages,
        resends: after.resends - before.resends,
        lost,
        lost_percent: 100.0 * lost as f64 / packets as f64,
        mb_per_s: messages as f64 * f64::from(args.size) / took / 1e6,
        round_trips: None,
        longest_ms: None,
    })
}
