//! Packets as somebody forges them who has read the code and knows addresses and ports, and never saw a packet.

use hikyaku::wire::{Base, Credit, Features, Flags, Header, Kind, Open, Sack, Seq, checksum};

use crate::honest::{chance, processor};

/// What the packets of an attacker pretend to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Opens a session, and brings data.
    Open,
    /// Opens a session, brings nothing and wants an answer.
    OpenAck,
    /// "I do not know this session."
    Reset,
    /// "I do not know the session that you named."
    ResetQuote,
    /// Credit without end, and a window of one byte.
    Credit,
    /// Acknowledges.
    Ack,
    /// Acknowledges selectively, and asks for the rest.
    Sack,
    /// Answers a probe of the path's MTU.
    ProbeAck,
    /// Probes the path's MTU.
    Probe,
    /// Closes the session.
    Goodbye,
    /// Brings data.
    Data,
    /// Challenges an opening.
    Challenge,
    /// Gives messages back.
    Return,
}

/// All of them.
pub(crate) const FORMS: [Form; 13] = [
    Form::Open,
    Form::OpenAck,
    Form::Reset,
    Form::ResetQuote,
    Form::Credit,
    Form::Ack,
    Form::Sack,
    Form::ProbeAck,
    Form::Probe,
    Form::Goodbye,
    Form::Data,
    Form::Challenge,
    Form::Return,
];

/// A session's token.
pub(crate) type Token = u32;
/// Instead of a token that is not known.
pub(crate) const NO_TOKEN: Token = 0;

/// The guess with this number. Tokens are a generation of 12 bits, drawn at the start, above the peer's number and 1.
pub(crate) fn guess(number: u64) -> Token {
    ((number as u32 & 0xfff) << 20) | (((number >> 12) as u32 & 0xf_ffff) + 1)
}

/// The sequence number that a flow begins with, which follows from what its sender says of itself.
fn first_sequence(epoch: u64, token: Token) -> Seq {
    let word = epoch ^ u64::from(token) << 20;
    Seq((word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

/// What is in all forged messages.
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
            token: self.random() as u32 | 1,
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
        let kind = match form {
            Form::Open | Form::Data => Kind::Data,
            Form::OpenAck | Form::Credit | Form::Ack | Form::Sack => Kind::Ack,
            Form::Reset | Form::ResetQuote => Kind::Reset,
            Form::ProbeAck => Kind::ProbeAck,
            Form::Probe => Kind::Probe,
            Form::Goodbye => Kind::Goodbye,
            Form::Challenge => Kind::Challenge,
            Form::Return => Kind::Return,
        };
        let open = self.open();
        let mut header = Header::new(Base {
            kind,
            channel: 0,
            source: processor(1 - victim),
            destination: processor(victim),
            session,
            sequence: Seq(self.random() as u32),
            acknowledgement: Seq(self.random() as u32),
            reply_queue: 0,
            message: Seq(number),
        });
        header.checksum = Some(0);
        let mut payload = PAYLOAD;
        match form {
            Form::Open | Form::OpenAck | Form::Challenge => {
                header.open = Some(open);
                header.base.sequence = first_sequence(open.epoch, open.token);
                header.base.message = Seq(0);
                header.flags = Flags::ACK_REQUEST;
            }
            Form::Reset => (header.base.sequence, header.base.message) = (Seq(0), Seq(0)),
            Form::ResetQuote => {
                header.base.sequence = Seq(0);
                (header.base.session, header.base.message) = (NO_TOKEN, Seq(session));
            }
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
            Form::ProbeAck | Form::Probe | Form::Goodbye | Form::Data | Form::Return => {}
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
            self.packet[0] = hikyaku::wire::VERSION << 4 | (draw >> 40 & 7) as u8;
        }
        &self.packet
    }
}

#[test]
fn forged_packets_are_packets() {
    use hikyaku::wire::Packet;
    let mut forger = Forger::new();
    for form in FORMS {
        let octets = forger.packet(form, guess(77), 0, 5).to_vec();
        let packet = Packet::new_checked(&octets[..]).unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert!(checksum::verify(&packet, &octets), "{form:?}");
    }
    let tokens: std::collections::BTreeSet<Token> = (0..4_096).map(guess).collect();
    assert_eq!(tokens.len(), 4_096);
}
