//! `hikyaku completions` and `hikyaku man`: the command line as shells and `man` know it, from its one description.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use hikyaku_bench::failure::{Failure, While};

pub(crate) const COMPLETIONS: &str = "\
Examples:
  hikyaku completions bash > ~/.local/share/bash-completion/completions/hikyaku
  hikyaku completions zsh > ~/.zfunc/_hikyaku           and in ~/.zshrc: fpath+=~/.zfunc
  hikyaku completions fish > ~/.config/fish/completions/hikyaku.fish";

pub(crate) const MAN: &str = "\
Examples:
  hikyaku man | man -l -                                the page of the whole command, here
  hikyaku man ~/.local/share/man/man1                   all pages; then: man hikyaku-bench-latency";

/// The beginning of a paragraph of `--help` that is printed line by line.
const EXAMPLES: &str = "Examples:\n";

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that will read it
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this directory; without it, one page is printed
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the script by which a shell completes the options of `all`, the command line.
pub(crate) fn completions(args: &CompletionsArgs, all: &Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(all), "hikyaku", &mut text);
    print(&text)
}

/// Prints one page of `all`, the command line, or writes all pages.
pub(crate) fn man(args: &ManArgs, all: &Command) -> Result<(), Failure> {
    let mut command = shown(all);
    command.build();
    let Some(directory) = &args.directory else {
        return print(&page(&command).or_fail("the page")?);
    };
    fs::create_dir_all(directory).or_fail(&directory.display().to_string())?;
    for (name, text) in pages(&command).or_fail("the pages")? {
        let path = directory.join(name);
        fs::write(&path, text).or_fail(&path.display().to_string())?;
    }
    Ok(())
}

/// The command line without the commands that only this program calls.
fn shown(all: &Command) -> Command {
    let mut shown = Command::new("hikyaku")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    if let Some(about) = all.get_about() {
        shown = shown.about(about.clone());
    }
    shown
}

/// (file name, text) of the page of `command`, which is built, and of all commands below it.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut all = vec![(format!("{name}.1"), page(command)?)];
    for below in command.get_subcommands() {
        all.extend(pages(below)?);
    }
    Ok(all)
}

/// As [`Man::render`], but for the end: examples keep their lines.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("hikyaku ", env!("CARGO_PKG_VERSION")))
        .manual("hikyaku");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes): (Vec<&str>, Vec<&str>) = help
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
        .partition(|paragraph| paragraph.starts_with(EXAMPLES));
    for (number, paragraph) in notes.iter().enumerate() {
        match number {
            0 => end.control("SH", ["NOTES"]),
            _ => end.control("PP", []),
        };
        end.text([roman(*paragraph)]);
    }
    for paragraph in examples {
        end.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in paragraph.lines().skip(1) {
            end.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        end.control("fi", []);
    }
    end.control("SH", ["SEE ALSO"])
        .text([roman(env!("CARGO_PKG_REPOSITORY"))]);
    end.to_writer(&mut text)?;
    Ok(text)
}

fn print(text: &[u8]) -> Result<(), Failure> {
    io::stdout().write_all(text).or_fail("standard output")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    fn built() -> Command {
        let mut command = shown(&Cli::command());
        command.build();
        command
    }

    /// `shown` repeats the options of the root of the command line.
    #[test]
    fn the_root_is_that_of_the_command_line() {
        let (mut all, shown) = (Cli::command(), built());
        all.build();
        let arguments = |command: &Command| -> Vec<String> {
            command
                .get_arguments()
                .map(|argument| argument.get_id().to_string())
                .collect()
        };
        assert_eq!(arguments(&all), arguments(&shown));
        assert_eq!(all.get_version(), shown.get_version());
        assert_eq!(all.get_about(), shown.get_about());
        let hidden = all.get_subcommands().filter(|command| command.is_hide_set()).count();
        assert_eq!(all.get_subcommands().count(), shown.get_subcommands().count() + hidden);
    }

    #[test]
    fn each_command_has_a_page_with_its_examples() {
        let pages = pages(&built()).unwrap();
        let page = |name: &str| {
            let (_, text) = pages.iter().find(|(file, _)| file == name).expect(name);
            String::from_utf8(text.clone()).unwrap()
        };
        assert!(page("hikyaku.1").contains("hikyaku\\-bench(1)"));
        assert!(page("hikyaku.1").contains(&env!("CARGO_PKG_REPOSITORY").replace('-', "\\-")));
        let latency = page("hikyaku-bench-latency.1");
        assert!(
            latency.starts_with(".ie") || latency.contains(".TH hikyaku-bench-latency 1"),
            "{latency}"
        );
        assert!(
            latency.contains("\n.SH EXAMPLES\n.nf\nhikyaku bench latency "),
            "{latency}"
        );
        assert!(
            latency.contains("\nhikyaku bench latency \\-\\-connect first\\-host:7475\n.fi\n"),
            "{latency}"
        );
        assert!(latency.contains("\n.SH NOTES\nColumns: p50"), "{latency}");
        assert!(!pages.iter().any(|(file, _)| file.contains("worker")));
    }
}
