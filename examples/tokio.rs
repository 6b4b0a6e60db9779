//! A transport in somebody else's event loop: tokio watches the socket and the deadline, the transport does the rest.
//! Two tasks of one thread send messages to and fro.
//!
//! ```sh
//! cargo run --example tokio
//! ```

use std::{error::Error, future, io, net, time::Duration};

use hikyaku::transport::{Event, Transport};
use tokio::{
    io::Interest,
    net::UdpSocket,
    time::{sleep_until, timeout},
};

/// A transport and tokio's view of its socket.
struct Courier {
    transport: Transport,
    /// Only to be watched. (For a backend that is no socket: `tokio::io::unix::AsyncFd`.)
    socket: UdpSocket,
}

impl Courier {
    fn new(transport: Transport) -> Result<Self, Box<dyn Error>> {
        let socket = transport.as_fd().ok_or("this backend has nothing to watch")?;
        let socket = net::UdpSocket::from(socket.try_clone_to_owned()?);
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self { transport, socket })
    }

    /// Waits until there may be something to do, and does it. Gives the number of messages that are ready.
    async fn progress(&mut self) -> Result<usize, Box<dyn Error>> {
        // Before waiting: what was sent meanwhile goes out, and the readiness is looked at with an empty socket.
        if self.transport.progress()? > 0 {
            return Ok(self.transport.ready());
        }
        let deadline = async {
            match self.transport.next_deadline() {
                Some(deadline) => sleep_until(deadline.into()).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            readable = self.socket.readable() => {
                readable?;
                // Tells tokio to ask the system again: the transport is going to take everything.
                let _: io::Result<()> = self.socket.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
            }
            () = deadline => {}
        }
        Ok(self.transport.progress()?)
    }

    /// The next message; `None` once the peer has said goodbye.
    async fn receive(&mut self) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        loop {
            if let Some(message) = self.transport.try_receive()? {
                return Ok(Some(message.into_vec()));
            }
            while let Some(event) = self.transport.next_event() {
                match event {
                    Event::PeerClosed { .. } => return Ok(None),
                    Event::PeerDown { error, .. } => return Err(error.into()),
                    _ => {}
                }
            }
            self.progress().await?;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut alice = Transport::builder().processor(1).bind("udp", "127.0.0.1:0")?;
    let mut bob = Transport::builder().processor(2).bind("udp", "127.0.0.1:0")?;
    let to_bob = alice.add_peer(2, bob.local_addr())?;
    let to_alice = bob.add_peer(1, alice.local_addr())?;
    let (mut alice, mut bob) = (Courier::new(alice)?, Courier::new(bob)?);

    let answering = async {
        while let Some(data) = bob.receive().await? {
            let sum: u64 = data.iter().copied().map(u64::from).sum();
            bob.transport.send(to_alice, &sum.to_le_bytes())?;
        }
        Ok::<_, Box<dyn Error>>("bob has heard the goodbye")
    };
    let asking = async {
        for len in [10_usize, 1_000, 100_000, 10_000_000] {
            alice.transport.send_bytes(to_bob, vec![1; len].into())?;
            let answer = timeout(Duration::from_secs(10), alice.receive()).await??;
            let mut sum = [0; 8];
            sum.copy_from_slice(&answer.ok_or("bob has gone")?);
            println!("{len} octets of 1 add up to {}", u64::from_le_bytes(sum));
        }
        alice.transport.close_peer(to_bob);
        while alice.receive().await?.is_some() {}
        Ok::<_, Box<dyn Error>>("alice has closed")
    };
    let (bob, alice) = tokio::join!(answering, asking);
    println!("{}, {}", alice?, bob?);
    Ok(())
}
