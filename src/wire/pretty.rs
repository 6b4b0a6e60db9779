//! Prints packets in readable form: one line per packet, whatever its bytes are.
//!
//! ```text
//! 7 > 9 data ch 0 session 3:00000000c0ffee00 seq 17 ack 5 msg 42 match 0x000000000000002a frag 0/4000 len 1432
//! 9 > 7 ack ch 0 session 7:000000000badcafe seq 5 ack 17 msg 0 sack 19-22,25 len 0
//! 7 > 9 data ch 0 session 3:00000000c0ffee00 seq 18 ack 5 msg 43 bundle len 42 records 10,20
//! malformed, 12 bytes: packet truncated: 40 bytes needed, 12 there
//! ```
//!
//! A line shows, in this order: source and destination processor (`*` for [`ANY_PROCESSOR`](super::ANY_PROCESSOR)),
//! kind, channel, session token, sequence number, acknowledgement, message number, rail unless it is 0, flags, the
//! extensions that are present, length of the payload, lengths of a bundle's records, and `bad crc` if the packet has a
//! checksum and it is wrong. The numbers after `sack` are runs of sequence numbers that have arrived. The list of runs
//! and the list of record lengths each end in `..` when they have more than eight entries.

use core::fmt;

use super::{Header, Packet, checksum};

/// Prints bytes as one line, without a line break.
#[derive(Clone, Copy, Debug)]
pub struct Pretty<'a>(
    /// A datagram, or any other bytes.
    pub &'a [u8],
);

/// Largest number of records whose length is printed.
const RECORDS_SHOWN: usize = 8;

impl fmt::Display for Pretty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = match Packet::new_checked(self.0) {
            Ok(packet) => packet,
            Err(error) => return write!(f, "malformed, {} bytes: {error}", self.0.len()),
        };
        write!(f, "{} len {}", Header::parse(&packet), packet.payload().len())?;
        for (i, record) in packet.records().enumerate() {
            f.write_str(if i == 0 { " records " } else { "," })?;
            if i == RECORDS_SHOWN {
                f.write_str("..")?;
                break;
            }
            write!(f, "{}", record.data.len())?;
        }
        if !checksum::verify(&packet, self.0) {
            f.write_str(" bad crc")?;
        }
        Ok(())
    }
}
