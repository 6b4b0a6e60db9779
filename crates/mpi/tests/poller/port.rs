//! Large messages over queues of the poller's port, which the ranks have for themselves: DPDK's secondary processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
};

use super::{
    built::launcher,
    hugepages::Huge,
    support::{Folder, NO_HUGE, PORT, Poller, RIGHT, said, succeeds},
    two::{ADDRESSES, ASK, COUNTED, Pair, TRANSPOSED, has_gone_past, sent_by_ranks},
};

const OFF: (&str, &str) = ("HIKYAKU_POLLER_BULK", "off");
const NEITHER: [&[&str]; 2] = [&[]; 2];

/// Hugepages in files, for as long as this lives.
struct Pages {
    place: String,
    folder: Folder,
    _huge: Huge,
}

impl Pages {
    /// `None`: there are none, which is said.
    fn new() -> Option<Self> {
        let huge = Huge::reserve()?;
        let folder = Folder::new();
        let place = folder.file("huge");
        fs::create_dir(&place).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "hugetlbfs", "nodev", &place])
            .status();
        assert!(mounted.unwrap().success());
        Some(Self {
            place,
            folder,
            _huge: huge,
        })
    }

    /// Two pollers with memory of them.
    fn pair(&self, more: [&[&str]; 2]) -> Pair {
        let eal = format!("--huge-dir={}", self.place);
        Pair::on_memif(Folder::new(), more, &[("HIKYAKU_DPDK_EAL", &eal)])
    }

    /// A poller whose port leads to itself.
    fn ring(&self) -> Poller {
        let eal = format!("--huge-dir={}", self.place);
        let settings = [("HIKYAKU_DPDK_EAL", &*eal)];
        let socket = self.folder.file("poller");
        let command = Command::new(launcher());
        let mut poller = Poller::begin_with(command, "ring", ADDRESSES[0], &socket, &[], &settings);
        poller.wait();
        poller
    }

    /// All pollers have ended, and have taken their pages with them.
    fn are_back(&self) {
        assert_eq!(fs::read_dir(&self.place).unwrap().count(), 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).status();
    }
}

/// A job that has begun to send large messages straight.
struct Busy {
    launcher: Child,
    errors: BufReader<ChildStderr>,
}

impl Busy {
    fn new(mut job: Command) -> Self {
        job.env("HIKYAKU_LOG", "info")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut launcher = job.spawn().unwrap();
        let mut errors = BufReader::new(launcher.stderr.take().unwrap());
        let mut text = String::new();
        // (The sessions of all other messages are the pollers'.)
        while !text.contains("session opened") {
            assert!(errors.read_line(&mut text).unwrap() > 0, "{text}");
        }
        Self { launcher, errors }
    }

    /// Kills a rank.
    fn kill(&self, rank: u32) {
        let name = format!("HIKYAKU_RANK={rank}");
        let is_it = |child: &String| {
            let environment = fs::read(format!("/proc/{child}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
        };
        let mut of = vec![self.launcher.id().to_string()];
        let victim = loop {
            assert!(!of.is_empty(), "no rank {rank}");
            let children = of.iter().map(|parent| format!("/proc/{parent}/task/{parent}/children"));
            let children: String = children.filter_map(|file| fs::read_to_string(file).ok()).collect();
            of = children.split_whitespace().map(str::to_owned).collect();
            if let Some(found) = of.iter().find(|child| is_it(child)) {
                break found.clone();
            }
        };
        assert!(Command::new("kill").args(["-9", &victim]).status().unwrap().success());
    }

    /// Waits for the end of a job that has lost something; gives all that it has said.
    fn fails(mut self) -> String {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        let status = self.launcher.wait().unwrap();
        assert!(!status.success() && !text.contains("timeout"), "{text}");
        text
    }
}

#[test]
fn devices_whose_queues_other_processes_cannot_poll() {
    let null = |number: u32| format!("net_null{number},no-rx=1");
    for (device, why) in [
        (null(1), "another process cannot poll a queue"),
        (
            "memif:socket=/nowhere/memif".to_owned(),
            "HIKYAKU_DPDK_MEMORY=hugepages",
        ),
    ] {
        let folder = Folder::new();
        let mut command = Command::new(launcher());
        command
            .args([
                "poller",
                "--bulk-queues",
                "1",
                "--device",
                &device,
                "--address",
                ADDRESSES[0],
            ])
            .args(["--socket", &folder.file("poller")])
            .env(NO_HUGE.0, NO_HUGE.1);
        let output = command.output().unwrap();
        let text = said(&output);
        assert!(!output.status.success() && text.contains(why), "{text}");
    }
    // Without a number, the poller says why there are none, and serves.
    let folder = Folder::new();
    let socket = folder.file("poller");
    let mut poller = Poller::begin(Command::new(launcher()), &null(2), ADDRESSES[0], &socket);
    poller.wait();
    let says = poller.says();
    assert!(
        says.contains("go through the poller: of this driver, another process"),
        "{says}"
    );
    let refused = said(&poller.run(2, &["sor", "64", "50"], &[PORT]));
    assert!(
        refused.contains("refuses this process: its port has no queues"),
        "{refused}"
    );
}

#[test]
fn large_messages_over_queues_of_the_pollers_port() {
    let Some(pages) = Pages::new() else { return };
    for ranks in [2, 4] {
        let pair = pages.pair(NEITHER);
        let text = pair.run(ranks, &[], &["ft", "S"], &[COUNTED]);
        has_gone_past(pair.end(), &text);
        pages.are_back();
    }
    // One job after the other, with everything that is larger than nothing asking first.
    let pair = pages.pair(NEITHER);
    for ranks in [2, 4] {
        for program in [&["halo", "16", "3"][..], &["sizes"], &["window"], &["all_to_all"]] {
            pair.run(ranks, &[], program, &[PORT, ASK]);
        }
    }
    pair.end();
    // They can be switched off, by each side.
    let pair = pages.pair(NEITHER);
    pair.run(4, &[], &["ft", "S"], &[OFF]);
    for poller in pair.end() {
        assert!(poller.bytes > TRANSPOSED, "{poller:?}");
    }
    let pair = pages.pair([&["--bulk-queues", "0"]; 2]);
    pair.run(4, &[], &["ft", "S"], &[]);
    for poller in pair.end() {
        assert!(poller.bytes > TRANSPOSED, "{poller:?}");
    }
}

#[test]
fn more_ranks_than_queues() {
    let Some(pages) = Pages::new() else { return };
    let pair = pages.pair([&["--bulk-queues", "1"]; 2]);
    let text = pair.run(4, &[], &["sizes"], &[ASK, ("HIKYAKU_LOG", "info")]);
    let without = text.matches("large messages go through the poller").count();
    assert!(
        without == 2 && text.contains("1 processes have some"),
        "{without}: {text}"
    );
    assert!(pair.run(4, &[], &["sor", "64", "50"], &[]).contains(RIGHT));
    pair.end();
    let pair = pages.pair([&["--bulk-queues", "1"]; 2]);
    let refused = pair.job(4, &[], &["sor", "64", "50"], &[PORT]).output().unwrap();
    let refused = said(&refused);
    assert!(refused.contains("all queues for processes are taken"), "{refused}");
}

/// Queue *n* of one end is not the other's queue *n* then.
#[test]
fn ports_with_other_queues_carry_no_large_messages() {
    let Some(pages) = Pages::new() else { return };
    let pair = pages.pair([&["--bulk-queues", "2"], &["--bulk-queues", "1"]]);
    let text = pair.run(2, &[], &["ft", "S"], &[("HIKYAKU_LOG", "debug"), COUNTED]);
    assert!(text.contains("its poller's port has other queues"), "{text}");
    // Queues that only the server has would give its rank the packets of its poller.
    assert_eq!(text.matches(r#""dropped":{}"#).count(), 2, "{text}");
    for poller in pair.end() {
        assert!(poller.bytes > TRANSPOSED, "{poller:?}");
    }
    // A client that has more than the server, and has not been told to, does with none.
    let mut pair = pages.pair([&["--bulk-queues", "1"], &[]]);
    let says = pair.pollers[1].says();
    assert!(says.contains("the other end has fewer queues"), "{says}");
    pair.run(2, &[], &["ft", "S"], &[]);
    pair.end();
}

#[test]
fn queues_of_killed_ranks_are_used_again() {
    let Some(pages) = Pages::new() else { return };
    let pair = pages.pair(NEITHER);
    for rank in 0..4 {
        let busy = Busy::new(pair.job(4, &[], &["ft", "A"], &[PORT]));
        busy.kill(rank);
        let text = busy.fails();
        assert!(text.contains("SIGKILL"), "{text}");
        pair.run(4, &[], &["ft", "S"], &[PORT]);
    }
}

#[test]
fn ranks_of_a_killed_poller_end() {
    let Some(pages) = Pages::new() else { return };
    for victim in 0..2 {
        let mut pair = pages.pair(NEITHER);
        let busy = Busy::new(pair.job(4, &[], &["ft", "A"], &[PORT]));
        pair.pollers[victim].kill();
        let text = busy.fails();
        assert!(text.contains("the network of this process has failed"), "{text}");
        assert!(!text.contains("signal"), "{text}");
    }
    // The pages of those that were killed do not stay.
    pages.pair(NEITHER).end();
    pages.are_back();
}

/// The port leads to itself, so the ranks of one poller reach each other by it.
#[test]
fn large_messages_over_queues_of_a_ring() {
    let Some(pages) = Pages::new() else { return };
    let mut poller = pages.ring();
    let says = poller.says();
    assert!(says.contains("for 3 processes"), "{says}");
    let text = succeeds(&poller.run(2, &["ft", "S"], &[PORT, COUNTED]));
    assert!(sent_by_ranks(&text) > TRANSPOSED, "{text}");
    for program in [&["halo", "16", "3"][..], &["sizes"], &["window"]] {
        succeeds(&poller.run(3, program, &[PORT, ASK]));
    }
    let lent = poller.end().packets;
    assert!(lent < 20_000, "{lent}");
    pages.are_back();
    // A killed rank has lent packets to others: its queues can be had again when all have ended.
    let poller = pages.ring();
    let busy = Busy::new(poller.job(&["-n", "3"], &["ft", "A"], &[PORT]));
    busy.kill(1);
    busy.fails();
    for _ in 0..2 {
        succeeds(&poller.run(3, &["sizes"], &[PORT]));
    }
}
