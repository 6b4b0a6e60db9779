//! `hikyaku hello`: a process of a job, to try out launchers with.

use std::{
    io::{self, Write},
    net::UdpSocket,
    process, thread,
};

use clap::Args;
use hikyaku::bootstrap::{self, Environment, World};
use hikyaku_bench::failure::{Failure, While};

pub(crate) const EXAMPLES: &str = "\
Examples:
  hikyaku run -n 2 hikyaku hello
  mpiexec -n 2 hikyaku hello                            MPICH
  mpirun -n 2 hikyaku hello                             Open MPI
  srun --mpi=pmi2 -n 2 hikyaku hello                    Slurm
  HIKYAKU_IFACE=eth1 hikyaku run --host a,b hikyaku hello";

/// Options. The hidden ones test how launchers treat ranks that misbehave.
#[derive(Clone, Debug, Args)]
pub(crate) struct HelloArgs {
    /// This rank ends the job
    #[arg(long, hide = true, value_name = "RANK")]
    abort: Option<u32>,
    /// This rank exits without a goodbye
    #[arg(long, hide = true, value_name = "RANK")]
    vanish: Option<u32>,
    /// This rank waits for its end before it joins
    #[arg(long, hide = true, value_name = "RANK")]
    absent: Option<u32>,
    /// Exit code of the rank that misbehaves, or of all
    #[arg(long, hide = true, value_name = "CODE", default_value_t = 0)]
    code: u8,
    /// Wait for the end of the job instead of saying goodbye
    #[arg(long, hide = true)]
    stay: bool,
}

pub(crate) fn run(args: &HelloArgs) -> Result<(), Failure> {
    let environment = Environment::of_process();
    if args
        .absent
        .is_some_and(|rank| environment.get("HIKYAKU_RANK") == Some(&rank.to_string()))
    {
        wait_for_ever();
    }
    let fail = |error: bootstrap::BootstrapError| Failure::run(error.to_string());
    let mut world = bootstrap::discover(&environment).map_err(fail)?;
    let address = world.bind_address().map_err(fail)?;
    let socket = UdpSocket::bind(address).or_fail(&format!("binding {address}"))?;
    let address = socket.local_addr().or_fail("the address of a socket")?;
    world.put("address", address.to_string().as_bytes()).map_err(fail)?;
    world.fence().map_err(fail)?;
    // All addresses are read, and only the own one printed: a job of 1,000 ranks would print a million.
    let addresses = world.get_all("address").map_err(fail)?;
    say(&world, &addresses).or_fail("standard output")?;
    if args.abort == Some(world.rank()) {
        world.abort(args.code, "as it was told to");
    }
    if args.vanish == Some(world.rank()) {
        process::exit(i32::from(args.code));
    }
    if args.stay {
        wait_for_ever();
    }
    if args.abort.is_some() || args.vanish.is_some() {
        // For the one that will not come.
        world.fence().map_err(fail)?;
    }
    world.finalize().map_err(fail)?;
    process::exit(i32::from(args.code));
}

fn say(world: &World, addresses: &[Vec<u8>]) -> io::Result<()> {
    let own = String::from_utf8_lossy(&addresses[world.rank() as usize]);
    // The addresses of all, in a form that shows whether all ranks see the same.
    let all: Vec<u8> = addresses.join(&b' ');
    // One write, so that lines stay whole under launchers that do not look after that.
    let line = format!(
        "rank {} of {}: pid {}, local {} of {}, app {}, by {}, key {:08x}, at {own}, all {:08x}\n",
        world.rank(),
        world.size(),
        process::id(),
        world.local_rank(),
        world.local_size(),
        world.app_number(),
        world.launcher(),
        fingerprint(world.job_key().bytes()),
        fingerprint(&all)
    );
    io::stdout().write_all(line.as_bytes())
}

/// Tells whether two keys are the same without telling the key (FNV-1a).
fn fingerprint(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

fn wait_for_ever() -> ! {
    loop {
        thread::park();
    }
}
