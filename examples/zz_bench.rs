//! x
use std::time::{Duration, Instant};
use hikyaku::transport::*;
fn main() {
    let which = std::env::args().nth(1).unwrap_or("udp".into());
    let size: usize = std::env::args().nth(2).map_or(8, |s| s.parse().unwrap());
    let mut a = Transport::builder().processor(1).wait(if std::env::var("SPIN").is_ok() {WaitPolicy::Spin} else {WaitPolicy::default()}).bind(&which, "127.0.0.1:0").unwrap();
    let mut b = Transport::builder().processor(2).wait(if std::env::var("SPIN").is_ok() {WaitPolicy::Spin} else {WaitPolicy::default()}).bind(&which, "127.0.0.1:0").unwrap();
    let (aa, ba) = (a.local_addr(), b.local_addr());
    let pb = a.add_peer(2, ba).unwrap();
    let pa = b.add_peer(1, aa).unwrap();
    let n = 200_000u64 / (1 + size as u64 / 4096);
    let t = std::thread::spawn(move || {
        let mut buf = vec![0u8; size];
        for _ in 0..n {
            let m = b.receive(None).unwrap();
            buf.copy_from_slice(&m);
            b.send_blocking(pa, &buf).unwrap();
        }
        // then a stream
        let mut count = 0u64; let mut bytes = 0;
        loop { let m = b.receive(None).unwrap(); if m.len() == 1 { break; } count += 1; bytes += m.len(); }
        eprintln!("received {count} {bytes} {:?}", b.stats());
        b.close(Duration::from_secs(1)).unwrap();
    });
    let buf = vec![1u8; size];
    let mut times = Vec::new();
    for _ in 0..n {
        let s = Instant::now();
        a.send(pb, &buf).unwrap();
        a.receive(None).unwrap();
        times.push(s.elapsed().as_nanos());
    }
    times.sort();
    println!("{which} {size}: rtt p50 {} ns p99 {}", times[times.len() / 2], times[times.len() * 99 / 100]);
    let count = (2_000_000u64).min((2u64 << 30) / size.max(1) as u64);
    let s = Instant::now();
    for _ in 0..count { a.send_blocking(pb, &buf).unwrap(); }
    a.send_blocking(pb, b"x").unwrap();
    a.flush(Duration::from_secs(10)).unwrap();
    let e = s.elapsed();
    println!("stream: {:.2} M msg/s, {:.1} MB/s", count as f64 / e.as_secs_f64() / 1e6, (count * size as u64) as f64 / e.as_secs_f64() / 1e6);
    println!("{:?}\n{:?}", a.stats(), a.backend_stats());
    a.close(Duration::from_secs(1)).unwrap();
    t.join().unwrap();
}
