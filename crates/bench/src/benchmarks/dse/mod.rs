//! `bench dse`: the experiments of the DSE paper, section 4.1, on today's sockets (`docs/papers.md`).
//!
//! One-way bursts and ping-pongs of 10,000 messages, one and two senders to one receiver, of single sizes and of the sizes
//! that the paper's applications have. Then the weak points that the paper sees in its protocol (section 4.2): a receiver
//! with many senders, and one that shares its CPU. Last, the sockets that a job of 60 processors needs, counted.

mod plan;
mod priority;
mod rows;

pub(crate) use self::plan::DseArgs;
use self::{
    plan::{Part, Plan},
    priority::Level,
};
use crate::{
    benchmarks::sockets,
    failure::Failure,
    harness::{
        rounds::{Entry, Series},
        setup::{Setup, check, dse_kinds},
    },
    machine::busy::Contention,
    options::Common,
    report::{Document, Row, Running, Table, emit},
    transports::settings::Job,
};

/// The end of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku bench dse                                     one-way messages and ping-pongs
  hikyaku bench dse --sizes 16,1024 --iterations 2000
  hikyaku bench dse --only mix --seed 7                 messages of mixed sizes
  hikyaku bench dse --only hot-spot,priority            the weak points that the paper names

The experiments of the DSE paper (docs/papers.md), on today's sockets: its protocol (`dse`), hikyaku's defaults and \
TCP, with wall time and the CPU time of each side; and the sockets that 60 processors need. `tcp/plain` is TCP as the \
paper's programs used it: one write a message, two receive calls, no TCP_NODELAY; `tcp` has TCP_NODELAY, and \
`tcp/batched` collects a burst's messages into writes of 64 KB (its ping-pongs are those of `tcp`).

`mix` has the sizes of the paper's table 1, measured in five applications: 60 % up to 16 bytes, 20 % up to 32, 18 % up \
to 128, 0.3 % up to 1,024, and 1.7 % larger ones (here up to 4,096). They are drawn with a seed, so that all transports \
and rounds have the same ones in the same order.

`hot-spot` has as many such messages for one receiver from 1, 3 and 7 senders: hikyaku's arrive on one socket, TCP's on \
one for each sender. In `priority`, a process computes on the receiver's CPU; the receiver has a higher priority, the \
same or a lower one (a nice value of 9 less, the same or 10 more), and both ends sleep while they wait (--wait), as \
the paper's did.";

/// Rounds if nothing is said: each experiment is long, so fewer than elsewhere.
const ROUNDS: u32 = 5;

/// Opens all transports, and measures a part. `steps`: of [`Progress`](crate::report::Progress), of all plans.
fn measure<'a>(
    plan: &Plan,
    common: &'a Common,
    steps: usize,
    running: &mut Option<Running<'a>>,
    contention: &mut Contention,
) -> Result<(), Failure> {
    let waiting = Common {
        wait: plan.wait,
        ..common.clone()
    };
    let mut setup = Setup::new(&waiting, &dse_kinds(common), plan.spokes)?;
    let table = rows::table(plan, &setup);
    let running = match running {
        Some(running) => {
            running.go_on(table)?;
            running
        }
        none => {
            let document = Document::new("dse", Some(setup.environment.clone()));
            none.insert(Running::new(&common.output, steps, table, document)?)
        }
    };
    let mut levels = match plan.part {
        Part::Priority => Level::all(setup.session.pinning()[0])?,
        _ => vec![Level::NONE],
    };
    let outcome = levels.iter_mut().try_for_each(|level| {
        let about = level.about();
        let show = |_: &[Entry], job: &Job, all: &[Series]| {
            let rows = all.iter().filter_map(|series| rows::row(plan.part, about, series, all));
            (rows::cells(plan.part, about, job, all), rows.collect())
        };
        level.during(|| setup.measure(&plan.jobs, running, |_, _| true, show).1)
    });
    // A receiver that shares its CPU waits for it, and that is what is measured.
    if plan.part != Part::Priority {
        contention.join(setup.contention());
    }
    outcome
}

/// Measures and prints.
pub(crate) fn run(options: &DseArgs) -> Result<(), Failure> {
    let common = &options.common;
    check(common, None)?;
    if common.np.is_some() {
        return Err(Failure::usage("--np: the parts of bench dse have 2, 3 and 8 processes"));
    }
    if common.capture.is_some() {
        return Err(Failure::usage(
            "bench dse: --capture cannot hold two protocols; capture another benchmark",
        ));
    }
    if common.connect.is_some() && options.only.contains(&Part::HotSpot) {
        return Err(Failure::usage(
            "--only hot-spot: --connect reaches one sender only; leave it out",
        ));
    }
    let common = &Common {
        rounds: common.rounds.or(Some(ROUNDS)),
        ..common.clone()
    };
    let plans = Plan::all(options);
    let rounds = common.rounds.unwrap_or(ROUNDS) as usize * dse_kinds(common).len();
    let steps = plans.iter().map(|plan| plan.jobs.len() * plan.levels() * rounds).sum();
    let (mut running, mut contention) = (None, Contention::new());
    let mut outcome = Ok(());
    for plan in &plans {
        if outcome.is_ok() {
            outcome = measure(plan, common, steps, &mut running, &mut contention);
        }
    }
    let counts = (outcome.is_ok() && options.has(Part::Sockets)).then(counted);
    match (running, counts) {
        (Some(mut running), counts) => {
            if let Some(counts) = counts {
                outcome = counts.and_then(|(table, rows)| running.append(&table, rows));
            }
            running.finish(outcome, contention, None)
        }
        (None, Some(counts)) => {
            let (table, rows) = counts?;
            let mut document = Document::new("dse", None);
            document.rows = rows;
            emit(&common.output, &document, &[table], None)
        }
        (None, None) => outcome,
    }
}

/// The sockets of a large job.
fn counted() -> Result<(Table, Vec<Row>), Failure> {
    let counts = sockets::count_all()?;
    let rows = counts.iter().map(|count| Row {
        transport: count.name.into(),
        pattern: Some("sockets"),
        processors: Some(sockets::PROCESSORS),
        sockets: Some(count.sockets),
        ..Row::default()
    });
    Ok((sockets::table(&counts), rows.collect()))
}
