//! Two threads of one process over the loopback backend: one asks, the other answers, and both are timed.
//!
//! ```sh
//! cargo run --release --example loopback_threads
//! ```

use std::{
    error::Error,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use hikyaku::transport::{Event, Incoming, Transport};

const ROUNDS: u32 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut asker = Transport::builder().processor(1).bind_loopback()?;
    let home = asker.local_addr();
    let (tell, told) = mpsc::channel();

    let answerer = thread::spawn(move || -> Result<u64, Box<dyn Error + Send + Sync>> {
        let mut transport = Transport::builder().processor(2).bind_loopback()?;
        let peer = transport.add_peer(home, 1)?;
        tell.send(transport.local_addr())?;
        let mut sum = 0;
        loop {
            let number = match transport.wait_any(None)? {
                Incoming::Message(message) => u64::from_le_bytes(message.as_ref().try_into()?),
                Incoming::Event(Event::PeerClosed { .. }) => return Ok(sum),
                Incoming::Event(Event::PeerDown { error, .. }) => return Err(error.into()),
                Incoming::Event(_) => continue,
            };
            sum += number;
            transport.send_blocking(peer, &(2 * number).to_le_bytes())?;
        }
    });

    let peer = asker.add_peer(told.recv()?, 2)?;
    #[expect(clippy::disallowed_methods, reason = "an example that measures")]
    let start = Instant::now();
    for number in 0..u64::from(ROUNDS) {
        asker.send(peer, &number.to_le_bytes())?;
        let answer = asker.receive(Duration::from_secs(10))?;
        assert_eq!(answer.data(), (2 * number).to_le_bytes());
    }
    println!("{ROUNDS} questions, {:?} each", start.elapsed() / ROUNDS);
    asker.close(Duration::from_secs(5))?;
    let sum = answerer.join().map_err(|_| "the other thread panicked")?;
    println!(
        "the numbers that were asked add up to {}",
        sum.map_err(|error| error.to_string())?
    );
    Ok(())
}
