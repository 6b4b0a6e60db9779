//! Two processes over UDP. This program starts itself again as the second one, which reverses the lines that it gets.
//!
//! ```sh
//! printf 'one\ntwo\n' | cargo run --example udp_pair
//! ```

use std::{
    env,
    error::Error,
    io::{self, BufRead, IsTerminal},
    net::SocketAddr,
    process::Command,
    time::Duration,
};

use hikyaku::{
    Config,
    transport::{Event, Incoming, Transport},
};

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1) {
        Some(address) => reverse(address.parse()?),
        None => ask(),
    }
}

/// The first process: sends lines, prints what comes back.
fn ask() -> Result<(), Box<dyn Error>> {
    // The other process calls from a port that we do not know beforehand.
    let config = Config {
        accept_strangers: true,
        ..Config::default()
    };
    let mut transport = Transport::builder()
        .config(config)
        .processor(1)
        .environment()
        .bind("udp", "127.0.0.1:0")?;
    let mut other = Command::new(env::current_exe()?)
        .arg(transport.local_addr().to_string())
        .spawn()?;
    let peer = transport.receive(Duration::from_secs(10))?.peer();

    let given: Vec<String> = if io::stdin().is_terminal() {
        ["hello", "in the land of couriers"].map(str::to_owned).into()
    } else {
        io::stdin().lock().lines().collect::<Result<_, _>>()?
    };
    for line in &given {
        transport.send_blocking(peer, line.as_bytes())?;
    }
    for line in &given {
        let answer = transport.receive(Duration::from_secs(10))?;
        println!("{line} → {}", String::from_utf8_lossy(&answer));
    }
    transport.close(Duration::from_secs(5))?;
    other.wait()?;
    Ok(())
}

/// The second process: sends every line back, reversed, until the first one says goodbye.
fn reverse(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut transport = Transport::builder().processor(2).bind_udp("127.0.0.1:0")?;
    let peer = transport.add_peer(address, 1)?;
    transport.send(peer, b"here I am")?;
    loop {
        let reversed: String = match transport.wait_any(None)? {
            Incoming::Message(line) => String::from_utf8_lossy(&line).chars().rev().collect(),
            Incoming::Event(Event::PeerClosed { .. }) => return Ok(()),
            Incoming::Event(Event::PeerDown { error, .. }) => return Err(error.into()),
            Incoming::Event(_) => continue,
        };
        transport.send_blocking(peer, reversed.as_bytes())?;
    }
}
