//! Counters of this backend alone.

/// Counts frames that could not be used, and other events that only this backend has, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DpdkStats {
    /// Frames whose lengths contradict each other, or of another version of IP.
    pub malformed: u64,
    /// Frames with a VLAN tag.
    pub vlan: u64,
    /// Frames that are neither UDP over IP, nor ARP or neighbour discovery.
    pub other_protocol: u64,
    /// Frames for another host, or another port of this one.
    pub not_ours: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Frames with a wrong checksum of IPv4, UDP or ICMPv6.
    pub bad_checksum: u64,
    /// Frames that do not fit a packet buffer: the other end has a larger MTU.
    pub oversized: u64,
    /// Requests for neighbours' addresses sent (ARP, neighbour solicitations).
    pub neighbours_asked: u64,
    /// Requests for neighbours' addresses answered.
    pub neighbours_answered: u64,
    /// Datagrams that other backends of the port found and handed over.
    pub handed_over: u64,
    /// Datagrams that other backends found and dropped, because too many waited here already.
    pub overflows: u64,
    /// Datagrams dropped because their neighbour has not told its Ethernet address.
    pub unresolved: u64,
    /// Packets to send that were given up: the port had no room for them, or its link was down.
    pub untaken: u64,
    /// Set if the other end of the link is there, as far as the port knows.
    pub link_up: bool,
    /// Packets that the driver reports as received.
    pub port_received: u64,
    /// Packets that the driver reports as sent.
    pub port_sent: u64,
    /// Packets lost because no backend received them in time.
    pub port_missed: u64,
    /// Packets that the driver received damaged.
    pub port_receive_errors: u64,
    /// Packets that the driver could not send.
    pub port_send_errors: u64,
    /// Packets for which there was no buffer.
    pub port_no_buffer: u64,
}

crate::table::display_as_table!(DpdkStats {
    malformed,
    vlan,
    other_protocol,
    not_ours,
    fragments,
    bad_checksum,
    oversized,
    neighbours_asked,
    neighbours_answered,
    handed_over,
    overflows,
    unresolved,
    untaken,
    link_up,
    port_received,
    port_sent,
    port_missed,
    port_receive_errors,
    port_send_errors,
    port_no_buffer,
});
