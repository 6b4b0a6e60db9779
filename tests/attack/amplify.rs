//! How many bytes come back to an address that has never answered anything.

use std::{
    net::{SocketAddrV4, UdpSocket},
    time::Duration,
};

use hikyaku::wire::Token;

use crate::{
    battery::{Battery, Length},
    forge::{FORMS, Forger, Form, guess},
    honest::{Pair, Setup},
    raw,
};

/// Bytes that may come back for each that was sent (RFC 9000, section 8).
const MOST: f64 = 3.0;

/// Where a packet comes from that is never answered.
struct Silent {
    socket: UdpSocket,
    sent: u64,
    received: u64,
}

pub(crate) fn run(battery: &mut Battery, length: Length) {
    if !battery.wants("amplification") {
        return;
    }
    let mut open = Setup {
        echo: true,
        ..Setup::default()
    };
    open.configs[0].accept_strangers = true;
    let time = Duration::from_secs(length.pick(3, 15));
    let columns = [
        "packet",
        "sent B",
        "known only",
        "guessed token",
        "strangers",
        "guessed token",
        "most",
    ];
    let heading = "bytes that come back to an address that never answers: from one that knows its peers, and from one that \
                   accepts strangers and echoes";
    battery.table(heading, &columns);
    let mut trouble = Vec::new();
    let answers = [Setup::default(), open].map(|setup| {
        eprintln!("amplification");
        let pair = Pair::start(&setup);
        let answers = measure(pair.addresses[0], time);
        trouble.extend(pair.settle().trouble);
        answers
    });
    for (index, form) in FORMS.iter().enumerate() {
        let all = [
            &answers[0][index][0],
            &answers[0][index][1],
            &answers[1][index][0],
            &answers[1][index][1],
        ];
        let ratio = |silent: &Silent| silent.received as f64 / silent.sent as f64;
        let most = all.iter().map(|silent| ratio(silent)).fold(0.0, f64::max);
        let mut trouble = trouble.clone();
        if most > MOST {
            trouble.push(format!("{most:.1} × the bytes, more than {MOST}"));
        }
        let mut cells = vec![all[0].sent.to_string()];
        cells.extend(all.iter().map(|silent| silent.received.to_string()));
        cells.push(format!("{most:.1} ×"));
        battery.row(&format!("{form:?}"), &cells, &trouble);
    }
}

/// Sends one packet of each sort, without a token and with a guessed one, each from an address of its own, and listens.
fn measure(victim: SocketAddrV4, time: Duration) -> Vec<[Silent; 2]> {
    let mut forger = Forger::new();
    let send = |&form: &Form| {
        let token = guess(forger.random());
        [
            Silent::send(&mut forger, victim, form, Token::NONE),
            Silent::send(&mut forger, victim, form, token),
        ]
    };
    let mut all: Vec<[Silent; 2]> = FORMS.iter().map(send).collect();
    let end = raw::now() + time;
    let mut buffer = vec![0; 65_536];
    while raw::now() < end {
        for silent in all.iter_mut().flatten() {
            while let Ok(len) = silent.socket.recv(&mut buffer) {
                silent.received += len as u64;
            }
        }
        raw::pause(Duration::from_millis(5));
    }
    all
}

impl Silent {
    fn send(forger: &mut Forger, victim: SocketAddrV4, form: Form, token: Token) -> Self {
        let socket = UdpSocket::bind("127.77.7.7:0").expect("the loopback network is ours");
        socket.set_nonblocking(true).expect("a socket can do that");
        let packet = forger.packet(form, token, 0, 0);
        let sent = socket.send_to(packet, victim).expect("there is room") as u64;
        Self {
            socket,
            sent,
            received: 0,
        }
    }
}
