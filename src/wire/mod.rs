//! The wire format: reads and writes packet headers.
//!
//! A datagram is one packet: a base header of 40 bytes, the extensions that its flags announce, the payload, and
//! nothing else. Numbers are in network byte order (most significant byte first). Every field is aligned to its size,
//! counted from the start of the packet. Reserved bytes are zero.
//!
//! - [`Packet`] reads: it is a checked view over received bytes and copies nothing.
//! - [`Builder`] writes front to back into memory that the caller owns.
//! - [`Header`] holds a header as a plain value; [`pretty`] prints it.
//! - [`Record`] and [`Records`] read and write the messages of a bundle, [`checksum`] computes the CRC-32C, and [`Seq`]
//!   is the arithmetic of numbers that wrap.
//!
//! `tests/vectors` holds a packet of each kind with every byte explained, and malformed packets with their errors.
//! `contrib/hikyaku.lua` is a Wireshark dissector. This module uses no clock, no configuration and no memory but its
//! arguments.
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
//! The version is 2. The kinds (see [`Kind`]) are: 0 data, 1 ack, 2 reset, 3 goodbye, 4 probe, 5
//! probe-ack, 6 return, 7 challenge, 8 settle, 9 settled.
//!
//! The session is a [`Token`] that the receiver of the packet issued. Index 0 means that the sender has not received a
//! token yet; the secret is then the first-contact secret, which the processes of one job share, or 0. Index
//! `0xffff_ffff` means that the sender has received a challenge; the secret is then the secret of that challenge.
//!
//! The rail is not the path that a packet takes. A *flow* is (session, rail, channel), and the rail field tells which
//! flow the numbers in the packet belong to. In a probe and its answer it is the rail that the probe is to prove, as the
//! sender of the probe numbers its rails; the answer goes back by the path of the probe.
//!
//! The flags; bit 0 is the least significant:
//!
//! | bit | flag | announces | bytes |
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
//! | 10 | [`BUNDLE`](Flags::BUNDLE) | the payload is a sequence of records | |
//! | 11 | [`ACK_REQUEST`](Flags::ACK_REQUEST) | the sender requests an immediate acknowledgement | |
//! | 12 | [`NACK`](Flags::NACK) | the sender requests the missing packets again | |
//! | 13 | [`KEY_PHASE`](Flags::KEY_PHASE) | which of two alternating keys sealed the packet; only with `SEAL` | |
//! | 14–15 | | not assigned, zero | |
//!
//! # Extensions
//!
//! The announced extensions follow the base header back to back, in the order of their flag bits.
//!
//! Match bits and immediate data have the same layout:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  0
//! +                             value                             +
//! |                                                               |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Fragment`]: the payload is a part of its message that begins at the offset. It is not empty and does not extend
//! beyond the end of the message.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     offset in the message                     |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     length of the message                     |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! [`Placement`]: the payload belongs to a region and not to a message. The message number field holds the key of the
//! region.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            region                            |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         reserved, zero                        |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |  8
//! +                     offset in the region                     +
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
//! Checksum: the CRC-32C of the whole datagram, headers and payload, with the 4 bytes of the CRC itself taken as zero.
//! It does not cover addresses. See [`checksum`]. Packets with an opening and resets always carry a checksum, so that a
//! flipped bit cannot change the parameters of a session. The other packets of a session carry one if that was agreed
//! ([`Features::CHECKSUM`]); the receiver then drops packets without a checksum. Sealed packets carry none, whatever they
//! are and whatever was agreed: the tag of a seal covers all bytes.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            CRC-32C                            |  0
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         reserved, zero                        |  4
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Opening ([`Open`]). The features are [`Features`]: bit 0, checksums in every packet; bit 1, settling; bit 2, rails;
//! bit 16, seals. Bits 16–31 are required features.
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
//! Selective acknowledgement (SACK), with 1 to 16 words. Bit *i* of word *w* says that sequence number
//! `acknowledgement + 1 + 64 w + i` has arrived; bit 0 is the least significant. (`acknowledgement` itself has not
//! arrived, by definition.)
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
//! Seal ([`Seal`]), always the last extension. Resets and challenges have none. The payload is encrypted and keeps its length; the additional data are
//! all bytes of the packet before the tag. A retransmitted packet gets a new transmission number. Other rules about the
//! content of the payload (the records of a bundle, for example) apply to the decrypted payload.
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
//! The payload of a packet with [`BUNDLE`](Flags::BUNDLE) is a sequence of one or more records and nothing else. Each
//! record is a whole message; the *i*-th record, counted from 0, has message number `message + i`. Records are not
//! aligned.
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
//! # Valid combinations
//!
//! - Match bits, immediate data, fragment, placement and bundle appear in data packets only, with one exception: a
//!   return carries immediate data when it reports several messages.
//! - Only data packets and probes have a payload.
//! - A key phase appears only together with a seal.
//! - A bundle is not also a fragment or a placement and has no immediate data. Its match bits are in its records.
//!
//! All other combinations are valid: any packet may carry acknowledgements, credit, a timestamp, an opening.
//!
//! # Settling a flow
//!
//! A packet that is retransmitted *unchanged* keeps its sequence number, and the receiver delivers each number once.
//! Two sorts of packets cannot keep their number: one that must be split anew because the path MTU has shrunk, and one
//! that must move to another rail. Their sender first settles the flow. It sends [`Kind::Settle`] with `sequence` = the
//! next number that it would use and `message` = the number of the request, another one for each request of a flow.
//!
//! The receiver declares void every number before `sequence` that has not arrived: a packet that arrives later with
//! such a number is a duplicate. It expects `sequence` next and answers [`Kind::Settled`] with the number of the
//! request; the acknowledgement and the bitmap tell which packets had arrived before. The receiver keeps this one
//! answer and repeats it when the same request arrives again. It ignores another request with a `sequence` below a
//! number that has arrived or is void.
//!
//! The sender retransmits a settle on a timer, over any path, and ignores all other acknowledgements of the flow until
//! it has the answer. After that it assigns new numbers to everything that had not arrived and queues it, in packets of
//! any size, on any rail.
//!
//! # Guarantees for reading and writing
//!
//! Reading is total: for any bytes [`Packet::new_checked`] returns a packet or an [`Error`], and after that check no
//! accessor panics. The check covers everything but the value of the checksum. Two packets that read the same are
//! therefore equal byte by byte: reading and writing again gives the same bytes, and writing and reading again gives
//! the same [`Header`].
//!
//! Writing panics when the buffer is too short for the data; [`MAX_HEADER_LEN`] bytes suffice for any header. Every
//! byte of the header is written, whatever the buffer held before. Do not call [`Packet::new_checked`] on memory that
//! is about to be written: its result would depend on what an older packet left there.
//!
//! # Versions
//!
//! - The version is the upper half of the first byte of a packet, in this version and all later ones. A receiver reads
//!   no further in a packet of another version: [`Error::Version`] tells which version it was.
//! - A flag that is not assigned makes a packet unreadable ([`Error::Flags`]), because its receiver cannot know how
//!   long the extension is. A sender may therefore use a flag, kind or record flag of a later release only towards a
//!   peer that has announced in [`Open::features`] that it knows it.
//! - A feature is in use when both sides have announced it, unless its description says otherwise (that of
//!   [`Features::CHECKSUM`] does). A receiver ignores unknown bits of the lower half. Bits of the upper half are
//!   required: a receiver that does not know one answers with a reset whose `sequence` holds the bits that it refuses,
//!   so that both sides can report why there is no session.
//! - Reserved fields are sent as zero, and a receiver refuses other values. A feature can thus give them a meaning
//!   later.
//!
//! # Numbers that wrap
//!
//! Sequence and message numbers count modulo 2³² and compare as in RFC 1982 (SERIAL_BITS = 32): [`Seq`]. The order of
//! two numbers is defined while they are less than 2³¹ apart; a window is much smaller than that. Credit counts bytes
//! in the same way.

#![forbid(unsafe_code)]

mod builder;
pub mod checksum;
mod error;
mod header;
mod packet;
mod plain;
pub mod pretty;
mod record;
pub(crate) mod seal;
mod seq;
mod value;

pub use builder::Builder;
pub use error::Error;
pub use header::{
    ANY_PROCESSOR, BASE_LEN, Base, Credit, Features, Flags, Fragment, Kind, MAX_HEADER_LEN, MAX_SACK_WORDS, Open,
    Placement, Seal, Timestamp, Token, VERSION,
};
pub(crate) use header::{CHECKSUM_LEN, OPEN_LEN, SEAL_LEN};
pub use packet::{Head, Packet, Quoted};
pub use plain::Plain;
pub(crate) use plain::write as write_plain;
pub use record::{RECORD_LEN, Record, Records};
pub use seq::Seq;
pub use value::{Header, Sack};
