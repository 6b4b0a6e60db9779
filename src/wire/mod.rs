//! Octets ↔ headers.
//!
//! A datagram is one packet: a base header of 40 bytes, the extensions that its flags announce, the payload, and
//! nothing else. Numbers are in network byte order (most significant octet first), every field is aligned to its
//! size counted from the start of the packet, and reserved octets are zero.
//!
//! - [`Packet`] reads: a checked view over received octets, nothing is copied.
//! - [`Builder`] writes: front to back into memory that the caller owns.
//! - [`Header`] is the same as a plain value; [`pretty`] prints it.
//! - [`Record`] and [`Records`] are the messages of a bundle, [`checksum`] the CRC-32C, [`Seq`] the arithmetic of
//!   numbers that wrap.
//!
//! `tests/vectors` has a packet of each sort with every octet explained, and wrong ones with what is wrong;
//! `contrib/hikyaku.lua` lets Wireshark show all of this. This room knows no time, no memory but its arguments' and
//! no configuration.
//!
//! # Base header
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |version| kind  |    channel    |             flags             |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       source processor                        |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     destination processor                     |  8
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        session: index                         | 12
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               | 16
//! +                        session: secret                        +
//! |                                                               | 20
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        sequence number                        | 24
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        acknowledgement                        | 28
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        payload length         |     rail      | reserved, zero| 32
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        message number                         | 36
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The version is 2. Kinds ([`Kind`] says what they mean): 0 data, 1 ack, 2 reset, 3 goodbye, 4 probe, 5
//! probe-ack, 6 return, 7 challenge, 8 settle, 9 settled.
//!
//! The session is a [`Token`] that the receiver of the packet issued. Index 0: the sender has heard none yet, and the
//! secret is that of a first contact, which the processes of one job share, or 0. Index `0xffff_ffff`: it has heard a
//! challenge, and the secret is the challenge's.
//!
//! The rail is not the path that a packet takes: a *flow* is (session, rail, channel), and the field names the flow whose
//! numbers are in the packet.
//!
//! The flags, bit 0 being the least significant:
//!
//! | bit | flag | announces | octets |
//! |---|---|---|---|
//! | 0 | [`MATCH`](Flags::MATCH) | match bits | 8 |
//! | 1 | [`IMMEDIATE`](Flags::IMMEDIATE) | immediate data | 8 |
//! | 2 | [`FRAGMENT`](Flags::FRAGMENT) | fragment | 8 |
//! | 3 | [`PLACEMENT`](Flags::PLACEMENT) | placement | 16 |
//! | 4 | [`TIMESTAMP`](Flags::TIMESTAMP) | timestamp | 8 |
//! | 5 | [`CREDIT`](Flags::CREDIT) | credit | 8 |
//! | 6 | [`CHECKSUM`](Flags::CHECKSUM) | checksum | 8 |
//! | 7 | [`OPEN`](Flags::OPEN) | opening | 40 |
//! | 8 | [`SACK`](Flags::SACK) | selective acknowledgement | 8 + 8 × words |
//! | 9 | [`SEAL`](Flags::SEAL) | seal | 24 |
//! | 10 | [`BUNDLE`](Flags::BUNDLE) | the payload is a row of records | |
//! | 11 | [`ACK_REQUEST`](Flags::ACK_REQUEST) | acknowledge at once | |
//! | 12 | [`NACK`](Flags::NACK) | what is missing is wanted again | |
//! | 13 | [`KEY_PHASE`](Flags::KEY_PHASE) | which of two keys in turn has sealed; only with `SEAL` | |
//! | 14–15 | | not assigned, zero | |
//!
//! # Extensions
//!
//! Those announced stand back to back behind the base header, in the order of their flags' bits.
//!
//! Match bits and immediate data, each:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  0
//! +                             value                             +
//! |                                                               |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Fragment`]: the payload, which is not empty, lies in its message from the offset on and does not reach beyond
//! its end.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     offset in the message                     |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     length of the message                     |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Placement`]: the payload belongs there and not to a message; the message number field holds the landing's key.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            landing                            |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         reserved, zero                        |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  8
//! +                     offset in the landing                     +
//! |                                                               | 12
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Timestamp`], in ns modulo 2³²:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             value                             |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             echo                              |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Credit`]:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             limit                             |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            window                             |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Checksum: the CRC-32C of the whole datagram, headers and payload, with the 4 octets of the CRC itself taken as
//! zero. Addresses are not covered. See [`checksum`]. Packets with an opening and resets always have one, so that what
//! is agreed there is not agreed by a bit that was flipped; the others of a session have one if that was agreed
//! ([`Features::CHECKSUM`]), and then a packet without is dropped.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            CRC-32C                            |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         reserved, zero                        |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Opening ([`Open`]; the features are [`Features`]: bit 0, checksums in every packet; bit 1, settling;
//! bit 2, rails; bit 16, seals; bits 16–31 are required):
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  0
//! +                             epoch                             +
//! |                                                               |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         token: index                          |  8
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           features                            | 12
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               | 16
//! +                         token: secret                         +
//! |                                                               | 20
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         credit: limit                         | 24
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        credit: window                         | 28
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                   acknowledgement delay, ns                   | 32
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       largest datagram        |           UDP port            | 36
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Selective acknowledgement, with 1 to 16 words. Bit *i* of word *w*, bit 0 being the least significant, says that
//! sequence number `acknowledgement + 1 + 64 w + i` has arrived. (`acknowledgement` itself has not, by definition.)
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     words     |                                               |  0
//! +-+-+-+-+-+-+-+-+                reserved, zero                 +
//! |                                                               |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  8
//! +                            word 0                             +
//! |                                                               | 12
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                              ...                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Seal ([`Seal`]), always the last. The payload is encrypted and keeps its length; the additional data are all bytes
//! of the packet before the tag. A packet sent again has another number. Other rules about the payload's content (a
//! bundle's records, say) hold for what comes out when it is opened.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  0
//! +                      transmission number                      +
//! |                                                               |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  8
//! +                                                               +
//! |                                                               | 12
//! +                              tag                              +
//! |                                                               | 16
//! +                                                               +
//! |                                                               | 20
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! # Records
//!
//! The payload of a packet with [`BUNDLE`](Flags::BUNDLE) is a row of at least one record and nothing besides. Each is
//! a whole message; the *i*-th, counted from 0, has message number `message + i`. Records are not aligned.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        length of data         |             flags             |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  4
//! +                  match bits, if flag bit 0 is set             +
//! |                                                               |  8
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            data ...                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! # What goes together
//!
//! - Match bits, immediate data, fragment, placement and bundle belong to data packets only; but a return has immediate
//!   data when it is about several messages.
//! - A payload belongs to data packets and probes only.
//! - A key phase belongs to a seal only.
//! - A bundle is not also a fragment or a placement, and its match bits stand in its records; it has no immediate
//!   data.
//!
//! Everything else may come with everything: any packet may carry acknowledgements, credit, a timestamp, an opening.
//!
//! # Settling a flow
//!
//! A packet that is sent again *unchanged* keeps its number, and the receiver delivers each number once. A packet that
//! must be cut anew, because the path MTU has shrunk, or that must go on another rail, cannot keep its number. Its sender
//! first settles the flow: it sends [`Kind::Settle`] with `sequence` = the next number that it would use and `message` =
//! the number of the request, which rises by one for each request of a flow. The receiver declares every number before
//! `sequence` that has not come void (what comes later under it is a duplicate), expects `sequence` next, and answers
//! [`Kind::Settled`] with the number of the request; acknowledgement and bitmap say what had come before that. It keeps
//! this one answer and gives it again when the same request comes again; earlier requests are ignored. A settle is sent
//! again by a timer, on any path. Then the sender queues what had not come under new numbers, in any size, on any rail.
//!
//! # The contract of reading and writing
//!
//! Reading is total: any octets give a packet or an [`Error`] in [`Packet::new_checked`], and behind that check no
//! accessor panics. The check looks at everything but the checksum's value, so that two packets that read alike are
//! alike octet by octet: reading and writing again gives the same octets, and writing and reading again the same
//! [`Header`].
//!
//! Writing panics when the buffer is shorter than what is to be written; [`MAX_HEADER_LEN`] octets suffice for any
//! header. Every octet of the header is written, whatever the buffer held before. [`Packet::new_checked`] is not for
//! memory that is about to be written: what an older packet left there would decide.
//!
//! # Versions
//!
//! - The version is the upper half of a packet's first octet, in this version and all that follow. A packet of another
//!   version is not read any further: [`Error::Version`] says which it was.
//! - A flag that is not assigned makes a packet unreadable ([`Error::Flags`]): nobody can know how long its extension
//!   is. So a flag, kind or record flag that comes later may be sent only to a peer that has said in
//!   [`Open::features`] that it knows it.
//! - A feature is in use when both sides have named it, unless it says otherwise ([`Features::CHECKSUM`] does). Of the
//!   bits that are not known, the lower half is ignored. The upper half is required: who does not know one answers
//!   with a reset whose `sequence` holds the bits in the way, and both sides can say why they do not talk.
//! - What is reserved is sent as zero and refused otherwise, so that it can be given a meaning later, by a feature.
//!
//! # Numbers that wrap
//!
//! Sequence and message numbers count modulo 2³² and compare as in RFC 1982 (SERIAL_BITS = 32): [`Seq`]. Of two
//! numbers less than 2³¹ apart one can say which is earlier; a window is much smaller than that. Credit counts octets
//! in the same way.

#![forbid(unsafe_code)]

mod builder;
pub mod checksum;
mod header;
mod packet;
mod plain;
pub mod pretty;
mod record;
mod seq;
mod value;

pub use builder::Builder;
pub use header::{
    ANY_PROCESSOR, BASE_LEN, Base, Credit, Features, Flags, Fragment, Kind, MAX_HEADER_LEN, MAX_SACK_WORDS, Open,
    Placement, Seal, Timestamp, Token, VERSION,
};
pub(crate) use header::{CHECKSUM_LEN, OPEN_LEN};
pub use packet::{Error, Head, Packet, Quoted};
pub use plain::Plain;
pub(crate) use plain::{Prefix, write as write_plain};
pub use record::{RECORD_LEN, Record, Records};
pub use seq::Seq;
pub use value::{Header, Sack};
