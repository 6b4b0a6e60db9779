//! A key-value service: requests and answers with tags, time limits, and a server that may restart at any time.
//!
//! ```sh
//! cargo run --example request_reply                                    # a server that restarts, and two clients
//! cargo run --example request_reply -- serve 127.0.0.1:4711            # in one window
//! cargo run --example request_reply -- put 127.0.0.1:4711 city Kyoto   # in another
//! cargo run --example request_reply -- get 127.0.0.1:4711 city
//! ```

use std::{
    collections::HashMap,
    env,
    error::Error,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use hikyaku::{
    Config, PeerId, SendError,
    reliability::Payload,
    transport::{Event, Incoming, SendBlockingError, SendOptions, Transport, WaitError},
};

type Failure = Box<dyn Error + Send + Sync>;

/// Processors. All clients have the same number: the server tells them apart by their sessions.
const SERVER: u32 = 1;
const CLIENT: u32 = 2;
/// The kinds of requests, as immediate data.
const GET: u64 = 1;
const PUT: u64 = 2;
/// The kinds of answers.
const NONE: u64 = 0;
const SOME: u64 = 1;

/// How long a client waits for one answer before it asks again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a client tries in all.
const LIMIT: Duration = Duration::from_secs(20);
const LINGER: Duration = Duration::from_secs(5);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => demonstrate(),
        ["serve", address] => serve(&mut Server::open(address.parse()?)?, &mut HashMap::new(), None),
        ["put", address, key, value] => Client::open(address.parse()?)?.put(key, value.as_bytes()),
        ["get", address, key] => {
            let value = Client::open(address.parse()?)?.get(key)?;
            println!(
                "{}",
                value
                    .as_deref()
                    .map_or_else(|| "(nothing)".into(), String::from_utf8_lossy)
            );
            Ok(())
        }
        _ => Err("say serve ADDRESS, put ADDRESS KEY VALUE, or get ADDRESS KEY".into()),
    }
}

/// A server that restarts in the middle, with what it had in memory, while two clients use it.
fn demonstrate() -> Result<(), Failure> {
    let mut server = Server::open("127.0.0.1:0".parse()?)?;
    let address = server.0.local_addr();
    let serving = thread::spawn(move || {
        let mut values = HashMap::new();
        serve(&mut server, &mut values, Some(500))?;
        drop(server);
        println!("the server restarts");
        serve(&mut Server::open(address)?, &mut values, Some(1_500))
    });
    let clients = ["Edo", "Osaka"].map(|city| {
        thread::spawn(move || {
            let mut client = Client::open(address)?;
            for number in 0..500_u32 {
                let key = format!("{city} {}", number % 10);
                client.put(&key, &number.to_le_bytes())?;
                let value = client.get(&key)?;
                assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "{key}");
            }
            println!("{city}: 1000 requests, {} asked again", client.again);
            Ok::<_, Failure>(())
        })
    });
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    serving.join().map_err(|_| "the server panicked")?
}

struct Server(Transport);

impl Server {
    fn open(address: SocketAddr) -> Result<Self, Failure> {
        // Clients call from addresses that the server does not know beforehand.
        let config = Config {
            accept_strangers: true,
            ..Config::default()
        };
        let builder = Transport::builder().processor(SERVER).config(config);
        Ok(Self(builder.bind_udp(address)?))
    }
}

/// Answers requests (at least `count`, if that is given, and until the last client has gone).
fn serve(server: &mut Server, values: &mut HashMap<String, Vec<u8>>, count: Option<u32>) -> Result<(), Failure> {
    let transport = &mut server.0;
    let (mut answered, mut clients) = (0, 0);
    loop {
        let (peer, id, answer) = match transport.wait_any(None)? {
            Incoming::Message(request) => (
                request.peer(),
                request.tag(),
                answer(values, &request, request.immediate()),
            ),
            Incoming::Event(event) => {
                match event {
                    Event::PeerUp { .. } => clients += 1,
                    Event::PeerClosed { .. } | Event::PeerDown { .. } => clients -= 1,
                    _ => {}
                }
                if clients == 0 && count.is_some_and(|count| answered >= count) {
                    return Ok(());
                }
                continue;
            }
        };
        let options = SendOptions {
            tag: Some(id),
            immediate: Some(if answer.is_some() { SOME } else { NONE }),
            ..SendOptions::default()
        };
        match transport.send_blocking_with(peer, answer.as_deref().unwrap_or_default(), &options) {
            // A client that is gone wants no answer.
            Ok(()) | Err(SendBlockingError::Send(SendError::Peer(..))) => answered += 1,
            Err(error) => return Err(error.into()),
        }
        // The demonstration's restart: with clients connected.
        if count == Some(500) && answered == 500 {
            return Ok(());
        }
    }
}

/// A request is the length of the key in a byte, the key, and the value to put.
fn answer(values: &mut HashMap<String, Vec<u8>>, request: &[u8], kind: Option<u64>) -> Option<Vec<u8>> {
    let (&len, rest) = request.split_first()?;
    let (key, value) = rest.split_at_checked(len.into())?;
    let key = String::from_utf8(key.to_vec()).ok()?;
    if kind == Some(PUT) {
        return values.insert(key, value.to_vec());
    }
    values.get(&key).cloned()
}

struct Client {
    transport: Transport,
    server: PeerId,
    /// Number of the last request.
    id: u64,
    /// How often a request was sent again.
    again: u32,
}

impl Client {
    fn open(server: SocketAddr) -> Result<Self, Failure> {
        let here = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let mut transport = Transport::builder().processor(CLIENT).bind_udp(here)?;
        let server = transport.add_peer(server, SERVER)?;
        Ok(Self {
            transport,
            server,
            id: 0,
            again: 0,
        })
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.ask(GET, key, &[])
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.ask(PUT, key, value).map(drop)
    }

    /// Asks until there is an answer: a request may be sent, and be executed, more than once.
    fn ask(&mut self, kind: u64, key: &str, value: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        self.id += 1;
        let options = SendOptions {
            tag: Some(self.id),
            immediate: Some(kind),
            ..SendOptions::default()
        };
        let request = [&[u8::try_from(key.len())?], key.as_bytes(), value].concat();
        let end = now() + LIMIT;
        while now() < end {
            match self.transport.send_with(self.server, Payload::Copy(&request), &options) {
                Ok(_) => {}
                // The session has ended: begin another.
                Err(SendError::Peer(..)) => {
                    self.transport.reconnect(self.server);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            match self.answer(now() + PATIENCE)? {
                Some(answer) => return Ok(answer),
                None => self.again += 1,
            }
        }
        Err(format!("the server has not answered for {LIMIT:?}").into())
    }

    /// The answer to the last request; `None` if there is none in time or the session has ended.
    fn answer(&mut self, until: Instant) -> Result<Option<Option<Vec<u8>>>, Failure> {
        loop {
            let left = until.saturating_duration_since(now());
            match self.transport.wait_any(left) {
                // (An answer to an earlier request was late.)
                Ok(Incoming::Message(message)) if message.tag() == self.id => {
                    let found = message.immediate() == Some(SOME);
                    return Ok(Some(found.then(|| message.into_vec())));
                }
                Ok(Incoming::Event(Event::PeerClosed { .. } | Event::PeerDown { .. })) => return Ok(None),
                Ok(_) => {}
                Err(WaitError::TimedOut(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.transport.flush(LINGER);
    }
}

#[expect(clippy::disallowed_methods, reason = "an example that limits its waits")]
fn now() -> Instant {
    Instant::now()
}
