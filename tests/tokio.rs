//! Transports on tokio: waits are futures, and may be cancelled.

use std::{
    future::Future,
    ops::Range,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use hikyaku::{
    Config, PeerError, PeerId,
    transport::{AsyncError, AsyncTransport, Event, FlushError, Incoming, NoDescriptor, Transport},
};

/// Long enough for anything that comes at all.
const LONG: Duration = Duration::from_secs(60);

/// A transport that takes little before a sender has to wait.
fn small() -> Config {
    Config {
        send_queue_bytes: 16 << 10,
        ..Config::default()
    }
}

fn bind(processor: u32, config: Config) -> AsyncTransport {
    let builder = Transport::builder().config(config).processor(processor);
    AsyncTransport::new(builder.bind("udp", "127.0.0.1:0").unwrap()).unwrap()
}

/// Two transports that know each other.
fn pair(config: &Config) -> (AsyncTransport, PeerId, AsyncTransport, PeerId) {
    let (mut a, mut b) = (bind(1, config.clone()), bind(2, config.clone()));
    let to_b = a.get_mut().add_peer(b.get_ref().local_addr(), 2).unwrap();
    let to_a = b.get_mut().add_peer(a.get_ref().local_addr(), 1).unwrap();
    (a, to_b, b, to_a)
}

/// Polls a future once, and drops it.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A message with a number.
fn numbered(number: u32) -> Vec<u8> {
    [number.to_le_bytes().as_slice(), &[0; 996]].concat()
}

/// Sends messages with these numbers, waiting for room where there is none, and says goodbye.
async fn send_all(mut from: AsyncTransport, to: PeerId, numbers: Range<u32>) {
    for number in numbers {
        from.send(to, &numbered(number)).await.unwrap();
    }
    from.flush().await.unwrap();
    from.close(LONG).await.unwrap();
}

/// Makes progress until the peer has said goodbye.
async fn goodbye(to: &mut AsyncTransport) {
    while !matches!(to.wait_event().await.unwrap(), Event::PeerClosed { .. }) {}
}

async fn number(from: &mut AsyncTransport) -> u32 {
    let message = from.receive().await.unwrap();
    u32::from_le_bytes(message[..4].try_into().unwrap())
}

#[tokio::test]
async fn messages_go_to_and_fro_until_the_goodbye() {
    let (mut a, to_b, mut b, to_a) = pair(&Config::default());
    let echo = async {
        loop {
            let data = match b.wait_any().await.unwrap() {
                Incoming::Message(message) => message.to_vec(),
                Incoming::Event(Event::PeerClosed { .. }) => return,
                Incoming::Event(event) => {
                    assert!(matches!(event, Event::PeerUp { .. }), "{event:?}");
                    continue;
                }
            };
            b.send(to_a, &data).await.unwrap();
        }
    };
    let ask = async {
        for len in [0, 1, 1_000, 1_000_000] {
            let data = vec![len as u8; len];
            a.send(to_b, &data).await.unwrap();
            assert_eq!(a.receive().await.unwrap().to_vec(), data);
        }
        a.close(LONG).await.unwrap();
    };
    tokio::join!(echo, ask);
}

/// A sender waits for a receiver that is slower, and everything arrives once, in order.
#[tokio::test]
async fn a_sender_waits_for_room() {
    let (a, to_b, mut b, _) = pair(&small());
    let receive = async {
        for expected in 0..500 {
            assert_eq!(number(&mut b).await, expected);
        }
        goodbye(&mut b).await;
    };
    tokio::join!(send_all(a, to_b, 0..500), receive);
}

/// A receive that is cancelled at any point takes nothing.
#[tokio::test]
async fn a_cancelled_receive_loses_nothing() {
    let (a, to_b, mut b, _) = pair(&small());
    let mut cancelled = 0;
    let receive = async {
        for expected in 0..500 {
            loop {
                tokio::select! {
                    biased;
                    received = number(&mut b) => {
                        assert_eq!(received, expected);
                        break;
                    }
                    () = tokio::task::yield_now() => cancelled += 1,
                }
            }
        }
        goodbye(&mut b).await;
    };
    tokio::join!(send_all(a, to_b, 0..500), receive);
    assert!(cancelled > 0, "every receive was ready at once");
}

/// Nothing of a message has been taken when its send is cancelled; when it is tried again it arrives once.
#[tokio::test]
async fn a_cancelled_send_takes_nothing() {
    let (mut a, to_b, mut b, _) = pair(&small());
    // No task receives: at last there is no room.
    let mut sent = 0;
    while let Poll::Ready(result) = poll_once(a.send(to_b, &numbered(sent))) {
        result.unwrap();
        sent += 1;
        assert!(sent < 1_000, "there is room for more than was configured");
    }
    for _ in 0..10 {
        assert!(poll_once(a.send(to_b, &numbered(sent))).is_pending());
    }
    let receive = async {
        for expected in 0..=sent {
            assert_eq!(number(&mut b).await, expected);
        }
        goodbye(&mut b).await;
    };
    tokio::join!(send_all(a, to_b, sent..sent + 1), receive);
    assert!(poll_once(b.receive()).is_pending(), "there is one too many");
}

#[tokio::test]
async fn a_message_by_reference_returns_its_token() {
    let (mut a, to_b, mut b, _) = pair(&Config::default());
    let send = async {
        let token = a.send_bytes(to_b, vec![7; 300_000].into()).await.unwrap();
        loop {
            if let Event::Sent { token: sent, .. } = a.wait_event().await.unwrap() {
                assert_eq!(sent, token);
                return;
            }
        }
    };
    let receive = async {
        assert_eq!(b.receive().await.unwrap().len(), 300_000);
        // It is acknowledged while this side waits for something else.
        b.receive().await.map(|message| message.len())
    };
    tokio::select! {
        another = receive => panic!("there was one message, and now {another:?}"),
        () = send => {}
    }
}

/// A flush that is cancelled changes nothing; one that cannot end because the peer is lost says so.
#[tokio::test]
async fn a_flush_tells_of_a_lost_peer() {
    let config = Config {
        death_timeout: Duration::from_millis(200),
        open_timeout: Duration::from_millis(200),
        ..Config::default()
    };
    let (mut a, to_b, b, _) = pair(&config);
    a.send(to_b, b"x").await.unwrap();
    assert!(poll_once(a.flush()).is_pending());
    let error = a.flush().await.unwrap_err();
    assert!(
        matches!(error, FlushError::Peer(peer, PeerError::TimedOut { .. }) if peer == to_b),
        "{error}"
    );
    drop(b);
}

/// No peer answers the goodbye.
#[tokio::test]
async fn a_close_has_an_end() {
    let (mut a, to_b, b, _) = pair(&Config::default());
    a.send(to_b, b"x").await.unwrap();
    let error = a.close(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, FlushError::TimedOut { peers: 1, .. }), "{error}");
    drop(b);
}

#[tokio::test]
async fn a_backend_without_a_descriptor_is_refused() {
    let transport = Transport::builder().bind("loopback", "127.0.0.1:0").unwrap();
    let error = AsyncTransport::new(transport).unwrap_err();
    assert!(
        matches!(error, AsyncError::NoDescriptor(NoDescriptor("loopback"))),
        "{error}"
    );
    assert!(error.to_string().contains("use the backend udp"), "{error}");
}
