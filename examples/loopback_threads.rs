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

use hikyaku::transport::{Event, Transport};

const ROUNDS: u32 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut asker = Transport::builder().processor(1).bind("loopback", "127.0.0.1:0")?;
    let home = asker.local_addr();
    let (tell, told) = mpsc::channel();

    let answerer = thread::spawn(move || -> Result<u64, Box<dyn Error + Send + Sync>> {
        let mut transport = Transport::builder().processor(2).bind("loopback", "127.0.0.1:0")?;
        let peer = transport.add_peer(1, home)?;
        tell.send(transport.local_addr())?;
        let mut sum = 0;
        loop {
            // The time-out is only there to look at the events now and then.
            if let Ok(message) = transport.receive(Some(Duration::from_millis(100))) {
                let mut number = [0; 8];
                number.copy_from_slice(&message);
                let number = u64::from_le_bytes(number);
                sum += number;
                transport.send_blocking(peer, &(2 * number).to_le_bytes())?;
            }
            while let Some(event) = transport.next_event() {
                if matches!(event, Event::PeerClosed { .. } | Event::PeerDown { .. }) {
                    return Ok(sum);
                }
            }
        }
    });

    let peer = asker.add_peer(2, told.recv()?)?;
    #[expect(clippy::disallowed_methods, reason = "an example that measures")]
    let start = Instant::now();
    for number in 0..u64::from(ROUNDS) {
        asker.send(peer, &number.to_le_bytes())?;
        let answer = asker.receive(Some(Duration::from_secs(10)))?;
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
