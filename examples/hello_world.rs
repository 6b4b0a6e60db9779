//! Each process publishes its address and prints the addresses of all. Run it under any launcher:
//!
//! ```text
//! cargo build --example hello_world
//! hikyaku run -n 4 target/debug/examples/hello_world
//! mpiexec -n 4 target/debug/examples/hello_world
//! ```

use std::{error::Error, net::UdpSocket};

use hikyaku::bootstrap::{self, Environment};

fn main() -> Result<(), Box<dyn Error>> {
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
    Ok(world.finalize()?)
}
