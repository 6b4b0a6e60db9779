//! Two tasks of one tokio thread send messages to and fro.
//!
//! ```sh
//! cargo run --features tokio --example tokio
//! ```

use std::{error::Error, time::Duration};

use hikyaku::transport::{AsyncTransport, Event, Incoming, Transport};
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut alice = AsyncTransport::new(Transport::builder().processor(1).bind_udp("127.0.0.1:0")?)?;
    let mut bob = AsyncTransport::new(Transport::builder().processor(2).bind_udp("127.0.0.1:0")?)?;
    let to_bob = alice.get_mut().add_peer(bob.get_ref().local_addr(), 2)?;
    let to_alice = bob.get_mut().add_peer(alice.get_ref().local_addr(), 1)?;

    let answering = async {
        loop {
            let sum: u64 = match bob.wait_any().await? {
                Incoming::Message(message) => message.iter().copied().map(u64::from).sum(),
                Incoming::Event(Event::PeerClosed { .. }) => return Ok("bob has heard the goodbye"),
                Incoming::Event(Event::PeerDown { error, .. }) => return Err(Box::<dyn Error>::from(error)),
                Incoming::Event(_) => continue,
            };
            bob.send(to_alice, &sum.to_le_bytes()).await?;
        }
    };
    let asking = async {
        for len in [10_usize, 1_000, 100_000, 10_000_000] {
            alice.send_bytes(to_bob, vec![1; len].into()).await?;
            let answer = timeout(Duration::from_secs(10), alice.receive()).await??;
            let sum = u64::from_le_bytes(answer.as_ref().try_into()?);
            println!("{len} bytes of 1 add up to {sum}");
        }
        alice.close(Duration::from_secs(10)).await?;
        Ok::<_, Box<dyn Error>>("alice has closed")
    };
    let (bob, alice) = tokio::join!(answering, asking);
    println!("{}, {}", alice?, bob?);
    Ok(())
}
