//! The devices in hugepages, and those that need them.

use super::{
    ETHERNET, JUMBO, LOSES, NO_HUGE, START_LIMIT, Socket, failure,
    hugepages::{Huge, IN_MEMORY},
    pair, part, part_variables, virtio,
};

#[test]
fn memif_in_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    for more in [&[ETHERNET][..], &[JUMBO], &LOSES] {
        let socket = Socket::new("huge");
        let more = [&[IN_MEMORY], more].concat();
        pair([&socket.memif("client"), &socket.memif("server")], &more);
    }
}

#[test]
fn memif_without_copies() {
    let Some(_huge) = Huge::reserve() else { return };
    for more in [&[ETHERNET][..], &[JUMBO], &LOSES] {
        let socket = Socket::new("zero-copy");
        let client = format!("{},zero-copy=yes", socket.memif("client"));
        // The driver forgets what it has put into its ring to be written to, and one that it was sending.
        let kept = ("NETNS_KEPT", "1024");
        pair([&client, &socket.memif("server")], &[&[IN_MEMORY, kept], more].concat());
    }
}

#[test]
fn memif_without_copies_is_nothing_without_hugepages() {
    let socket = Socket::new("zero-copy-none");
    let mut answers = part::start("answers", &part_variables(1, &socket.memif("server"), &[]));
    answers.wait_for("answers", START_LIMIT);
    let error = failure(&format!("{},zero-copy=yes", socket.memif("client")), &[NO_HUGE]);
    answers.kill();
    assert!(
        error.contains("zero-copy=yes") && error.contains("in-memory"),
        "{error}"
    );
}

/// Not enough for all processes, which look for them at the same time. A process that finds too few does without.
#[test]
fn processes_that_want_the_same_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    let auto = [("HIKYAKU_DPDK_MEMORY", "auto"), JUMBO];
    let start = || part::start("holds", &part_variables(0, "ring", &auto));
    let mut processes: Vec<_> = (0..6).map(|_| start()).collect();
    for process in &mut processes {
        process.wait_for("holds", START_LIMIT);
    }
    for process in processes {
        process.kill();
    }
}

#[test]
fn virtio_in_hugepages() {
    let Some(_huge) = Huge::reserve() else { return };
    virtio("huge", IN_MEMORY);
}
