//! What is counted here and nowhere else.

/// What came that was of no use, and what else only this backend counts. All since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DpdkStats {
    /// Frames with lengths that do not fit each other, or of another version of IP.
    pub malformed: u64,
    /// Frames with a VLAN tag.
    pub vlan: u64,
    /// Frames that are neither UDP over IP nor about neighbours.
    pub other_protocol: u64,
    /// Frames for another host, or another port of this one.
    pub not_ours: u64,
    /// Parts of IP packets.
    pub fragments: u64,
    /// Frames with a wrong checksum of IPv4, UDP or ICMPv6.
    pub bad_checksum: u64,
    /// Frames that do not fit a packet buffer: the other end has a larger MTU.
    pub oversized: u64,
    /// Questions for neighbours' addresses asked (ARP, neighbour solicitations).
    pub neighbours_asked: u64,
    /// Questions of neighbours answered.
    pub neighbours_answered: u64,
    /// Datagrams that other backends of the port have found and handed over.
    pub handed_over: u64,
    /// Datagrams that others have found and thrown away, because too many waited here already.
    pub overflows: u64,
    /// Datagrams copied instead of lent, because too many buffers were on loan.
    pub copied: u64,
    /// Datagrams thrown away because their neighbour has not told its address.
    pub unresolved: u64,
    /// The other end of the link is there, as far as the port knows.
    pub link_up: bool,
    /// Packets that the driver says it has received.
    pub port_received: u64,
    /// Packets that the driver says it has sent.
    pub port_sent: u64,
    /// Packets lost because nobody received them in time.
    pub port_missed: u64,
    /// Packets that the driver received damaged.
    pub port_receive_errors: u64,
    /// Packets that the driver could not send.
    pub port_send_errors: u64,
    /// Times that there was no buffer for a packet.
    pub port_no_buffer: u64,
}
