//! The short way for single datagrams has the same results as the way for bursts.

use super::*;

/// The results of receiving everything: the payloads with their sources, and the increases of the counters.
fn outcome(backend: &mut DpdkBackend) -> (Vec<(SocketAddr, Vec<u8>)>, Vec<u64>) {
    let (before, all_before) = (backend.more, backend.stats());
    let mut payloads = Vec::new();
    loop {
        let count = backend.receive(Instant::ZERO, BURST).unwrap();
        for index in 0..count {
            let received = backend.received(index);
            payloads.push((received.source, received.data.to_vec()));
        }
        if count == 0 {
            break;
        }
    }
    let (after, all_after) = (backend.more, backend.stats());
    let counts = [
        after.malformed - before.malformed,
        after.vlan - before.vlan,
        after.other_protocol - before.other_protocol,
        after.not_ours - before.not_ours,
        after.fragments - before.fragments,
        after.bad_checksum - before.bad_checksum,
        after.oversized - before.oversized,
        all_after.datagrams_received - all_before.datagrams_received,
        all_after.bytes_received - all_before.bytes_received,
    ];
    (payloads, counts.to_vec())
}

#[test]
fn a_frame_with_a_wrong_bit_is_the_same_alone_as_among_others() {
    let mut backend = ring();
    let (mut kept, mut useless) = (0, 0);
    for checksum in [UdpChecksum::Absent, UdpChecksum::Software] {
        let good = datagram(&backend, b"seven..", checksum);
        for bit in 0..=good.len() * 8 {
            let mut frame = good.clone();
            // The last frame is unchanged.
            if let Some(byte) = frame.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            inject(&mut backend, &frame);
            let (mut payloads, counts) = outcome(&mut backend);
            inject(&mut backend, &frame);
            inject(&mut backend, &frame);
            let among_others = outcome(&mut backend);
            payloads.extend(payloads.clone());
            let twice: Vec<_> = counts.iter().map(|count| 2 * count).collect();
            assert_eq!((payloads, twice), among_others, "bit {bit}, {checksum:?}");
            assert_eq!(
                counts[..8].iter().sum::<u64>(),
                1,
                "bit {bit}, {checksum:?}: {counts:?}"
            );
            kept += counts[7];
            useless += 1 - counts[7];
        }
    }
    assert!(kept > 10 && useless > 500, "{kept} {useless}");
    end(backend);
}

#[test]
fn a_single_datagram_becomes_the_same_frame_on_both_ways() {
    let mut backend = ring();
    introduce(&mut backend);
    let most = backend.capabilities().max_datagram;
    let payload: Vec<u8> = (0..most).map(|at| at as u8).collect();
    let lengths = (1..200).chain([1400, ATTACH - 1, ATTACH, most]);
    for (len, pieces) in lengths.flat_map(|len| [1, 2, 3, 7].map(|pieces| (len, pieces))) {
        let mut slices: Vec<_> = payload[..len].chunks(len.div_ceil(pieces)).map(IoSlice::new).collect();
        slices.insert(slices.len() / 2, IoSlice::new(&[]));
        let transmit = Transmit {
            destination: SocketAddr::new(OTHER.addr.ip(), len as u16),
            port: 0,
            segment_size: len + pieces % 2,
            len,
            slices: &slices,
            dont_fragment: true,
            token: 0,
        };
        let identification = backend.identification;
        let before = backend.stats();
        assert_eq!(backend.transmit(Instant::ZERO, &transmit).unwrap(), Sent::All);
        let between = backend.stats();
        backend.identification = identification;
        assert_eq!(
            backend.send_burst(Instant::ZERO, &Outgoing::new(&transmit), None),
            Sent::All
        );
        assert_eq!(between.datagrams_sent - before.datagrams_sent, 1);
        assert_eq!(between.bytes_sent - before.bytes_sent, len as u64);
        assert_eq!(between.transmit_calls - before.transmit_calls, 1);
        let frames = [one_frame(&mut backend), one_frame(&mut backend)];
        assert_eq!(frames[0], frames[1], "{len} bytes in {pieces} pieces");
        assert_eq!(&frames[0][HEADERS..], &payload[..len]);
    }
    end(backend);
}
