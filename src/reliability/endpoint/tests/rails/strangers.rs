//! Packets of strangers, and of peers that know no rails.

use super::*;
use crate::{
    prng::mix,
    reliability::sealing::{Forged, Sealer, Transmission},
    wire::{Base, Builder, Kind, Token},
};

/// Signs with a sum over all bytes.
#[derive(Debug)]
pub(super) struct Sum;

impl Sealer for Sum {
    fn seal(&mut self, transmission: Transmission, header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let all = header.iter().chain(&*payload);
        let sum = all.fold(mix(transmission.epoch) ^ transmission.number, |sum, byte| {
            mix(sum ^ u64::from(*byte))
        });
        u128::from(sum).to_be_bytes()
    }

    fn open(
        &mut self,
        transmission: Transmission,
        header: &[u8],
        payload: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Forged> {
        if self.seal(transmission, header, payload) == *tag {
            Ok(())
        } else {
            Err(Forged)
        }
    }
}

/// A packet of a stranger that claims to be of a rail of the session.
fn forged(kind: Kind, token: Token, number: u32) -> Vec<u8> {
    let base = Base {
        kind,
        channel: 0,
        source: 1,
        destination: 0,
        session: token,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        rail: 1,
        message: Seq(number),
    };
    let mut bytes = [0; crate::wire::MAX_HEADER_LEN];
    let len = Builder::new(&mut bytes, &base).finish(0);
    bytes[..len].to_vec()
}

/// What a stranger could make a rail of.
const OF_RAILS: [Kind; 7] = [
    Kind::Probe,
    Kind::ProbeAck,
    Kind::Settle,
    Kind::Settled,
    Kind::Data,
    Kind::Ack,
    Kind::Goodbye,
];

#[test]
fn a_stranger_adds_no_rail() {
    for sealed in [false, true] {
        let mut net = Net::with(&settings(), &[WAY, WAY], sealed);
        net.open();
        let real = Token {
            index: 1,
            secret: net.ends[0].peers[0].local_secret,
        };
        // From his own address, and in the name of each of the peer's.
        for source in [address(2, 1), address(1, 0), address(1, 1)] {
            for kind in OF_RAILS {
                for secret in [0, 1, real.secret ^ 1, !real.secret, real.secret.rotate_left(32)] {
                    let before = net.view();
                    let dropped = net.ends[0].stats().dropped.total();
                    net.handle(Path::new(source, 1), &mut forged(kind, Token { secret, ..real }, 7));
                    assert_eq!(net.view(), before, "{kind:?}");
                    assert_eq!(net.ends[0].stats().dropped.total(), dropped + 1, "{kind:?} is counted");
                }
            }
        }
        // Not even one that knows the token (but not the number of a probe) makes a rail of another address.
        let stranger = Path::new(address(2, 1), 1);
        let dropped = net.ends[0].stats().dropped.total();
        for number in [0, 7, u32::MAX] {
            net.handle(stranger, &mut forged(Kind::ProbeAck, real, number));
        }
        assert_eq!(net.ends[0].stats().dropped.total(), dropped + 3);
        let paths = [0, 1].map(|rail| net.ends[0].rail_stats(PEER, rail).unwrap().path.address);
        assert_eq!(paths, [address(1, 0), address(1, 1)]);
        // (Those whose sessions are unknown are told so.)
        net.ends[0].control.clear();
        net.send(0, 1, 4 << 20);
        assert!(
            net.run(1_000, |net| net.got[1].messages.len() == 2),
            "and what is sent goes to the peer alone"
        );
        assert_eq!([0, 1].map(|end| net.ends[end].stats().rails_up), [1, 1]);
    }
}

/// One that was on the path once, and has recorded what was said there, sends it again from elsewhere.
#[test]
fn what_a_stranger_repeats_adds_no_rail_and_leads_nothing_to_him() {
    for sealed in [false, true] {
        let mut net = Net::with(&settings(), &[WAY, WAY], sealed);
        net.recorded = Some(vec![]);
        net.open();
        net.send(1, 0, 300_000);
        assert!(net.run(1_000, |net| net.got[0].messages.len() == 1 && net.ends[1].all_idle()));
        let recorded = net.recorded.take().unwrap();
        let probes = recorded.iter().filter(|bytes| {
            let kind = Packet::new_checked(&bytes[..]).map(|packet| packet.kind());
            matches!(kind, Ok(Kind::Probe | Kind::ProbeAck))
        });
        assert!(probes.count() > 2);
        let before = (net.view(), net.ends[0].stats().rails_up);
        for bytes in &recorded {
            net.handle(Path::new(address(2, 1), 1), &mut bytes.clone());
        }
        assert_eq!((net.view(), net.ends[0].stats().rails_up), before);
        let replies = net.ends[0].rails.all(0).iter().filter_map(|rail| rail.reply);
        assert!(
            { replies }.all(|reply| reply.address != address(2, 1)),
            "acknowledgements go to the peer"
        );
    }
}

#[test]
fn a_peer_that_does_not_know_rails_has_one() {
    let mut net = Net::new(&settings(), &[WAY, WAY]);
    net.send(0, 0, 1);
    net.run(100, |net| net.got[1].messages.len() == 1);
    // (As if it had not named them.)
    net.ends[0].peers[0].features = crate::wire::Features::SETTLE.bits() as u16;
    let mut bytes = forged(
        Kind::Ack,
        Token {
            index: 1,
            secret: net.ends[0].peers[0].local_secret,
        },
        0,
    );
    let len = bytes.len();
    let before = net.ends[0].stats().dropped.total();
    net.ends[0].handle_datagrams(
        Instant::from_nanos(net.now),
        address(1, 0),
        &mut bytes,
        len,
        &mut net.got[0],
    );
    assert_eq!(net.ends[0].stats().dropped.total(), before + 1);
}
