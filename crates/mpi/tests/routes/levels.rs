//! Ranks of two hosts, of which one has several: collectives go within the hosts and between them.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{all_miss_the_last, another_host, example, job, said};

/// A job of `here` ranks on this host and `there` on another one. `None`: there is no other one.
fn on_two_hosts(options: &[&str], [here, there]: [u32; 2], program: &[&str]) -> Option<Command> {
    let enter = another_host()?;
    let [name, arguments @ ..] = program else {
        panic!("no program")
    };
    let name = example(name);
    let mut command = job(options);
    command.args(["-n", &here.to_string()]).arg(&name).args(arguments);
    command.args([":", "-n", &there.to_string()]).args(&enter);
    command.arg(&name).args(arguments);
    Some(command)
}

const LEVELS: [&str; 3] = ["auto", "leaders", "shares"];

fn option(levels: &str) -> String {
    format!("HIKYAKU_LEVELS={levels}")
}

#[test]
fn programs_find_the_same_in_two_levels() {
    let programs: [&[&str]; 6] = [
        &["broadcast"],
        &["reduce"],
        &["intercommunicator"],
        &["ft", "16"],
        &["halo", "9", "3"],
        &["osu", "allreduce", "40", "8", "65536"],
    ];
    for (program, levels) in programs
        .iter()
        .flat_map(|program| LEVELS.map(|levels| (program, levels)))
    {
        for hosts in [[2, 2], [3, 1]] {
            let option = option(levels);
            let Some(mut job) = on_two_hosts(&["--env", &option], hosts, program) else {
                return;
            };
            let output = job.output().unwrap();
            let said = said(&output);
            assert!(output.status.success(), "{program:?}, {levels}, {hosts:?}\n{said}");
        }
    }
}

/// A rank is killed while the others wait in a collective: a leader (alone on its host), or another one. Those of both hosts
/// name it, and go on without it.
#[test]
fn a_rank_that_is_killed_is_missed_on_both_hosts() {
    let begun = Instant::now();
    for hosts in [[3, 1], [2, 2], [2, 3]] {
        for (levels, how, call) in [
            ("leaders", "barrier", "MPI_Barrier"),
            ("leaders", "collective", "MPI_Allreduce"),
            ("shares", "collective", "MPI_Allreduce"),
        ] {
            let option = option(levels);
            let options = ["--on-failure", "continue", "--env", &option];
            let Some(mut job) = on_two_hosts(&options, hosts, &["lost", how]) else {
                return;
            };
            let job = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            all_miss_the_last(job, hosts[0] + hosts[1], call);
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}
