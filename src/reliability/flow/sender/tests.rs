//! A sending half by itself: no endpoint, no time but what is passed in.

use alloc::{collections::VecDeque, vec::Vec};
use core::net::SocketAddr;

use super::Sender;
use crate::{
    config::{Config, Recovery},
    reliability::{
        Event, Limits, Outgoing,
        burst::Burst,
        flow::{Flow, Lane, Receiver, Sources, congestion::AnyController},
        packet_builder::Format,
        peer::{Peer, Tokens},
    },
    span::Span,
    stats::Stats,
    wire::{Base, Builder, Flags, Kind, MAX_HEADER_LEN, Packet, Seq, Token},
};

/// Number of the first packet, close to where numbers begin anew.
const FIRST: u32 = u32::MAX - 1;
const LIMITS: Limits = Limits {
    max_datagram: 1_472,
    max_segments: 64,
    max_batch: 65_507,
    receive_buffer: 4 << 20,
    holds_references: false,
    ack_bytes: usize::MAX,
    receive_port: 0,
};

/// A sending half and all that its methods are handed.
struct Half {
    config: Config,
    peer: Peer,
    flow: Flow,
    send: Sender,
    receive: Receiver,
    sources: Sources,
    events: VecDeque<Event>,
    stats: Stats,
    now: u64,
    messages: u32,
}

impl Half {
    fn new() -> Self {
        let config = Config {
            bundle: false,
            ..Config::default()
        };
        let flow = Flow::new(0, crate::reliability::flow::FlowKey::FIRST, Seq(FIRST), Seq(7));
        let tokens = Tokens {
            local: 1,
            contact: Token { index: 3, secret: 2 },
        };
        let mut peer = Peer::new(
            SocketAddr::from(([10, 0, 0, 1], 1)),
            1,
            tokens,
            1_472,
            Format::first(&config, false),
        );
        peer.format.remove(Format::OPENING);
        Self {
            send: Sender::new(flow.send_next(), AnyController::new(&config, 1_472)),
            receive: Receiver::new(&flow),
            config,
            peer,
            flow,
            sources: Sources::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
            now: 1_000,
            messages: 0,
        }
    }

    /// So many messages, each a packet.
    fn queue(&mut self, messages: u32) {
        for _ in 0..messages {
            let message = Outgoing {
                source: 0,
                destination: 1,
                message: Seq(self.messages),
                match_bits: None,
                immediate: None,
            };
            self.messages += 1;
            self.send
                .append_record(&mut self.sources, &message, Span::new(&[9; 8]), 0);
        }
    }

    /// The packets that may go now: how many numbers after the first, and whether they ask for an acknowledgement.
    fn fill(&mut self) -> Vec<(u32, bool)> {
        let mut burst = Burst::default();
        burst.begin(self.peer.address);
        Lane {
            limits: &LIMITS,
            now: self.now,
            stamp: self.receive.timestamp(self.now, &self.config),
            checksum: false,
            open: None,
            sealing: None,
            overhead: self.peer.format.overhead(),
            room: usize::from(self.peer.mtu) - self.peer.format.overhead(),
            window: self.send.window().min(self.peer.window),
            config: &self.config,
            send: &mut self.send,
            flow: &mut self.flow,
            peer: &mut self.peer,
            sources: &mut self.sources,
            stats: &mut self.stats,
            passed: 0,
            settled: false,
        }
        .fill(&mut burst);
        let packets = burst.arena(0, burst.len()).chunks(burst.segment_size().max(1));
        packets
            .map(|bytes| {
                let packet = Packet::new_checked(bytes).unwrap();
                let number = packet.base().sequence.distance(Seq(FIRST));
                (number, packet.flags().contains(Flags::ACK_REQUEST))
            })
            .collect()
    }

    /// `count` packets in flight.
    fn launch(count: u32) -> Self {
        let mut half = Self::new();
        half.queue(count);
        let numbers: Vec<u32> = half.fill().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        half
    }

    /// The first packet is missing, those after it have arrived according to the bits. Returns the bytes delivered.
    fn acknowledge_beyond(&mut self, bits: u64) -> u32 {
        let base = Base {
            kind: Kind::Ack,
            channel: 0,
            source: 1,
            destination: 0,
            session: Token { index: 1, secret: 1 },
            sequence: Seq(7),
            acknowledgement: Seq(FIRST),
            rail: 0,
            message: Seq(0),
        };
        let mut bytes = [0; MAX_HEADER_LEN];
        let mut header = Builder::new(&mut bytes, &base);
        header.sack(&[bits]);
        let len = header.finish(0);
        let packet = Packet::new_checked(&bytes[..len]).unwrap();
        self.send
            .apply_bitmap(&self.flow, &mut self.sources, &mut self.events, self.now, &packet)
    }
}

#[test]
fn what_is_acknowledged_is_released() {
    let mut half = Half::launch(3);
    assert!(half.send.is_busy(&half.flow) && half.send.copied_bytes() > 0);
    for (packets, left) in [(2, 1), (3, 0)] {
        let ack = Seq(FIRST).plus(packets);
        assert!(half.send.is_acknowledged_in_order(&half.flow, ack));
        half.send
            .release(&half.flow, &mut half.sources, &mut half.events, half.now, ack);
        assert_eq!(half.send.in_flight().1, left);
    }
    assert_eq!(half.send.copied_bytes(), 0);
    assert!(half.send.is_quiet(&half.flow) && !half.send.is_busy(&half.flow));
}

#[test]
fn a_packet_is_lost_once_three_beyond_it_and_one_more_number_have_gone_by() {
    let mut half = Half::launch(4);
    assert!(half.acknowledge_beyond(0b011) > 0);
    assert_eq!(half.send.detect_losses(&half.flow, half.now, 500), (0, 1_500));
    assert_eq!(half.fill(), [], "nothing is lost yet");
    half.acknowledge_beyond(0b111);
    assert_eq!(half.send.detect_losses(&half.flow, half.now, 500).0, 1);
    assert_eq!(half.fill(), [(0, true)], "the same number again");
    assert_eq!(half.stats.resends, 1);
}

#[test]
fn a_packet_is_lost_when_its_time_is_over() {
    let mut half = Half::launch(2);
    half.acknowledge_beyond(0b1);
    half.now = 1_500;
    assert_eq!(half.send.detect_losses(&half.flow, half.now, 500).0, 1);
}

#[test]
fn what_was_never_sent_is_not_acknowledged() {
    let (mut some, mut all) = (Half::launch(3), Half::launch(3));
    assert_eq!(all.acknowledge_beyond(u64::MAX), some.acknowledge_beyond(0b11));
    assert_eq!(all.send.in_flight(), some.send.in_flight());
    assert_eq!(all.acknowledge_beyond(u64::MAX), 0, "none twice");
}

#[test]
fn a_request_is_about_what_has_been_overtaken() {
    let mut half = Half::launch(3);
    let lost = half.send.handle_nack(&half.flow, half.now, Recovery::SelectiveRepeat);
    assert_eq!(lost, 0, "nothing has arrived beyond it");
    half.acknowledge_beyond(0b10);
    let lost = half.send.handle_nack(&half.flow, half.now, Recovery::SelectiveRepeat);
    assert_eq!(lost, 2);
    let lost = half.send.handle_nack(&half.flow, half.now, Recovery::SelectiveRepeat);
    assert_eq!(lost, 0, "they are lost already");
}

#[test]
fn the_first_time_out_is_a_probe_and_the_next_is_not() {
    let mut half = Half::launch(3);
    assert_eq!(half.send.count_timeout(), 1);
    half.send
        .on_timeout(&half.flow, half.now, Recovery::SelectiveRepeat, &mut half.stats);
    assert_eq!(half.fill(), [(2, true)], "the last packet");
    assert_eq!(half.send.count_timeout(), 2);
    half.send
        .on_timeout(&half.flow, half.now, Recovery::SelectiveRepeat, &mut half.stats);
    assert_eq!((half.stats.probes, half.stats.lost_by_timeout), (1, 3));
    assert_eq!(half.fill(), [(0, true)], "one packet proves that the path is alive");
    assert_eq!(half.fill(), []);
}

#[test]
fn all_that_is_pending_is_named_and_given_up() {
    let mut half = Half::launch(2);
    half.queue(1);
    half.acknowledge_beyond(0b1);
    let mut pending = Vec::new();
    half.send
        .each_pending(&half.flow, |pair, number| pending.push((pair, number.0)));
    assert_eq!(pending, [((0, 1), 0), ((0, 1), 2)]);
    half.send.abandon(&half.flow, &mut half.sources);
    half.send.rest(&mut half.sources);
    assert!(!half.send.is_busy(&half.flow));
}

#[test]
fn returns_go_before_data_and_find_no_room_in_the_end() {
    let mut half = Half::new();
    half.queue(1);
    let mut returns = 0;
    while half.send.push_return(1, 0, Seq(returns), 0) {
        returns += 1;
        assert!(returns < 1_000, "there is always room");
    }
    let packets = half.fill().len();
    assert_eq!(packets as u32, returns.min(64));
}

#[test]
fn a_spurious_time_out_is_undone() {
    for (echo, undone) in [(999, true), (1_000, false), (0, false)] {
        let mut half = Half::launch(3);
        let (window, in_flight) = (half.send.window(), half.send.in_flight());
        for _ in 0..2 {
            half.send.count_timeout();
            half.send
                .on_timeout(&half.flow, half.now, Recovery::SelectiveRepeat, &mut half.stats);
        }
        assert!(half.send.has_lost());
        assert_eq!(half.send.judge_timeout(&half.flow, echo), undone, "{echo}");
        let as_before = (half.send.window(), half.send.in_flight()) == (window, in_flight);
        assert_eq!((as_before, half.send.has_lost()), (undone, !undone));
        assert!(!half.send.judge_timeout(&half.flow, 999), "once");
    }
}
