//! The arguments of `hikyaku sim`. `docs/measured/simulation.md` shows what comes out.

use clap::{Args, Subcommand};
use hikyaku_bench::failure::Failure;

use crate::{
    experiments::{dpdk_btl, dse, incast, optical, pacs_cs, scale},
    replay::{self, Replay},
};

const SCALE: &str = "\
Examples:
  hikyaku sim scale                                      2 to 16384 ranks: some minutes, 6 GB
  hikyaku sim scale --ranks 1024,16384 --format json
  hikyaku sim scale --bandwidth 100e9 --plot scale.svg
  hikyaku sim scale --ranks 1024 --per-host 16           16 ranks share a host, and its memory

The program of each rank: barriers, in which sessions open; a barrier; an allreduce of 8 bytes. `virtual` is the \
time from the first rank's beginning to the last one's end, `model` what alpha and beta say of ranks that each have a \
host of their own, with alpha measured between two simulated ranks. Alltoall, of a byte for each, is pairwise up to \
--pairwise ranks, by Bruck's algorithm beyond; all ranks talk to all in the former. (With --per-host, by what the \
model chooses.) `idle` is heap per rank before anything was sent, `used` after all of it, both beside \
the stack.";

const INCAST: &str = "\
Examples:
  hikyaku sim incast                                     1 to 1024 senders, eager and by rendezvous
  hikyaku sim incast --senders 1024 --bytes 4096 --seed 7

Each sender has one message for the same receiver, all at once. `eager`: sent without asking, so the switch's \
queue overflows; `grants`: asked for first, and the receiver paces those who send (its regions are the credit).";

const OPTICAL: &str = "\
Examples:
  hikyaku sim optical                                    figures 6 to 9 and NPB FT: a minute
  hikyaku sim optical --ports 1,8 --ranks 100 --figures-only
  hikyaku sim optical --wavelengths 8 --failure 0.1     what the paper leaves open
  hikyaku sim optical --change 5ms:ports=1 --change 30ms:ports=4
  hikyaku sim optical --figures-only --change 5ms:ports@3=0 --change 1s:ports@3=2
  hikyaku sim optical --format json --plot optical.svg

`naive` opens a connection for each message, `planned` (the columns with ports) opens as many as there are ports \
ahead and keeps each until its last use, `ideal` needs none. Beside the formulas are the real collectives with the full \
protocol on simulated circuits. FT is a recorded run, replayed. docs/papers.md names the paper (the optics paper), \
docs/measured/simulation.md compares.

--change takes effect at its time in each run, which begins at 0: ports of all hosts or of one, counted from 0, or \
wavelengths. Connections beyond a lower number are cut with what is on them, which is sent again. If none comes \
back and ranks wait for one, the run ends with an error that lists which rank waits for which.";

const REPLAY: &str = "\
Examples:
  HIKYAKU_TRACE=traces hikyaku run -n 16 ./prog          records
  hikyaku sim replay traces                              the same messages, on 10 Gb/s Ethernet
  hikyaku sim replay traces --bandwidth 100e9 --compute 0.5
  hikyaku sim replay traces --ports 4 --algorithm alltoall=recursive-doubling
  hikyaku sim replay traces --ports 4 --change 20ms:wavelengths=2 --change 1s:wavelengths=40

Ranks do what they have done: they compute for as long as they did between calls, and call the same with as many \
bytes. A receive from any source gets the message that it got then. Messages, persistent and partitioned ones, too, \
collectives, windows and new communicators are replayed; several threads and calls that failed are not, which is said \
with the line.";

const PACS_CS: &str = "\
Examples:
  hikyaku sim pacs-cs                                    to 6 rails, 16x16x10: minutes, 6 GB
  hikyaku sim pacs-cs --grids 8x8x8 --copy 0.4
  hikyaku sim pacs-cs --format json --plot rails.svg

Each node swaps a message with six neighbours at once. `zero-copy`: buffer arrays, which the program fills in place and \
takes by their ids; `with copies`: messages that the program packs before and unpacks after, which takes --copy for each \
byte: by the memory of the paper's machine and a measurement of this one (`hikyaku bench copy`), not by its results. \
docs/papers.md names the paper (the PACS-CS paper), docs/measured/simulation.md compares.";

const DSE: &str = "\
Examples:
  hikyaku sim dse                                        bursts, ping-pongs, Othello, SOR, losses
  hikyaku sim dse --messages 2000 --sliding
  hikyaku sim dse --format json --plot othello.svg

All on 10BASE-T, with collisions. TCP is a model of 4.4BSD's: slow start, Nagle's algorithm, acknowledgements that wait \
for a tick of 200 ms. Over a mesh, messages go from processor to processor, each of which receives them whole and sends \
them on. `place` is the order of the ways with most processors; the table of assumptions says what it depends on, and \
--plot with --figure draws that. docs/papers.md names the paper (the DSE paper), docs/measured/simulation.md compares.";

const DPDK_BTL: &str = "\
Examples:
  hikyaku sim dpdk-btl                                   eager limits, polling, queues
  hikyaku sim dpdk-btl --copy 0.1 --queue 512
  hikyaku sim dpdk-btl --format json --plot eager.svg

`process`: a rank takes packets from its queue only within MPI; `dedicated`: one poller for each host takes those of \
all ranks; `combined`: the poller takes small messages, the rank the payload of rendezvous. docs/papers.md names the \
paper (the DPDK paper), docs/measured/simulation.md compares.";

/// Arguments of `hikyaku sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

/// The experiments.
#[derive(Debug, Subcommand)]
enum Experiment {
    /// Barrier and allreduce of ever more ranks, against the alpha-beta model
    #[command(after_help = SCALE)]
    Scale(scale::Scale),
    /// Many senders, one receiver, with and without the receiver's grants
    #[command(after_help = INCAST)]
    Incast(incast::Incast),
    /// Collectives on circuit-switched optics, connections opened per message or planned
    #[command(after_help = OPTICAL)]
    Optical(optical::Optical),
    /// Eager limits, ways of polling and receive queues
    #[command(after_help = DPDK_BTL)]
    DpdkBtl(dpdk_btl::DpdkBtl),
    /// The UDP protocol of DSE against TCP, on the network of its time
    #[command(after_help = DSE)]
    Dse(dse::Dse),
    /// Exchange with six neighbours over many rails and hyper-crossbars
    #[command(after_help = PACS_CS)]
    PacsCs(pacs_cs::PacsCs),
    /// A recorded job once more, on another network
    #[command(after_help = REPLAY)]
    Replay(Replay),
}

/// Runs an experiment.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.experiment {
        Experiment::Scale(scale) => scale::run(scale),
        Experiment::Incast(incast) => incast::run(incast),
        Experiment::Optical(optical) => optical::run(optical),
        Experiment::DpdkBtl(dpdk_btl) => dpdk_btl::run(dpdk_btl),
        Experiment::Dse(dse) => dse::run(dse),
        Experiment::PacsCs(pacs_cs) => pacs_cs::run(pacs_cs),
        Experiment::Replay(options) => replay::run(options),
    }
}
