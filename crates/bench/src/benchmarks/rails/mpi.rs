//! The ends of `bench rails` as the two ranks of a job.
#![expect(unsafe_code, reason = "the engine sends from and receives into memory of the caller")]

use std::{collections::VecDeque, io, net::IpAddr};

use hikyaku::{
    environment::Environment,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Mode},
        job::Job,
    },
};

use super::{
    node::{End, Meter, WINDOW},
    sockets::failed,
};

const TAG: i32 = 1;
/// Where rank 0 waits for the other one.
const RENDEZVOUS_PORT: u16 = 7_100;

/// The settings of the job: the ranks find each other by the first rail, and use all interfaces.
pub(super) fn environment(end: &End) -> Environment {
    let own = end.addresses(end.number);
    let interfaces: Vec<String> = own.iter().map(|address| address.ip().to_string()).collect();
    let meeting: IpAddr = end.addresses(0)[0].ip();
    let settings = [
        ("HIKYAKU_RENDEZVOUS", format!("{meeting}:{RENDEZVOUS_PORT}")),
        ("HIKYAKU_RANK", end.number.to_string()),
        ("HIKYAKU_SIZE", end.nodes().to_string()),
        ("HIKYAKU_IFACE", interfaces.join(",")),
        ("HIKYAKU_ROUTES", "network".to_owned()),
        ("HIKYAKU_JOB_KEY", "00112233445566778899aabbccddeeff".to_owned()),
    ];
    settings
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

/// Rank 0 sends until it is killed; rank 1 says how much came a second.
pub(super) fn play(end: &End) -> io::Result<()> {
    if end.number == 1 {
        println!("ready");
    }
    let job = Job::join(&environment(end)).map_err(failed)?;
    let world = Communicator::world(job.engine());
    let byte = Datatype::predefined(Kind::Byte);
    let mut buffers: Vec<Vec<u8>> = vec![vec![0xa5; end.size]; WINDOW];
    let len = end.size as u64;
    let mut meter = Meter::new(end);
    let mut requests = VecDeque::new();
    for number in 0.. {
        let start = buffers[number % WINDOW].as_mut_ptr();
        // SAFETY: the buffers stay until this process ends, and the request before that used the same one has been
        // waited for below; nothing looks at what is received.
        let request = unsafe {
            match end.number {
                0 => world.isend(Mode::Standard, start, len, &byte, 1, TAG),
                _ => world.ireceive(start, len, &byte, 0, TAG),
            }
        };
        requests.push_back(request.map_err(failed)?);
        if requests.len() < WINDOW {
            continue;
        }
        if let Some(oldest) = requests.pop_front() {
            oldest.wait().map_err(failed)?;
        }
        if end.number == 1 && meter.add(end.size)? {
            break;
        }
    }
    // The other one is killed now, so there is no goodbye; and memory that requests use is not freed.
    std::mem::forget((buffers, requests, job));
    Ok(())
}
