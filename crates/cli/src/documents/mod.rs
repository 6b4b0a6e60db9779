//! Every command line of ours in the pages and in `--help` is one that the command line takes.

mod fences;

use clap::{CommandFactory, Parser, error::ErrorKind};

use self::fences::{commands, fences, ours, pages};
use crate::command::Cli;

/// The text of a page; nothing in a package, which has none.
pub(crate) fn page(name: &str) -> Option<String> {
    pages().into_iter().find(|(own, _)| own == name).map(|(_, text)| text)
}

/// Text that leaves something open: `…`, or a word in capitals that stands for a value.
fn has_blanks(command: &str) -> bool {
    let mut words = command.split([' ', ',', '=', ':']);
    let is_blank = |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_uppercase());
    command.contains(['…', '<']) || words.any(is_blank)
}

/// The error of the command line for these arguments. `whole`: they are complete, else they may be the beginning.
pub(crate) fn complaint(arguments: &[String], whole: bool) -> Option<String> {
    let command = ["hikyaku"].into_iter().chain(arguments.iter().map(String::as_str));
    let error = Cli::try_parse_from(command).err()?;
    let is_short = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand
    );
    let is_asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_asked && (whole || !is_short)).then(|| error.to_string())
}

/// A part of the command line that this build does not have.
fn is_absent(arguments: &[String]) -> bool {
    let uses = |words: &[&str]| {
        arguments
            .iter()
            .any(|word| words.iter().any(|part| word.contains(part)))
    };
    !cfg!(feature = "peers") && uses(&["quinn", "kcp"])
        || !cfg!(feature = "dpdk") && uses(&["dpdk", "memif", "af_packet", "net_"])
        || !cfg!(feature = "sim") && arguments.first().is_some_and(|word| word == "sim" || word == "tune")
}

#[test]
fn commands_of_the_pages_are_ours() {
    let (mut complaints, mut seen) = (Vec::new(), 0);
    let mut look = |place: &str, command: &str, whole: bool| {
        if !whole && (has_blanks(command) || command.rsplit(' ').next().is_some_and(|last| last.starts_with("--"))) {
            return;
        }
        for mut arguments in ours(command) {
            // A program may be left open.
            arguments.retain(|word| word != "…");
            if is_absent(&arguments) {
                continue;
            }
            seen += 1;
            if let Some(error) = complaint(&arguments, whole) {
                complaints.push(format!("{place}: {command}\n  {}", error.replace('\n', "\n  ")));
            }
        }
    };
    let pages = pages();
    for (page, text) in &pages {
        for fence in fences(page, text) {
            if ["sh", "console"].contains(&&*fence.language) {
                commands(&fence).for_each(|command| look(&fence.place, command, !command.contains('…')));
            }
        }
        let mut inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            inside ^= line.trim_start().starts_with("```");
            let spans = line.split('`').skip(1).step_by(2).filter(|_| !inside);
            for span in spans.filter(|span| span.starts_with("hikyaku ")) {
                look(&format!("{page}:{number}"), span, false);
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    let unknown = ours("HIKYAKU_WAIT=spin hikyaku bench latency --speed high").remove(0);
    assert!(
        complaint(&unknown, true).is_some_and(|error| error.contains("--speed")),
        "{unknown:?}"
    );
    assert!(pages.is_empty() || seen > 60, "{seen}");
}

#[test]
fn examples_of_the_help_are_ours() {
    fn check(command: &clap::Command, complaints: &mut Vec<String>, seen: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            let line = line.trim();
            let command_line = line.split_once("  ").map_or(line, |(command, _)| command);
            for arguments in ours(command_line) {
                *seen += 1;
                let error = complaint(&arguments, !command_line.contains('…'));
                complaints.extend(
                    error
                        .filter(|_| !is_absent(&arguments))
                        .map(|error| format!("{}: {command_line}\n  {error}", command.get_name())),
                );
            }
        }
        for inner in command.get_subcommands() {
            check(inner, complaints, seen);
        }
    }
    let (mut complaints, mut seen) = (Vec::new(), 0);
    check(&Cli::command(), &mut complaints, &mut seen);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert!(seen > 20, "{seen}");
}
