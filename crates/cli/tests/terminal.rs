//! The output of the command on a terminal and into a file; completions and man pages.

use std::{
    env, fs,
    fs::File,
    io::Read,
    process::{Command, Output, Stdio},
    thread,
};

use nix::pty::{OpenptyResult, Winsize, openpty};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");
/// Some dozen steps.
const STEPS: &str = "bench core --sizes 8,64 --iterations 50 --rounds 4";
/// The variables that affect colours.
const COLOURS: [&str; 4] = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"];

fn command(line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).stdin(Stdio::null());
    COLOURS.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn run(line: &str) -> Output {
    command(line).output().expect("the command starts")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

/// The output of `command` on a terminal of 100 columns: its standard error and, with `all`, its standard output.
fn on_a_terminal(mut command: Command, all: bool) -> String {
    let size = Winsize {
        ws_row: 24,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).expect("a terminal");
    let reader = thread::spawn(move || {
        let (mut said, mut master, mut part) = (Vec::new(), File::from(master), [0; 4096]);
        // The end is an error: when no process has the other side any more.
        while let Ok(1..) = master
            .read(&mut part)
            .inspect(|&len| said.extend_from_slice(&part[..len]))
        {}
        text(said)
    });
    let output = if all {
        slave.try_clone().expect("a descriptor").into()
    } else {
        Stdio::null()
    };
    command.env("TERM", "xterm-256color").stdout(output).stderr(slave);
    assert!(command.status().expect("the command starts").success());
    // It has copies of the terminal.
    drop(command);
    reader.join().expect("the reader")
}

/// It sets a colour, or bold, or what else looks different.
fn is_styled(said: &str) -> bool {
    said.split("\x1b[").skip(1).any(|sequence| {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic());
        end.is_some_and(|end| sequence[end..].starts_with('m') && !matches!(&sequence[..end], "" | "0"))
    })
}

#[test]
fn no_color_is_respected() {
    let plain = |line: &str| {
        let mut command = command(line);
        command.env("NO_COLOR", "1");
        command
    };
    let styled = on_a_terminal(command("run --help"), true);
    assert!(is_styled(&styled), "clap has styles on a terminal: {styled}");
    let help = on_a_terminal(plain("run --help"), true);
    assert!(!is_styled(&help) && help.contains("--hostfile"), "{help}");
    let bar = on_a_terminal(plain(STEPS), false);
    assert!(!is_styled(&bar) && bar.contains(" %  ["), "{bar}");
}

#[test]
fn a_terminal_has_a_bar_that_goes_away() {
    let said = on_a_terminal(command(STEPS), false);
    assert!(said.contains(" %  [") && said.contains("hikyaku/core, 8"), "{said:?}");
    let last = said.rsplit(['\r', '\n']).next().unwrap_or_default();
    assert!(!last.contains('%'), "nothing stays on the line: {said:?}");
}

#[test]
fn a_file_has_lines_if_they_are_asked_for() {
    let quiet = run(STEPS);
    assert!(quiet.status.success());
    assert_eq!(text(quiet.stderr), "");
    let asked = run(&format!("{STEPS} --progress"));
    assert!(asked.status.success());
    let said = text(asked.stderr);
    assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    let lines: Vec<&str> = said.lines().collect();
    assert!((2..=100).contains(&lines.len()), "{said}");
    assert!(lines.iter().all(|line| line.contains(" %  hikyaku/core")), "{said}");
    assert!(lines.last().is_some_and(|line| line.starts_with("100 %")), "{said}");
    assert_eq!(quiet.stdout.is_empty(), asked.stdout.is_empty());
}

#[test]
fn shells_and_man_know_all_commands_but_hidden_ones() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&format!("completions {shell}"));
        assert!(output.status.success(), "{shell}");
        let script = text(output.stdout);
        assert!(script.contains("allreduce") && script.contains("hostfile"), "{shell}");
        assert!(!script.contains("bench-worker"), "{shell}");
    }
    let page = text(run("man").stdout);
    assert!(page.contains(".TH hikyaku 1"), "{page}");

    let directory = env::temp_dir().join(format!("hikyaku-man-{}", std::process::id()));
    let mut man = command("man");
    assert!(man.arg(&directory).status().expect("the command starts").success());
    let latency = fs::read_to_string(directory.join("hikyaku-bench-latency.1")).expect("a page");
    fs::remove_dir_all(&directory).expect("it is there");
    assert!(latency.contains("\n.SH EXAMPLES\n"), "{latency}");
}
