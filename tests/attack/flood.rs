//! The cost of a flood for the honest pair: its goodput while the flood goes to it, against that while the same flood goes
//! to another socket of the host, in turns.

use std::{
    net::{SocketAddrV4, UdpSocket},
    time::Duration,
};

use hikyaku::wire::Token;

use crate::{
    battery::{Attacker, Battery, Length, stranger},
    forge::{Form, guess},
    honest::{Pair, Setup, Task},
    raw::{self, Icmp},
};

/// Datagrams a second.
const RATE: u64 = 100_000;
/// The share of the goodput that must be left: in the short form, which finds what stops a pair in a build without all
/// optimisations on a machine that does other things, and in the long one, which measures.
const LEFT: [f64; 2] = [0.5, 0.8];
/// The share that must be back after [`BACK_AFTER`], in the same way.
const BACK: [f64; 2] = [0.8, 0.95];
/// The share of the goodput before the first flood that must be there between floods: none does lasting harm.
const KEPT: f64 = 0.5;
const BACK_AFTER: Duration = Duration::from_millis(100);
/// Of each part of a turn. All times are those that the pair has its CPU, and the flood comes in that time: what other
/// programs do on this machine slows both.
const PART: Duration = Duration::from_millis(150);

/// Between two looks at how much is due.
const STEP: Duration = Duration::from_micros(50);

/// The packets of the flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    RandomBytes,
    WrongTokens,
    Openings,
    /// The same to ends that accept strangers, and echo.
    Strangers,
    Resets,
    /// Port unreachable.
    Icmp,
    /// Fragmentation needed.
    FragNeeded,
}

const FLOODS: [Flood; 7] = [
    Flood::RandomBytes,
    Flood::WrongTokens,
    Flood::Openings,
    Flood::Strangers,
    Flood::Resets,
    Flood::Icmp,
    Flood::FragNeeded,
];

pub(crate) fn run(battery: &mut Battery, length: Length) {
    let columns = ["flood", "sent", "dropped", "in kernel", "left", "back", "quiet"];
    let heading = format!(
        "{RATE} datagrams a second at both ends; left: goodput as a share of that while another socket gets them; back: {} \
         ms after the end; medians of turns",
        BACK_AFTER.as_millis()
    );
    battery.table(&heading, &columns);
    let tasks = [
        (Task::Stream, "256 KiB messages"),
        (Task::PingPong, "8-byte round trips"),
    ];
    for flood in FLOODS {
        for (task, what) in tasks {
            let name = format!("{flood:?}: {what}");
            // The short form has four of them.
            let short = matches!(
                (flood, task),
                (Flood::WrongTokens | Flood::FragNeeded, Task::Stream)
                    | (Flood::Strangers | Flood::Icmp, Task::PingPong)
            );
            if length.pick(short, true) && battery.wants(&format!("flood {name}")) {
                measure(battery, &name, flood, task, length);
            }
        }
    }
}

fn measure(battery: &mut Battery, name: &str, flood: Flood, task: Task, length: Length) {
    let (left_wanted, back_wanted) = (length.pick(LEFT[0], LEFT[1]), length.pick(BACK[0], BACK[1]));
    eprintln!("{name}");
    let mut setup = Setup::default();
    if flood == Flood::Strangers {
        setup.echo = true;
        setup
            .configs
            .iter_mut()
            .for_each(|config| config.accept_strangers = true);
    }
    let pair = Pair::start(&setup);
    // Each end has a socket beside it that nobody reads.
    let sockets = pair
        .addresses
        .map(|end| UdpSocket::bind((*end.ip(), 0)).expect("a free port"));
    let others = [0, 1].map(|side: usize| {
        let port = sockets[side].local_addr().expect("it is bound").port();
        SocketAddrV4::new(*pair.addresses[side].ip(), port)
    });
    let mut attacker = Attacker::new(pair.addresses);
    pair.settle();
    pair.assign(task);
    let (mut left, mut back, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
    let rest = |time: Duration| quiet_goodput(&pair, task, time);
    rest(PART);
    let first = rest(PART);
    for turn in 0..length.pick(5, 21_u32) {
        let mut rates = [0.0; 2];
        // Which goes first changes.
        for step in 0..2 {
            let here = ((turn + step) % 2) as usize;
            let targets = if here == 1 { pair.addresses } else { others };
            let mut number = 0;
            rates[here] = goodput(&pair, task, PART, &mut |time| {
                // All that are due by now.
                while number < (time.as_nanos() * u128::from(RATE) / 1_000_000_000) as u64 {
                    send(&mut attacker, flood, targets, number);
                    number += 1;
                }
                attacker.rest();
                let next = raw::now() + STEP;
                while raw::now() < next {
                    std::hint::spin_loop();
                }
            });
            rest(BACK_AFTER);
            if here == 1 {
                let early = rest(PART);
                let late = rest(PART);
                back.push(early / late.max(1.0));
                quiet.push(late);
            }
        }
        left.push(rates[1] / rates[0].max(1.0));
    }
    let report = pair.settle();
    let (left, back) = (median(left), median(back));
    let mut trouble = report.trouble.clone();
    if !report.complete {
        trouble.push("messages do not arrive".to_owned());
    }
    let quiet = median(quiet);
    let in_kernel = raw::kernel_drops(&pair.addresses);
    drop(pair);
    // (The machine itself may be slower than before: so is a pair that no flood has reached.)
    if quiet < KEPT * first && quiet < KEPT * goodput_of_another(&setup, task) {
        trouble.push(format!(
            "{:.2} of the goodput before the first flood is back",
            quiet / first
        ));
    }
    if left < left_wanted {
        trouble.push(format!("{left:.2} of the goodput is left, less than {left_wanted}"));
    }
    if back < back_wanted {
        trouble.push(format!(
            "{back:.2} of it is back after {BACK_AFTER:?}, less than {back_wanted}"
        ));
    }
    let quiet = if task == Task::Stream {
        format!("{:.0} MB/s", quiet / 1e6)
    } else {
        format!("{:.1} k/s", quiet / 1e3)
    };
    let cells = [
        attacker.sender.packets.to_string(),
        report.dropped().to_string(),
        in_kernel.to_string(),
        format!("{left:.2}"),
        format!("{back:.2}"),
        quiet,
    ];
    battery.row(name, &cells, &trouble);
}

/// Messages or bytes for each second of CPU time of the pair, while so much of it passes and `act` is called again and
/// again with what has passed.
fn goodput(pair: &Pair, task: Task, time: Duration, act: &mut dyn FnMut(Duration)) -> f64 {
    let count = || match task {
        Task::Stream => pair.bytes(),
        _ => pair.turns(),
    };
    let (from, begun) = (count(), pair.cpu_time());
    let end = raw::now() + 20 * time;
    while pair.cpu_time() < begun + time && raw::now() < end {
        act(pair.cpu_time() - begun);
    }
    (count() - from) as f64 / (pair.cpu_time() - begun).as_secs_f64()
}

/// The same while nobody else does anything.
fn quiet_goodput(pair: &Pair, task: Task, time: Duration) -> f64 {
    goodput(pair, task, time, &mut |_| raw::pause(Duration::from_millis(1)))
}

/// The goodput of a pair that has just started.
fn goodput_of_another(setup: &Setup, task: Task) -> f64 {
    let pair = Pair::start(setup);
    pair.settle();
    pair.assign(task);
    quiet_goodput(&pair, task, PART);
    quiet_goodput(&pair, task, PART)
}

/// One packet of the flood.
fn send(attacker: &mut Attacker, flood: Flood, targets: [SocketAddrV4; 2], number: u64) {
    let victim = (number / 2 % 2) as usize;
    let to = targets[victim];
    // Every other one from the address of the peer, if the target has one.
    let from = if number.is_multiple_of(2) {
        attacker.own
    } else {
        targets[1 - victim]
    };
    let Attacker { sender, forger, .. } = attacker;
    match flood {
        Flood::RandomBytes => sender.udp(from, to, forger.noise()),
        Flood::WrongTokens => sender.udp(from, to, forger.packet(Form::Data, guess(number), victim, 0)),
        Flood::Openings | Flood::Strangers => {
            sender.udp(stranger(number), to, forger.packet(Form::Open, Token::NONE, victim, 0));
        }
        Flood::Resets => sender.udp(from, to, forger.packet(Form::Reset, guess(number), victim, 0)),
        Flood::Icmp | Flood::FragNeeded => {
            let (code, rest) = if flood == Flood::Icmp { (3, 0) } else { (4, 1_280) };
            let error = Icmp { kind: 3, code, rest };
            sender.icmp(*from.ip(), error, to, targets[1 - victim], &[]);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
