//! Hosts and their slots: `--host a:2,b`, host files, and which rank goes where.

use std::{fmt, fs, path::Path};

use clap::ValueEnum;
use nix::unistd::gethostname;
use serde::{Deserialize, Serialize};

/// The pinning of ranks to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Binding {
    /// Each rank on a core.
    Core,
    /// The operating system decides.
    None,
}

/// A rank to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) local_rank: u32,
    pub(super) app: u32,
}

/// A host and how many ranks it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) slots: u32,
}

/// An error in a list of hosts, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostError {
    /// File, or the option.
    source: String,
    /// Line and column from 1; only of files.
    at: Option<(usize, usize)>,
    problem: String,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Reads `a:2,b`: names with a number of slots (1).
pub(super) fn parse_list(list: &str) -> Result<Vec<Host>, HostError> {
    let mut hosts = Vec::new();
    for part in list.split(',') {
        let host = parse_name(part.trim()).map_err(|(_, problem)| HostError {
            source: format!("--host {list}"),
            at: None,
            problem,
        })?;
        add(&mut hosts, host);
    }
    Ok(hosts)
}

/// Reads a host file.
pub(super) fn read_file(path: &Path) -> Result<Vec<Host>, HostError> {
    let source = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => parse_file(&source, &text),
        Err(error) => Err(HostError {
            source,
            at: None,
            problem: error.to_string(),
        }),
    }
}

/// One host a line: `name`, `name:2` or `name slots=2`; `#` begins a comment.
pub(super) fn parse_file(source: &str, text: &str) -> Result<Vec<Host>, HostError> {
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default();
        let fail = |column: usize, problem: String| HostError {
            source: source.to_owned(),
            at: Some((number + 1, content[..column].chars().count() + 1)),
            problem,
        };
        let mut words = words(content);
        let Some((column, name)) = words.next() else { continue };
        let mut host = parse_name(name).map_err(|(at, problem)| fail(column + at, problem))?;
        for (column, word) in words {
            match word.split_once('=') {
                Some(("slots", count)) => {
                    host.slots = slots(count).map_err(|problem| fail(column + "slots=".len(), problem))?;
                }
                _ => return Err(fail(column, format!("'{word}' is not slots=N"))),
            }
        }
        add(&mut hosts, host);
    }
    if hosts.is_empty() {
        return Err(HostError {
            source: source.to_owned(),
            at: None,
            problem: "no host in it".into(),
        });
    }
    Ok(hosts)
}

/// Words with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_whitespace()
        .map(move |word| (word.as_ptr() as usize - start, word))
}

/// A name with or without `:slots`; IPv6 addresses have brackets around them. Errors have the place in `word`.
fn parse_name(word: &str) -> Result<Host, (usize, String)> {
    let (name, count) = match word.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest
                .split_once(']')
                .ok_or_else(|| (0, format!("'{word}' has no closing bracket")))?;
            let count = match (after, after.strip_prefix(':')) {
                ("", _) => None,
                (_, Some(count)) => Some(count),
                _ => return Err((word.len() - after.len(), format!("'{after}' is not :slots"))),
            };
            (name, count)
        }
        None => word
            .split_once(':')
            .map_or((word, None), |(name, count)| (name, Some(count))),
    };
    // A name that begins with a dash would be an option of ssh.
    let odd = name
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || "'\"=;|&$`".contains(c));
    if name.is_empty() || name.starts_with('-') || odd {
        return Err((0, format!("'{name}' is no name of a host")));
    }
    let slots = match count {
        None => 1,
        Some(count) => slots(count).map_err(|problem| (word.len() - count.len(), problem))?,
    };
    Ok(Host {
        name: name.to_owned(),
        slots,
    })
}

fn slots(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if (1..=65_536).contains(&count) => Ok(count),
        _ => Err(format!("'{text}' is no number of slots (1 to 65536)")),
    }
}

/// A host that is named twice has the slots of both.
fn add(hosts: &mut Vec<Host>, host: Host) {
    match hosts.iter_mut().find(|other| other.name == host.name) {
        Some(other) => other.slots = other.slots.saturating_add(host.slots),
        None => hosts.push(host),
    }
}

/// Ranks of each host, in the order of hosts: as many as it has slots, and around again if that is not enough.
///
/// `counts` are the numbers of processes of each program.
pub(super) fn place(hosts: &[Host], counts: &[u32]) -> Vec<Vec<Place>> {
    let mut places = vec![Vec::new(); hosts.len()];
    let seats = hosts
        .iter()
        .enumerate()
        .flat_map(|(index, host)| std::iter::repeat_n(index, host.slots as usize));
    let apps = (0_u32..)
        .zip(counts)
        .flat_map(|(app, count)| std::iter::repeat_n(app, *count as usize));
    for ((rank, app), index) in (0..).zip(apps).zip(seats.cycle()) {
        places[index].push((rank, app));
    }
    // Around again means that a host's ranks are not in one row; local ranks go by rank all the same.
    let with_local = |ranks: Vec<(u32, u32)>| {
        let numbered = (0..).zip(ranks);
        numbered
            .map(|(local_rank, (rank, app))| Place { rank, local_rank, app })
            .collect()
    };
    places.into_iter().map(with_local).collect()
}

/// Whether a name means this host, so that no ssh is needed.
pub(super) fn is_here(name: &str) -> bool {
    let own = gethostname().ok().and_then(|name| name.into_string().ok());
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let loopback = name
        .parse()
        .is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    let same = own.is_some_and(|own| own == name || (name.parse::<std::net::IpAddr>().is_err() && short(&own) == name));
    name == "localhost" || loopback || same
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: u32) -> Host {
        Host {
            name: name.into(),
            slots,
        }
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list("a:2,b"), Ok(vec![host("a", 2), host("b", 1)]));
        assert_eq!(parse_list("a,a:3"), Ok(vec![host("a", 4)]));
        assert_eq!(parse_list("[fe80::1]:4"), Ok(vec![host("fe80::1", 4)]));
        for (bad, problem) in [
            ("a:0", "'0' is no number of slots"),
            ("a,,b", "'' is no name"),
            ("-oProxyCommand=x", "is no name of a host"),
            ("[::1", "no closing bracket"),
        ] {
            let said = parse_list(bad).unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("--host {bad}: ")) && said.contains(problem),
                "{said}"
            );
        }
    }

    #[test]
    fn files() {
        let text = "# the cluster\nnode1 slots=4\n\nnode2:2 # two\n  node3\n";
        let hosts = vec![host("node1", 4), host("node2", 2), host("node3", 1)];
        assert_eq!(parse_file("hosts", text), Ok(hosts));
    }

    #[test]
    fn mistakes_in_files_have_their_place() {
        for (text, said) in [
            ("a\nb slots=x", "hosts:2:9: 'x' is no number of slots (1 to 65536)"),
            ("a slot=2", "hosts:1:3: 'slot=2' is not slots=N"),
            (
                "\n\n  a:99999999",
                "hosts:3:5: '99999999' is no number of slots (1 to 65536)",
            ),
            ("ä slots=0", "hosts:1:9: '0' is no number of slots (1 to 65536)"),
            ("a\n=", "hosts:2:1: '=' is no name of a host"),
            ("[::1]x", "hosts:1:6: 'x' is not :slots"),
            ("# nothing", "hosts: no host in it"),
        ] {
            assert_eq!(parse_file("hosts", text).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn ranks_fill_slots_in_order() {
        let ranks = |places: Vec<Vec<Place>>| -> Vec<Vec<(u32, u32, u32)>> {
            let tuple = |place: &Place| (place.rank, place.local_rank, place.app);
            places.iter().map(|host| host.iter().map(tuple).collect()).collect()
        };
        let hosts = [host("a", 2), host("b", 1)];
        assert_eq!(
            ranks(place(&hosts, &[2, 1])),
            [vec![(0, 0, 0), (1, 1, 0)], vec![(2, 0, 1)]]
        );
        // More than there are slots: around again.
        assert_eq!(
            ranks(place(&hosts, &[5])),
            [vec![(0, 0, 0), (1, 1, 0), (3, 2, 0), (4, 3, 0)], vec![(2, 0, 0)]]
        );
        assert_eq!(ranks(place(&hosts, &[1])), [vec![(0, 0, 0)], vec![]]);
    }

    #[test]
    fn this_host_needs_no_ssh() {
        assert!(is_here("localhost") && is_here("127.0.0.1") && is_here("::1"));
        assert!(!is_here("192.0.2.7") && !is_here("surely-not-this-host"));
    }
}
