//! Who is where: each process publishes its address, and prints where all are. Run it under any launcher:
//!
//! ```text
//! cargo build --example hello_world
//! hikyaku run -n 4 target/debug/examples/hello_world
//! mpiexec -n 4 target/debug/examples/hello_world
//! ```

use std::{env, error::Error, net::UdpSocket, process::ExitCode};

use hikyaku::bootstrap::{self, Environment, World};

fn main() -> ExitCode {
    match hello() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn hello() -> Result<(), Box<dyn Error>> {
    let mut world = bootstrap::discover(&Environment::of_process())?;
    let socket = UdpSocket::bind(world.bind_address()?)?;
    world.put("address", socket.local_addr()?.to_string().as_bytes())?;
    world.fence()?;
    let addresses = world.get_all("address")?;
    let addresses: Vec<_> = addresses
        .iter()
        .map(|address| String::from_utf8_lossy(address))
        .collect();
    println!(
        "rank {} of {} (local {} of {}, app {}, {}) sees {}",
        world.rank(),
        world.size(),
        world.local_rank(),
        world.local_size(),
        world.app_number(),
        world.launcher(),
        addresses.join(" ")
    );
    misbehave(world)
}

/// What a launcher must cope with, for its tests: `abort 1 7` has rank 1 abort the job with code 7.
fn misbehave(mut world: World) -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let chosen = |rank: &str| rank.parse() == Ok(world.rank());
    match args[..] {
        ["abort", rank, code] if chosen(rank) => world.abort(code.parse()?, "as it was told to"),
        ["vanish", rank] if chosen(rank) => return Ok(()),
        // The others wait for the one that will not come.
        ["abort" | "vanish", ..] => world.fence()?,
        _ => {}
    }
    Ok(world.finalize()?)
}
