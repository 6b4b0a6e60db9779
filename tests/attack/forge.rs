//! Packets as an attacker forges them that has read the code and knows addresses and ports, and never saw a packet.

use hikyaku::wire::{Base, Credit, Features, Flags, Header, Kind, Open, Sack, Seq, Token, checksum};

use crate::honest::{chance, processor};

/// The forms of an attacker's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Opens a session, and brings data.
    Open,
    /// Opens a session, brings nothing and wants an answer.
    OpenAck,
    /// "I do not know this session."
    Reset,
    /// "Your opening is of a session that is over."
    Refuse,
    /// "I cannot do what your opening requires."
    Incompatible,
    /// Credit without end, and a window of one byte.
    Credit,
    /// Acknowledges.
    Ack,
    /// Acknowledges selectively, and asks for the rest.
    Sack,
    /// Answers a probe of a rail, or of its MTU.
    ProbeAck,
    /// Probes a rail, or its MTU.
    Probe,
    /// Closes the session.
    Goodbye,
    /// Brings data.
    Data,
    /// Challenges an opening.
    Challenge,
    /// Answers a challenge that was not seen.
    Cookie,
    /// Gives messages back.
    Return,
    /// Declares what has not come void.
    Settle,
    /// Answers that.
    Settled,
}

/// All of them.
pub(crate) const FORMS: [Form; 17] = [
    Form::Open,
    Form::OpenAck,
    Form::Reset,
    Form::Refuse,
    Form::Incompatible,
    Form::Credit,
    Form::Ack,
    Form::Sack,
    Form::ProbeAck,
    Form::Probe,
    Form::Goodbye,
    Form::Data,
    Form::Challenge,
    Form::Cookie,
    Form::Return,
    Form::Settle,
    Form::Settled,
];

/// The guess with this number: the peer's place in the table is most likely the first, and all secrets are as likely, so
/// that no guess is made twice.
pub(crate) fn guess(number: u64) -> Token {
    Token {
        index: 1,
        secret: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// The sequence number that a flow begins with, which follows from what its sender says of itself.
fn first_sequence(open: &Open) -> Seq {
    let word = open.epoch ^ open.token.secret.rotate_left(20);
    Seq((word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

/// The payload of all forged messages.
const PAYLOAD: &[u8] = b"this was forged by somebody who saw nothing at all";

/// Writes packets.
pub(crate) struct Forger {
    state: u64,
    packet: Vec<u8>,
}

impl Forger {
    pub(crate) fn new() -> Self {
        Self {
            state: chance() | 1,
            packet: Vec::with_capacity(1_500),
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn open(&mut self) -> Open {
        Open {
            epoch: self.random() | 1,
            token: Token {
                index: 1,
                secret: self.random(),
            },
            features: Features::empty(),
            credit: Credit {
                limit: 1 << 24,
                window: 1 << 20,
            },
            ack_delay: 0,
            max_datagram: 1_472,
            port: 0,
        }
    }

    /// A packet to the side `victim` that names `session`, with `number` where a number is to be guessed.
    pub(crate) fn packet(&mut self, form: Form, session: Token, victim: usize, number: u32) -> &[u8] {
        self.packet_of_rail(form, session, victim, number, 0)
    }

    /// The same, of a rail.
    pub(crate) fn packet_of_rail(&mut self, form: Form, session: Token, victim: usize, number: u32, rail: u8) -> &[u8] {
        let kind = match form {
            Form::Open | Form::Cookie | Form::Data => Kind::Data,
            Form::OpenAck | Form::Credit | Form::Ack | Form::Sack => Kind::Ack,
            Form::Reset | Form::Refuse | Form::Incompatible => Kind::Reset,
            Form::ProbeAck => Kind::ProbeAck,
            Form::Probe => Kind::Probe,
            Form::Goodbye => Kind::Goodbye,
            Form::Challenge => Kind::Challenge,
            Form::Return => Kind::Return,
            Form::Settle => Kind::Settle,
            Form::Settled => Kind::Settled,
        };
        let mut open = self.open();
        let mut header = Header::new(Base {
            kind,
            channel: 0,
            source: processor(1 - victim),
            destination: processor(victim),
            session,
            sequence: Seq(self.random() as u32),
            acknowledgement: Seq(self.random() as u32),
            rail,
            message: Seq(number),
        });
        header.checksum = Some(0);
        let mut payload = PAYLOAD;
        match form {
            Form::Open | Form::OpenAck | Form::Challenge => {
                if form == Form::Challenge {
                    open.token.index = Token::COOKIE;
                }
                header.open = Some(open);
                header.base.sequence = first_sequence(&open);
                header.base.message = Seq(0);
                header.flags = Flags::ACK_REQUEST;
            }
            Form::Cookie => {
                header.open = Some(open);
                header.base.session.index = Token::COOKIE;
                header.base.sequence = first_sequence(&open);
                header.base.message = Seq(0);
            }
            Form::Reset => (header.base.sequence, header.base.message) = (Seq(0), Seq(0)),
            Form::Refuse => (header.base.sequence, header.base.message) = (Seq(0), Seq(1)),
            Form::Incompatible => (header.base.sequence, header.base.message) = (Seq(1 << 16), Seq(1)),
            Form::Credit => {
                header.credit = Some(Credit {
                    limit: number ^ 1 << 31,
                    window: 1,
                });
            }
            Form::Sack => {
                header.sack = Sack::from_words(&[u64::MAX; 2]).expect("two words");
                header.flags = Flags::NACK | Flags::ACK_REQUEST;
            }
            Form::Ack => header.flags = Flags::ACK_REQUEST,
            Form::Settled => header.sack = Sack::from_words(&[u64::MAX]).expect("one word"),
            Form::ProbeAck | Form::Probe | Form::Goodbye | Form::Data | Form::Return | Form::Settle => {}
        }
        if !matches!(kind, Kind::Data | Kind::Probe) {
            payload = &[];
        }
        self.finish(&header, payload)
    }

    fn finish(&mut self, header: &Header, payload: &[u8]) -> &[u8] {
        self.packet.resize(header.len(), 0);
        header.emit(payload.len() as u16, &mut self.packet);
        self.packet.extend_from_slice(payload);
        checksum::fill(&mut self.packet);
        &self.packet
    }

    /// Random bytes; every other time behind a first byte that is right.
    pub(crate) fn noise(&mut self) -> &[u8] {
        let draw = self.random();
        let len = 1 + (draw % 300) as usize;
        self.packet.clear();
        while self.packet.len() < len {
            let word = self.random();
            self.packet.extend_from_slice(&word.to_le_bytes());
        }
        if draw >> 32 & 1 == 1 {
            self.packet[0] = (hikyaku::wire::VERSION << 4) | (draw >> 40 & 7) as u8;
        }
        &self.packet
    }
}

#[test]
fn forged_packets_are_packets() {
    use hikyaku::wire::Packet;
    let mut forger = Forger::new();
    for form in FORMS {
        let bytes = forger.packet(form, guess(77), 0, 5).to_vec();
        let packet = Packet::new_checked(&bytes[..]).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert!(checksum::verify(&packet, &bytes), "{form:?}");
    }
    let tokens: std::collections::BTreeSet<Token> = (0..100_000).map(guess).collect();
    assert_eq!(tokens.len(), 100_000);
}
