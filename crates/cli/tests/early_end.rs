//! Benchmarks on a busy machine, and those that end before their time: what was measured is printed, and why no more was.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::Value;

/// So many sizes that a benchmark is still at it when the test has seen its first row.
const LONG: &str = "bench latency --iterations 300 --rounds 5 --vs tcp --wait adaptive --sizes 8,9,10,11,12,13,14,15,16,\
                    17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49";

/// In a process group of its own, as a shell starts it.
fn start(line: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it starts")
}

/// Reads until a line has `words`; gives all that was read.
fn read_until(from: &mut impl BufRead, words: &str) -> String {
    let mut text = String::new();
    loop {
        let before = text.len();
        assert!(from.read_line(&mut text).expect("text") > 0, "it ended early: {text}");
        if text[before..].contains(words) {
            return text;
        }
    }
}

fn kill(signal: &str, whom: &str) {
    let status = Command::new("kill").args([signal, "--", whom]).status();
    assert!(status.expect("kill").success());
}

/// The number of the worker's process, from what the driver says first.
fn worker(said: &str) -> &str {
    let rest = said.split("worker process ").nth(1);
    rest.and_then(|rest| rest.split(' ').next()).expect("a number")
}

/// Sizes of the rows of a table.
fn sizes(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split_whitespace().next()).collect()
}

fn rest(of: &mut impl Read) -> String {
    let mut text = String::new();
    of.read_to_string(&mut text).expect("UTF-8");
    text
}

#[test]
fn a_busy_machine_is_waited_for_and_named() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    let spinners: Vec<_> = (0..cpus.max(2))
        .map(|_| {
            thread::spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let mut driver = start("bench latency --sizes 8,64 --iterations 50 --rounds 3 --vs tcp --wait spin");
    let text = rest(driver.stdout.as_mut().expect("piped"));
    let said = rest(driver.stderr.as_mut().expect("piped"));
    let status = driver.wait().expect("it ends");
    STOP.store(true, Ordering::Relaxed);
    for spinner in spinners {
        spinner.join().expect("it only spins");
    }
    assert!(status.success(), "{text}{said}");
    assert_eq!(sizes(&text), ["8", "64"], "{text}{said}");
    // Both ends spin, too, so each of them shares its CPU.
    if Path::new("/proc/thread-self/schedstat").exists() {
        assert!(text.contains("# machine busy: "), "{text}{said}");
    }
}

#[test]
fn rows_come_one_by_one_and_outlive_the_worker() {
    let mut driver = start(LONG);
    let mut errors = BufReader::new(driver.stderr.take().expect("piped"));
    let said = read_until(&mut errors, "worker process");
    let mut table = BufReader::new(driver.stdout.take().expect("piped"));
    // This row is here while others are still measured: the driver is alive, and has more to do.
    let mut text = read_until(&mut table, "      8 |");
    kill("-9", worker(&said));
    text += &rest(&mut table);
    assert!(!sizes(&text).contains(&"49"), "{text}");
    assert!(text.contains("# ended early"), "{text}");
    let said = rest(&mut errors);
    assert!(said.contains("has died"), "{said}");
    assert_eq!(driver.wait().expect("it ends").code(), Some(1), "{said}");
    // Rows are aligned although nobody knew them when the first was printed.
    let borders = |line: &str| {
        line.char_indices()
            .filter(|(_, c)| *c == '|')
            .map(|at| at.0)
            .collect::<Vec<_>>()
    };
    let lines: Vec<_> = text.lines().filter(|line| line.contains('|')).map(borders).collect();
    assert!(
        lines.len() > 2 && lines.windows(2).all(|two| two[0] == two[1]),
        "{text}"
    );
}

#[test]
fn json_keeps_rows_and_names_the_failure() {
    let mut driver = start(&format!("{LONG} --format json --progress"));
    let mut errors = BufReader::new(driver.stderr.take().expect("piped"));
    let said = read_until(&mut errors, "worker process");
    read_until(&mut errors, ", 10");
    kill("-9", worker(&said));
    let said = rest(&mut errors);
    let text = rest(driver.stdout.as_mut().expect("piped"));
    assert_eq!(driver.wait().expect("it ends").code(), Some(1), "{said}");
    let document: Value = serde_json::from_str(&text).expect("one object");
    let rows = document["rows"].as_array().expect("rows");
    for size in [8, 9] {
        assert_eq!(rows.iter().filter(|row| row["size"] == size).count(), 2, "{document}");
    }
    let failure = document["failure"].as_str().expect("a reason");
    assert!(
        failure.contains("has died") && said.contains(failure),
        "{failure}: {said}"
    );
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let mut driver = start(LONG);
    let mut errors = BufReader::new(driver.stderr.take().expect("piped"));
    let mut table = BufReader::new(driver.stdout.take().expect("piped"));
    let mut text = read_until(&mut table, "      8 |");
    // A terminal sends it to all of them.
    kill("-INT", &format!("-{}", driver.id()));
    text += &rest(&mut table);
    let said = rest(&mut errors);
    assert_eq!(driver.wait().expect("it ends").code(), Some(130), "{text}{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(
        sizes(&text)[0] == "8" && !sizes(&text).contains(&"49") && text.contains("# ended early"),
        "{text}"
    );
}
