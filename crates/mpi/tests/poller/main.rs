//! Programs whose ranks go by way of node-wide pollers, with large messages by a backend of their own or without.

#[path = "../support/built.rs"]
mod built;
#[expect(dead_code, reason = "what these tests do not need, others do")]
#[path = "../../../../tests/support/hugepages.rs"]
mod hugepages;
#[expect(dead_code, reason = "what these tests do not need, others do")]
#[expect(
    clippy::allow_attributes,
    reason = "nobody can expect that an expectation is not fulfilled"
)]
#[allow(unfulfilled_lint_expectations, reason = "this package may read clocks")]
#[path = "../../../../tests/support/netns.rs"]
mod netns;
mod port;
mod support;
mod two;

use std::process::{Command, Stdio};

use built::{example, launcher};
use support::{DPDK, NO_HUGE, Poller, RIGHT, UDP, said, succeeds};

#[test]
fn ranks_of_one_poller() {
    let poller = Poller::start();
    assert!(succeeds(&poller.run(4, &["sor", "64", "50"], &[])).contains(RIGHT));
    for name in ["sizes", "window", "all_to_all", "intercommunicator"] {
        succeeds(&poller.run(2, &[name], &[]));
    }
    assert!(poller.end().packets > 0);
}

/// The transposes of a Fourier transform are messages of 256 KiB.
#[test]
fn large_messages_past_the_poller() {
    let through = Poller::start();
    succeeds(&through.run(4, &["ft", "S"], &[]));
    let through = through.end().packets;
    let past = Poller::start();
    succeeds(&past.run(4, &["ft", "S"], &[UDP]));
    let past = past.end().packets;
    assert!(0 < past && past < through / 10, "{past} packets, {through} without");
    // Windows and all sizes, with everything that is larger than nothing asking first.
    let poller = Poller::start();
    let ask = [UDP, ("HIKYAKU_EAGER_LIMIT", "0")];
    for name in ["sizes", "window", "all_to_all", "intercommunicator"] {
        succeeds(&poller.run(4, &[name], &ask));
    }
    poller.end();
}

#[test]
fn large_messages_over_a_device_of_the_ranks_own() {
    let poller = Poller::start();
    let ranks = ["-n", "2", "--device", "memif"];
    for program in [&["ft", "S"][..], &["halo", "16", "3"], &["sizes"], &["window"]] {
        succeeds(&poller.job(&ranks, program, &[DPDK, NO_HUGE]).output().unwrap());
    }
    poller.end();
}

#[test]
fn a_poller_whose_output_nobody_reads_serves_and_ends() {
    let mut poller = Poller::start();
    poller.leave_unread();
    succeeds(&poller.run(2, &["sizes"], &[]));
    let ended = poller.ended();
    assert!(ended.success(), "{ended}");
}

#[test]
fn who_has_no_backend_beside_the_poller_is_named() {
    let poller = Poller::start();
    let sor = example("sor");
    let mut command = Command::new(launcher());
    let output = command
        .args(["run", "--timeout", "60", "--backend", "poller", "-n", "2"])
        .arg(&sor)
        .args([":", "-n", "1", "--env", "HIKYAKU_POLLER_BULK=udp"])
        .arg(&sor)
        .env("HIKYAKU_POLLER", &poller.socket)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = said(&output);
    assert!(
        !output.status.success() && text.contains("beginning MPI: reaching process 0"),
        "{text}"
    );
    assert!(
        text.contains("HIKYAKU_POLLER_BULK is for all processes of a job"),
        "{text}"
    );
}
