//! Programs in C over the library.

use std::{env, fs, process};

#[path = "../../support/program.rs"]
mod program;

const LIBRARY: (&str, &str) = ("libmpi_abi.so", "libmpi_abi.so.1");

#[test]
fn a_tool_sees_settings_and_counters() {
    program::run("tools", LIBRARY, &[], None, &[("HIKYAKU_EAGER_LIMIT", "777")]);
}

#[test]
fn error_handlers_live_while_they_are_had() {
    program::run("handlers", LIBRARY, &[], None, &[]);
}

/// Through memory, where receives are known by numbers, and over the network.
#[test]
fn receives_end_in_all_ways() {
    for routes in ["memory", "network"] {
        program::run("requests", LIBRARY, &[], Some("2"), &[("HIKYAKU_ROUTES", routes)]);
    }
}

/// Grids of two ranks in a dimension, and of three.
#[test]
fn what_is_sent_downwards_arrives_from_above() {
    for ranks in ["2", "3"] {
        program::run("neighbours", LIBRARY, &[], Some(ranks), &[]);
    }
}

#[test]
fn wrong_arguments_are_errors_that_say_what_is_wrong() {
    program::run("mistakes", LIBRARY, &[], None, &[]);
}

#[test]
fn exceptions_of_error_handlers_pass_through_calls() {
    program::run("exceptions", LIBRARY, &[], None, &[]);
}

#[test]
fn the_library_calls_no_function_of_the_programs() {
    program::run("profiled", LIBRARY, &[], Some("2"), &[]);
}

#[test]
fn functions_of_programs_run_in_threads_that_call() {
    for routes in ["memory", "network"] {
        program::run(
            "callbacks",
            LIBRARY,
            &["-pthread"],
            Some("2"),
            &[("HIKYAKU_ROUTES", routes)],
        );
    }
}

#[test]
fn a_program_opens_the_library_for_itself() {
    program::run("opened", LIBRARY, &["-Wl,--as-needed"], Some("2"), &[]);
}

#[test]
fn calls_are_checked_and_traced() {
    let traces = env::temp_dir().join(format!("hikyaku-traces-of-c-{}", process::id()));
    let folder = traces.display().to_string();
    let variables = [("HIKYAKU_CHECK", "on"), ("HIKYAKU_TRACE", folder.as_str())];
    program::run("checked", LIBRARY, &[], Some("2"), &variables);
    for rank in 0..2 {
        let Ok(trace) = fs::read_to_string(traces.join(format!("rank-{rank}.jsonl"))) else {
            // There is no compiler here.
            return;
        };
        for call in ["MPI_Bcast", "MPI_Barrier", "MPI_Finalize"] {
            assert!(trace.contains(call), "rank {rank} has called no {call}:\n{trace}");
        }
    }
    fs::remove_dir_all(&traces).unwrap();
}

/// Sessions before MPI, forks, memory of the host.
#[test]
fn mpi_is_a_guest_in_the_process() {
    program::run("life", LIBRARY, &[], Some("3"), &[]);
}

/// The end of a job of two processes, one of which ends as `how` says, and what was printed.
fn end(how: &str) -> Option<(Option<i32>, String)> {
    let output = program::output(&["life", how], LIBRARY, &[], Some("2"), &[])?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn processes_end_in_all_ways() {
    let Some((code, said)) = end("handler") else { return };
    assert!(
        code == Some(0) && said.matches("ended at exit").count() == 2,
        "{code:?}: {said}"
    );
    let Some((code, said)) = end("abort") else { return };
    assert!(code == Some(7) && said.contains("rank 1"), "{code:?}: {said}");
    let Some((code, said)) = end("exit") else { return };
    assert!(
        code.is_some_and(|code| code != 0 && code != 124) && said.contains("rank 1"),
        "{code:?}: {said}"
    );
}
