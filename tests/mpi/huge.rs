//! Counts that do not fit into 32 bits.

use std::fs;

use hikyaku::mpi::datatype::Datatype;

use super::{
    messages::{receive, send},
    support::{byte, job_on, options},
};

/// A little more than 4 GiB.
const BYTES: usize = (1 << 32) + 12_345;
/// Where the sender has written something; the rest is zeros, of which the kernel has one page for all.
const MARKS: [usize; 5] = [0, (1 << 31) + 1, (1 << 32) - 1, 1 << 32, BYTES - 1];

/// The memory of this machine, bytes.
fn available() -> usize {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok());
    kib.map_or(0, |kib| kib << 10)
}

#[test]
#[ignore = "needs 5 GB: cargo xtask ci"]
fn more_bytes_than_32_bits_can_count() {
    if available() < BYTES + (1 << 30) {
        println!("skipped: less than 5.3 GB of memory are available");
        return;
    }
    job_on("udp", 2, &options(), |comm| {
        let mut data = vec![0_u8; BYTES];
        if comm.rank() == 0 {
            for (mark, at) in (1_u8..).zip(MARKS) {
                data[at] = mark;
            }
            send(&comm, &data, 1, 0).unwrap();
            // Elements of no bytes cost nothing, and are counted all the same.
            let nothing = Datatype::contiguous(0, &byte()).unwrap();
            // SAFETY: none of the bytes is read.
            unsafe {
                let mode = hikyaku::mpi::engine::Mode::Standard;
                comm.send(mode, data.as_ptr(), u64::from(u32::MAX) + 2, &nothing, 1, 1)
                    .unwrap();
            }
        } else {
            let status = receive(&comm, &mut data, 0, 0).unwrap();
            assert_eq!(status.len, BYTES as u64);
            for (mark, at) in (1_u8..).zip(MARKS) {
                assert_eq!(data[at], mark, "at {at}");
            }
            let sum: u64 = data.iter().map(|byte| u64::from(*byte)).sum();
            assert_eq!(sum, 15, "what nobody has written");
            assert_eq!(receive(&comm, &mut data[..0], 0, 1).unwrap().len, 0);
        }
    });
}
