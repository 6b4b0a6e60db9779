//! `bench overflow`: what is lost while a process computes, with the process looking at the network itself and with a
//! poller that looks for it; and what is lost while the poller itself does not run, with one queue and with several.

#[cfg(feature = "dpdk")]
mod host;
#[cfg(feature = "dpdk")]
mod loss;
mod options;
#[cfg(feature = "dpdk")]
mod queues;

#[cfg(feature = "dpdk")]
use self::options::Part;
#[cfg(not(feature = "dpdk"))]
use self::options::Row;
use self::options::print;
pub(crate) use self::options::{EXAMPLES, OverflowArgs};
use crate::failure::Failure;

#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(args: &OverflowArgs) -> Result<(), Failure> {
    let _ = (args.seconds, &args.queues, args.part);
    let _: fn(&OverflowArgs, Vec<Row>) -> Result<(), Failure> = print;
    Err(Failure::usage(
        "bench overflow: this build has no poller; it takes the feature dpdk (and dpdk-dev)",
    ))
}

#[cfg(feature = "dpdk")]
pub(crate) fn run(args: &OverflowArgs) -> Result<(), Failure> {
    match args.part {
        Some(Part::Compute) => loss::compute(args),
        Some(Part::Flood) => queues::flood(args),
        Some(Part::Call) => queues::call(args),
        Some(Part::Take) => queues::take(),
        Some(Part::Answer) => queues::answer(),
        None => {
            let folder = host::Folder::new()?;
            let mut rows = vec![
                loss::measure(args, &folder, false)?,
                loss::measure(args, &folder, true)?,
            ];
            for &queues in &args.queues {
                rows.push(queues::measure(args, &folder, queues)?);
            }
            print(args, rows)
        }
    }
}
