//! What a worker does when it computes beside a measurement.

use std::{hint::black_box, io, net::TcpStream};

use hikyaku::internals::prng::mix;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
    process::nice,
};

/// Steps between two looks at the control connection: some hundred microseconds.
const STEPS: u64 = 100_000;

/// Changes the nice value of this thread; gives what it is then. Lower than it was is for the superuser.
pub(crate) fn change_nice(by: i32) -> io::Result<i32> {
    Ok(nice(by)?)
}

/// Computes until the driver says something, or goes.
pub(crate) fn compute(control: &TcpStream) {
    let mut number = 0;
    loop {
        for step in 0..STEPS {
            number = mix(black_box(number ^ step));
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if !matches!(recv(control, &mut [0_u8], flags), Err(Errno::AGAIN | Errno::INTR)) {
            return;
        }
    }
}
