//! Ports and wavelengths that change, as people write them: `5ms:ports=2`, `5ms:ports@3=1`, `20ms:wavelengths=40`.

use std::time::Duration;

use hikyaku::sim::{Available, Change};
use hikyaku_bench::failure::Failure;

/// Longest time: a change after it would come after the end of any run.
const LATEST: f64 = 1e9;

/// Reads one.
pub(crate) fn parse(text: &str) -> Result<Change, String> {
    let form = "write TIME:WHAT=N, as in 5ms:ports=2, 5ms:ports@3=1 (host 3) or 20ms:wavelengths=40";
    let (at, rest) = text.split_once(':').ok_or(form)?;
    let (what, number) = rest.split_once('=').ok_or(form)?;
    let at = time(at.trim())
        .ok_or_else(|| format!("`{at}` is not a time from 0 to 1000000000s; write 20us, 1.5ms or 4s"))?;
    let count = |text: &str| {
        let number = text.trim().parse::<u32>();
        number.map_err(|_| format!("`{text}` is not a number from 0 to {}", u32::MAX))
    };
    let most = |number: u32| match number {
        ..=65_536 => Ok(number),
        _ => Err(format!("{number} ports are too many; a host has at most 65536")),
    };
    let to = match what.trim().split_once('@') {
        None if what.trim() == "ports" => Available::Ports(None, most(count(number)?)?),
        None if what.trim() == "wavelengths" => Available::Wavelengths(count(number)?),
        Some((ports, host)) if ports.trim_end() == "ports" => {
            Available::Ports(Some(count(host)?), most(count(number)?)?)
        }
        Some((wavelengths, _)) if wavelengths.trim_end() == "wavelengths" => {
            return Err("wavelengths are the whole network's, not a host's".into());
        }
        _ => {
            return Err(format!(
                "nothing is called `{}`; there are ports, ports@HOST and wavelengths",
                what.trim()
            ));
        }
    };
    Ok(Change { at, to })
}

fn time(text: &str) -> Option<Duration> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let second = match &text[end..] {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let seconds = text[..end].parse::<f64>().ok()? * second;
    (seconds <= LATEST).then(|| Duration::from_secs_f64(seconds))
}

/// Refuses changes at hosts that there are not.
pub(crate) fn check(changes: &[Change], hosts: u32, which: &str) -> Result<(), Failure> {
    let beyond = changes.iter().find_map(|change| match change.to {
        Available::Ports(Some(host), _) if host >= hosts => Some(host),
        _ => None,
    });
    match beyond {
        None => Ok(()),
        Some(host) => Err(Failure::usage(format!(
            "--change: there is no host {host}; {which} has {hosts}, from 0 to {}",
            hosts - 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        let change = |nanos, to| {
            Ok(Change {
                at: Duration::from_nanos(nanos),
                to,
            })
        };
        assert_eq!(parse("5ms:ports=2"), change(5_000_000, Available::Ports(None, 2)));
        assert_eq!(parse("0s:ports@3=0"), change(0, Available::Ports(Some(3), 0)));
        assert_eq!(
            parse("1.5us: wavelengths = 40"),
            change(1_500, Available::Wavelengths(40))
        );
        assert_eq!(
            parse("1ms: ports @ 1 = 0"),
            change(1_000_000, Available::Ports(Some(1), 0))
        );
    }

    #[test]
    fn nonsense_is_refused_with_advice() {
        for (text, advice) in [
            ("", "TIME:WHAT=N"),
            ("5ms", "TIME:WHAT=N"),
            ("5ms:ports", "TIME:WHAT=N"),
            ("ports=2", "TIME:WHAT=N"),
            ("5:ports=2", "1.5ms"),
            ("-5ms:ports=2", "1.5ms"),
            ("1.2.3ms:ports=2", "1.5ms"),
            ("99999999999s:ports=2", "1.5ms"),
            (":ports=2", "1.5ms"),
            ("5ms:lambdas=2", "ports@HOST and wavelengths"),
            ("5ms:wavelengths@3=2", "whole network"),
            ("5ms:ports@three=2", "`three` is not a number"),
            ("5ms:ports=-2", "`-2` is not a number"),
            ("5ms:ports=", "`` is not a number"),
            ("5ms:ports=65537", "at most 65536"),
            ("5ms:wavelengths=4294967296", "4294967295"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(advice), "{text}: {said}");
        }
    }

    #[test]
    fn hosts_are_those_that_there_are() {
        let changes = ["5ms:ports=1", "5ms:wavelengths=0", "5ms:ports@7=1"].map(|text| parse(text).unwrap());
        assert!(check(&changes, 8, "the job").is_ok());
        let said = check(&changes, 7, "the job").unwrap_err().to_string();
        assert!(said.contains("no host 7; the job has 7, from 0 to 6"), "{said}");
    }
}
