//! `sim dse`: the UDP protocol of DSE against TCP, on the network of its time (the DSE paper, section 4;
//! `docs/papers.md`).

mod assumptions;
mod model;

use hikyaku::Recovery;
use hikyaku_bench::{
    failure::Failure,
    report::{Figure, Group, Line, Progress, Table, emit, number, size},
};
use serde::Serialize;

pub(crate) use self::model::Dse;
use self::model::{RUNS, Row, WAYS, Way, Which, messages, program};

#[derive(Debug, Serialize)]
struct Document {
    experiment: &'static str,
    seed: u64,
    rows: Vec<Row>,
}

fn measure(options: &Dse) -> Result<Vec<Row>, Failure> {
    const LOSSES: [f64; 5] = [0.0, 0.001, 0.01, 0.03, 0.1];
    let sensitivity = assumptions::STEPS;
    let total = 4 * options.sizes.len() + 2 * WAYS.len() * options.processors.len() + LOSSES.len() + sensitivity;
    let mut progress = Progress::new(options.basics.output.progress, total);
    let mut rows = Vec::new();
    for (pattern, ping_pong, senders) in [
        ("ping-pong", true, 1),
        ("ping-pong", true, 2),
        ("burst", false, 1),
        ("burst", false, 2),
    ] {
        for &bytes in &options.sizes {
            let [protocol_us, tcp_us] = [Way::Protocol, Way::Tcp(None)].map(|way| {
                let simulation = options.job(way, senders + 1, true);
                messages(options, &simulation, way, ping_pong, bytes)
            });
            let (protocol_us, tcp_us) = (protocol_us?, tcp_us?);
            rows.push(Row::Messages {
                pattern,
                senders,
                size: bytes,
                protocol_us,
                tcp_us,
                ratio: protocol_us / tcp_us,
            });
            progress.step(pattern, bytes);
        }
    }
    for (name, othello) in [("othello", true), ("sor", false)] {
        for (way, by) in WAYS {
            for &processors in &options.processors {
                rows.push(Row::Program {
                    program: name,
                    way,
                    processors,
                    seconds: program(options, by, processors, othello)?,
                });
                progress.step(name, processors as usize);
            }
        }
    }
    rows.extend(assumptions::rows(options, &mut progress)?);
    for loss in LOSSES {
        let [go_back_n_us, selective_repeat_us] = [Recovery::GoBackN, Recovery::SelectiveRepeat].map(|recovery| {
            let mut simulation = options.job(Way::Protocol, 2, true);
            simulation.network.loss = loss;
            simulation.config.recovery = recovery;
            messages(options, &simulation, Way::Protocol, false, 1_024)
        });
        rows.push(Row::Loss {
            loss,
            go_back_n_us: go_back_n_us?,
            selective_repeat_us: selective_repeat_us?,
        });
        progress.step("loss", 1_024);
    }
    Ok(rows)
}

/// Runs and prints.
pub(crate) fn run(options: &Dse) -> Result<(), Failure> {
    if !options.sizes.iter().all(|bytes| (1..=64 << 10).contains(bytes)) {
        return Err(Failure::usage("--sizes must be from 1 to 64K"));
    }
    let times = [options.tcp_packet, options.udp_packet, options.call];
    if !times.iter().all(|time| (0.0..=1e5).contains(time)) {
        return Err(Failure::usage(
            "--tcp-packet, --udp-packet and --call must be from 0 to 100000",
        ));
    }
    if !(0.0..=500.0).contains(&options.tcp_ack_delay) || !(0.0..=1e5).contains(&options.relay) {
        return Err(Failure::usage(
            "--tcp-ack-delay must be from 0 to 500, --relay from 0 to 100000",
        ));
    }
    if !(0.0..=100.0).contains(&options.ack_delay) {
        return Err(Failure::usage("--ack-delay must be from 0 to 100"));
    }
    let rows = measure(options)?;
    let tables = [
        message_table(options, &rows),
        program_table(options, &rows),
        assumptions::table(&rows),
        loss_table(&rows),
    ];
    let figure = figure(options, &rows);
    let document = Document {
        experiment: "dse",
        seed: options.basics.seed,
        rows,
    };
    emit(&options.basics.output, &document, &tables, Some(&figure))
}

fn figure(options: &Dse, rows: &[Row]) -> Figure {
    let points = |way| match options.figure {
        Which::Othello => seconds(rows, "othello", way),
        Which::Sor => seconds(rows, "sor", way),
        Which::Acknowledgements => assumptions::points(rows, "acknowledgements", way),
        Which::Relays => assumptions::points(rows, "relays", way),
        Which::Reports => assumptions::points(rows, "reports", way),
    };
    let (title, across) = match options.figure {
        Which::Othello => ("Othello", "processors"),
        Which::Sor => ("SOR", "processors"),
        Which::Acknowledgements => ("SOR, by the wait of the protocol's acknowledgements", "ms"),
        Which::Relays => ("SOR, by the time of a relay", "us"),
        Which::Reports => ("SOR, by the iterations between interim results", "iterations"),
    };
    Figure {
        title: format!("{title}: relays of TCP, and the protocol"),
        notes: vec![options.basics.note("10BASE-T, with collisions")],
        across: across.into(),
        has_table: false,
        up: "time, s".into(),
        lines: WAYS.iter().map(|(way, _)| Line::new(*way, points(way))).collect(),
    }
}

/// By processors.
fn seconds(rows: &[Row], of: &str, by: &str) -> Vec<(usize, f64)> {
    let point = |row: &Row| match *row {
        Row::Program {
            program,
            way,
            processors,
            seconds,
        } if program == of && way == by => Some((processors as usize, seconds)),
        _ => None,
    };
    rows.iter().filter_map(point).collect()
}

fn message_table(options: &Dse, rows: &[Row]) -> Table {
    let comments = vec![
        format!(
            "hikyaku sim dse: the protocol of DSE and a model of TCP on 10BASE-T, us per message or ping-pong, of {}",
            options.messages
        ),
        format!(
            "us of the processor: {} a packet of TCP, {} of the protocol, {} a call; seed {}",
            options.tcp_packet, options.udp_packet, options.call, options.basics.seed
        ),
    ];
    let columns = ["size", "protocol", "tcp", "protocol/tcp"];
    let mut table = Table::new(comments, vec![Group::new("", &["pattern"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Messages {
            pattern,
            senders,
            size: bytes,
            protocol_us,
            tcp_us,
            ratio,
        } = *row
        {
            table.row(vec![
                format!("{pattern} {senders}->1"),
                size::text(bytes),
                number(Some(protocol_us)),
                number(Some(tcp_us)),
                number(Some(ratio)),
            ]);
        }
    }
    table
}

fn program_table(options: &Dse, rows: &[Row]) -> Table {
    let processors: Vec<String> = options.processors.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = processors.iter().map(String::as_str).collect();
    let comments = vec![format!(
        "ms of two programs, mean of {RUNS} seeds, over relays of TCP and by the protocol; place: with most processors"
    )];
    let groups = vec![
        Group::new("", &["program", "way"]),
        Group::new("processors", &columns),
        Group::new("", &["place"]),
    ];
    let mut table = Table::new(comments, groups);
    for program in ["othello", "sor"] {
        let last = |way: &str| seconds(rows, program, way).last().map_or(0.0, |(_, seconds)| *seconds);
        for (way, _) in WAYS {
            let place = 1 + WAYS.iter().filter(|(other, _)| last(other) < last(way)).count();
            let times = seconds(rows, program, way);
            let mut cells = vec![program.to_owned(), way.to_owned()];
            cells.extend(times.iter().map(|(_, seconds)| number(Some(seconds * 1e3))));
            cells.push(place.to_string());
            table.row(cells);
        }
    }
    table
}

fn loss_table(rows: &[Row]) -> Table {
    let comments = vec!["us per message of a burst of 1024 bytes, where packets are lost".to_owned()];
    let columns = ["go-back-N", "selective repeat"];
    let mut table = Table::new(comments, vec![Group::new("", &["loss"]), Group::new("", &columns)]);
    for row in rows {
        if let Row::Loss {
            loss,
            go_back_n_us,
            selective_repeat_us,
        } = *row
        {
            table.row(vec![
                format!("{} %", loss * 100.0),
                number(Some(go_back_n_us)),
                number(Some(selective_repeat_us)),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use hikyaku::sim::Routing;

    use super::{model::mean, *};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Dse,
    }

    fn options() -> Dse {
        Command::parse_from(["dse", "--messages", "200"]).options
    }

    #[test]
    fn othello_comes_in_the_order_of_the_paper() {
        let options = options();
        let times = WAYS.map(|(_, way)| program(&options, way, 8, true).unwrap());
        assert!(times.is_sorted(), "{times:?}");
    }

    /// How often rank 0 gets the plate is fitted to the places of the meshes. The wait of the protocol's acknowledgements
    /// decides only whether it is second or, when nearly all of them ride on replies, first.
    #[test]
    fn sor_comes_in_the_order_of_the_paper() {
        let places = |words: &[&str]| {
            let options = Command::parse_from(["dse"].iter().chain(words)).options;
            assumptions::places(&options, false)
        };
        // Full, protocol, torus, ring, tree, chain.
        assert_eq!(places(&[]), [1, 2, 4, 3, 5, 6]);
        assert_eq!(places(&["--report", "4"]), [1, 2, 4, 3, 5, 6]);
        assert_eq!(places(&["--ack-delay", "1"])[..2], [1, 2]);
        assert_eq!(places(&["--ack-delay", "100"])[..2], [2, 1]);
        // Without interim results nothing speaks against a chain.
        assert!(places(&["--report", "0"])[5] < 4);
    }

    /// Squares have neighbours that are no neighbours in a ring, and then a torus is before it.
    #[test]
    fn sor_in_squares() {
        let options = Command::parse_from(["dse", "--division", "squares"]).options;
        let places = assumptions::places(&options, false);
        assert!(places[..2].iter().max() < places[2..].iter().min(), "{places:?}");
        assert_eq!(places[2..4], [3, 4], "{places:?}");
    }

    /// With Nagle's algorithm edges that cross wait for acknowledgements that wait for data, again and again.
    #[test]
    fn nagle_stalls_programs_that_exchange() {
        let time = |nagle| {
            let options = Dse { nagle, ..options() };
            mean(&options, Way::Tcp(Some(Routing::Ring)), 8, false, 1).unwrap()
        };
        assert!(time(true) > 4.0 * time(false));
    }

    #[test]
    fn tcp_is_a_little_better_in_ping_pongs_and_much_in_bursts_of_small_messages() {
        let options = Command::parse_from(["dse", "--messages", "1000"]).options;
        let ratio = |ping_pong, bytes| {
            let [ours, tcp] = [Way::Protocol, Way::Tcp(None)].map(|way| {
                let simulation = options.job(way, 2, true);
                messages(&options, &simulation, way, ping_pong, bytes).unwrap()
            });
            ours / tcp
        };
        let ping_pong = ratio(true, 16);
        assert!((1.08..1.12).contains(&ping_pong), "{ping_pong}");
        let [small, large] = [16, 1_024].map(|bytes| ratio(false, bytes));
        assert!(small > 1.3 && (0.9..1.25).contains(&large), "{small} {large}");
    }
}
