//! Ranks of one host that are processes, and reach each other through memory: all of them, and some.
#![cfg(all(feature = "shm", feature = "events", target_os = "linux"))]

#[path = "support/built.rs"]
mod built;
#[path = "routes/confined.rs"]
mod confined;
#[path = "routes/levels.rs"]
mod levels;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use built::{example, launcher};

/// No rank notices another's silence in this time.
const SILENCE: &str = "60s";

/// A job whose ranks say how they reach each other.
fn job(options: &[&str]) -> Command {
    let mut command = Command::new(launcher());
    command
        .arg("run")
        .args(options)
        .env("HIKYAKU_LOG", "info")
        .env("HIKYAKU_DEATH_TIMEOUT", SILENCE)
        .env("HIKYAKU_KEEPALIVE", SILENCE)
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Runs an example as so many ranks, all of which reach all others through memory.
fn through_memory(ranks: usize, program: &[&str]) {
    let [name, arguments @ ..] = program else {
        panic!("no program")
    };
    let output = job(&["-n", &ranks.to_string(), "--env", "HIKYAKU_ROUTES=memory"])
        .arg(example(name))
        .args(arguments)
        .output()
        .unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{program:?}\n{said}");
    let chosen = format!("routes chosen memory={} network=0", ranks - 1);
    assert_eq!(said.matches(&chosen).count(), ranks, "{program:?}\n{said}");
    assert!(!said.contains("WARN"), "{said}");
}

const PROGRAMS: [&[&str]; 12] = [
    &["shared"],
    &["send_receive"],
    &["immediate_multiple_requests"],
    &["matched_probe"],
    &["buffered"],
    &["structured"],
    &["window"],
    &["intercommunicator"],
    &["sizes", "3000", "30"],
    &["ft", "16"],
    // (The blocks of its transposes are as large as those that ranks read from each other.)
    &["ft", "64"],
    &["halo", "9", "3"],
];

#[test]
fn two_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(2, program));
}

#[test]
fn four_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(4, program));
}

#[test]
fn eight_ranks() {
    PROGRAMS.into_iter().for_each(|program| through_memory(8, program));
}

/// Two pairs of ranks: one reaches each other through memory, all others over the network.
#[test]
fn some_of_the_ranks() {
    for program in PROGRAMS {
        let [name, arguments @ ..] = program else {
            panic!("no program")
        };
        let program = example(name);
        let (program, arguments) = (program.to_str().unwrap(), arguments.iter().copied());
        let mut both: Vec<&str> = vec![program];
        both.extend(arguments.clone());
        both.extend([":", "-n", "2", "--env", "HIKYAKU_ROUTES=network", program]);
        both.extend(arguments);
        let output = job(&["-n", "2", "--env", "HIKYAKU_ROUTES=auto"])
            .args(&both)
            .output()
            .unwrap();
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("routes chosen memory=1 network=2").count(), 2, "{said}");
    }
}

/// Processes copy from and to each other's memory where they may, and none does if it is told not to.
#[test]
fn the_kernel_copies_large_messages() {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let may = is_root() || scope.map_or(true, |scope| scope.trim() == "0");
    for (limit, copies) in [("64K", may), ("off", false)] {
        let counters = std::env::temp_dir().join(format!("hikyaku-crossed-{}-{limit}", std::process::id()));
        let output = job(&["-n", "2", "--env", "HIKYAKU_ROUTES=memory"])
            .args(["--env", &format!("HIKYAKU_STATS={}", counters.display())])
            .args(["--env", &format!("HIKYAKU_CMA_LIMIT={limit}")])
            .arg(example("ping_pong"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let counted = fs::read_to_string(&counters).unwrap();
        fs::remove_file(&counters).unwrap();
        assert_eq!(
            counted.matches("\"crossed\":0").count(),
            if copies { 0 } else { 2 },
            "{counted}"
        );
        assert_eq!(counted.matches("\"crossed\":").count(), 2, "{counted}");
    }
}

/// It is what happens if nobody asks for anything.
#[test]
fn ranks_of_one_host_talk_through_memory() {
    let output = job(&["-n", "3"]).arg(example("send_receive")).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("routes chosen memory=2 network=0").count(), 3, "{said}");
}

/// A job with the example `lost`, whose ranks that are not lost wait for the last one.
fn lost(options: &[&str]) -> Child {
    lost_in("receive", options)
}

/// The same, of that kind.
fn lost_in(how: &str, options: &[&str]) -> Child {
    job(&[&["-n", "4"], options].concat())
        .arg(example("lost"))
        .arg(how)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// The output of a job, and the process id that a rank in trouble says: then all wait for it.
fn victim(job: &mut Child) -> (BufReader<impl Read + use<>>, String) {
    let mut output = BufReader::new(job.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = line.trim().split_once(" pid ").unwrap().1.to_owned();
    (output, pid)
}

/// Kills the last one of so many ranks, while the others wait for it in `call`: they name it, and go on without it.
fn all_miss_the_last(mut job: Child, ranks: u32, call: &str) {
    let (mut output, pid) = victim(&mut job);
    kill("-KILL", &pid);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let errors = job.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    let last = ranks - 1;
    for rank in 0..last {
        let failed = format!("rank {rank}: ProcFailed: {call} with rank {last} on communicator 0");
        assert!(
            said.contains(&failed) && said.contains(&format!("rank {rank}: {last} are left")),
            "{said}{errors}"
        );
    }
}

/// A rank that is killed is missed at once, and the others go on.
#[test]
fn a_rank_that_is_killed_is_missed() {
    let begun = Instant::now();
    all_miss_the_last(lost(&["--on-failure", "continue"]), 4, "MPI_Recv");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// A lock that a rank has taken in memory goes to the others when the rank is killed: while it holds it, and at any moment
/// of taking it and giving it back. Those notice its end themselves that wait for it, and are told by the launcher.
#[test]
fn a_lock_of_a_rank_that_is_killed_goes_to_the_others() {
    const ALONE: [&str; 5] = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", "env"];
    let told = &["--on-failure", "continue"][..];
    let kinds = [("lock", told, 1), ("lock", &ALONE[..], 1), ("locks", told, 8)];
    for (how, options, times) in kinds {
        for turn in 0..times {
            let mut job = lost_in(how, options);
            let (mut output, pid) = victim(&mut job);
            // At another moment each time.
            std::thread::yield_now();
            kill("-KILL", &pid);
            let mut said = String::new();
            output.read_to_string(&mut said).unwrap();
            let errors = job.wait_with_output().unwrap().stderr;
            let errors = String::from_utf8_lossy(&errors);
            for rank in 0..3 {
                let has = format!("rank {rank}: it has the lock");
                let goes_on = format!("rank {rank}: 3 are left");
                assert!(
                    said.contains(&has) && said.contains(&goes_on),
                    "{how} {options:?} {turn}: {said}{errors}"
                );
            }
        }
    }
}

/// A launcher that says nothing of it: the ranks notice it themselves, long before a silent one would be given up. (They
/// ignore SIGTERM, and so have three seconds until the launcher kills them.)
#[test]
fn ranks_notice_the_end_of_another() {
    let mut job = job(&["-n", "3", "sh", "-c", "trap '' TERM; exec \"$@\"", "sh"])
        .arg(example("lost"))
        .arg("receive")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut output, pid) = victim(&mut job);
    kill("-KILL", &pid);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    job.wait().unwrap();
    for rank in 0..2 {
        let failed = format!("rank {rank}: ProcFailed: MPI_Recv with rank 2 on communicator 0");
        assert!(said.contains(&failed), "{said}");
    }
}

/// Our sockets and files in memory, of all processes.
fn names() -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
    let files = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let files: Vec<_> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    names
        .map(str::to_owned)
        .chain(files)
        .filter(|name| name.contains("hikyaku"))
        .collect()
}

/// Nothing has a name that outlives the processes, however these end; and no process is left.
#[test]
fn nothing_is_left_behind() {
    for signal in ["-KILL", "-INT"] {
        let mut job = lost(&[]);
        let (mut output, pid) = victim(&mut job);
        // (Other tests have some too, and end.)
        let mine = names();
        assert!(mine.iter().any(|name| name.starts_with("@hikyaku-bell-")), "{mine:?}");
        let launcher = job.id().to_string();
        if signal == "-KILL" {
            // All at once.
            Command::new("kill").args([signal, &launcher, &pid]).status().unwrap();
        } else {
            kill(signal, &launcher);
        }
        // Until all ranks have closed it.
        output.read_to_string(&mut String::new()).unwrap();
        let status = job.wait().unwrap();
        assert_eq!(status.code(), (signal == "-INT").then_some(130));
        let end = Instant::now() + Duration::from_secs(60);
        while mine.iter().any(|name| names().contains(name)) {
            assert!(Instant::now() < end, "{mine:?}");
            std::thread::yield_now();
        }
    }
}

// ---- where memory cannot be had

/// A job of an example in which one part of the ranks is started by other commands.
fn mixed(options: &[&str], wrapped: &[&str], program: &Path) -> Output {
    let program = program.to_str().unwrap();
    let mut command = job(options);
    command
        .args(["-n", "2", program, ":", "-n", "2"])
        .args(wrapped)
        .arg(program);
    command.output().unwrap()
}

/// One host that is called by two names.
#[test]
fn a_host_with_two_names_is_one_host() {
    let script = env!("CARGO_TARGET_TMPDIR").to_owned() + "/here";
    fs::write(&script, "shift; exec sh -c \"$*\"\n").unwrap();
    let output = job(&["--host", "one:1,two:1", "--ssh", &format!("sh {script}")])
        .arg(example("send_receive"))
        .output()
        .unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("routes chosen memory=1 network=0").count(), 2, "{said}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command whose ranks are on another host, as containers on such hosts are: its kernel began at another time. `None`, said
/// why: that cannot be had here.
fn another_host() -> Option<[String; 6]> {
    if !is_root() {
        eprintln!("skipped: not root");
        return None;
    }
    // Once: what is read while it is written is nothing.
    static BOOT: LazyLock<String> = LazyLock::new(|| {
        let boot = format!("{}/boot_id-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        fs::write(&boot, "00000000-1111-2222-3333-444444444444\n").unwrap();
        boot
    });
    let boot = &*BOOT;
    let enter = format!("mount --bind {boot} /proc/sys/kernel/random/boot_id && exec \"$@\"");
    let wrapped = ["unshare", "-m", "sh", "-c", &enter, "sh"].map(str::to_owned);
    let works = Command::new(&wrapped[0]).args(&wrapped[1..]).arg("true").status();
    if works.is_ok_and(|status| status.success()) {
        return Some(wrapped);
    }
    eprintln!("skipped: no mount namespaces here");
    None
}

/// Two hosts with one name, as containers that were made from one image have: their kernels began at different times.
#[test]
fn two_hosts_with_one_name_are_two() {
    if !is_root() {
        return eprintln!("skipped: not root");
    }
    let Some(enter) = another_host() else { return };
    let wrapped: Vec<&str> = enter.iter().map(String::as_str).collect();
    let output = mixed(&[], &wrapped, &example("send_receive"));
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("routes chosen memory=1 network=2").count(), 4, "{said}");
    assert!(
        !said.contains("instead of through memory"),
        "nothing is missing: {said}"
    );
}

#[test]
fn processes_of_two_users_use_the_network() {
    if !is_root() {
        return eprintln!("skipped: not root");
    }
    // Another user may not look into the directory of the build.
    let dir = std::env::temp_dir().join(format!("hikyaku-routes-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.join("send_receive");
    fs::copy(example("send_receive"), &program).unwrap();
    let wrapped = ["setpriv", "--reuid", "65534", "--clear-groups"];
    for (routes, works) in [("auto", true), ("memory", false)] {
        let output = mixed(&["--env", &format!("HIKYAKU_ROUTES={routes}")], &wrapped, &program);
        let said = said(&output);
        assert_eq!(output.status.success(), works, "{said}");
        if works {
            assert_eq!(said.matches("routes chosen memory=1 network=2").count(), 4, "{said}");
            let line = "hikyaku: ranks of this host talk over the network instead of through memory: \
                        process 2: it belongs to the user 65534\n";
            assert_eq!(said.matches("instead of through memory").count(), 1, "{said}");
            assert!(said.contains(line), "{said}");
        } else {
            assert!(said.contains("HIKYAKU_ROUTES=memory: process "), "{said}");
        }
    }
    fs::remove_dir_all(dir).unwrap();
}

/// With too few descriptors for memory, the network takes over; with fewer, MPI does not begin, and says so.
#[test]
fn a_limit_on_descriptors_is_no_riddle() {
    let mut taken_over = 0;
    for limit in 6..40 {
        let limited = format!("ulimit -n {limit} && exec \"$@\"");
        let wrapped = ["sh", "-c", &limited, "sh"];
        let output = mixed(&["--timeout", "50"], &wrapped, &example("send_receive"));
        let said = said(&output);
        if output.status.success() {
            if said.matches("routes chosen memory=3 network=0").count() == 4 {
                assert!(taken_over > 0, "{limit} descriptors are enough: {said}");
                return;
            }
            assert!(
                said.contains("instead of through memory: process 2 "),
                "{limit}: {said}"
            );
            assert!(said.contains("Too many open files"), "{limit}: {said}");
            taken_over += 1;
        } else {
            assert!(
                said.contains("Too many open files") || said.contains("os error 24"),
                "{limit}: {said}"
            );
        }
    }
    panic!("never enough descriptors");
}

#[test]
fn a_rank_that_is_alone_needs_no_memory() {
    through_memory(1, &["simple"]);
}
