//! Each part in all orders; and each model with a mistake, which it must find.

use std::{env, process::Command};

use hikyaku_loom::models::{self, right, unfenced, weak};

macro_rules! pass {
    ($($name:ident = $model:expr;)+) => {$(
        #[test]
        fn $name() {
            ($model)();
        }
    )+};
}

/// In a process of their own, since loom ends it when it finds something while memory is given back.
macro_rules! fail {
    ($($name:ident = $model:expr, $why:literal;)+) => {
        mod planted {
            use super::*;

            $(
                #[test]
                #[ignore = "has to fail"]
                fn $name() {
                    ($model)();
                }
            )+
        }

        $(
            #[test]
            fn $name() {
                found(stringify!($name), $why);
            }
        )+
    };
}

fn found(name: &str, why: &str) {
    let planted = format!("planted::{name}");
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command
        .args(["--ignored", "--exact", "--nocapture", &planted])
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("running 1 test"), "{said}");
    assert!(!output.status.success(), "the mistake was not found");
    assert!(said.contains(why), "it fails for another reason: {said}");
}

pass! {
    a_ring_carries_records = right::ring_carries_records;
    a_ring_wakes_its_reader = right::ring_wakes_its_reader;
    lines_carry_records = right::lines_carry_records;
    lines_carry_records_of_two_lines = right::lines_carry_records_of_two_lines;
    lines_carry_long_records = right::lines_carry_long_records;
    lines_wake_their_reader = right::lines_wake_their_reader;
    a_bell_wakes_who_sleeps = right::bell_wakes_who_sleeps;
    loans_come_back = right::loans_come_back;
    a_lock_lets_one_thread_in = right::lock_lets_one_thread_in;
    a_lock_is_waited_for = right::lock_is_waited_for;
    holders_are_alone = right::holders_are_alone;
    holders_are_waited_for = || right::holders_are_waited_for(right::give);
    a_board_carries_lines = || right::board_carries_posts(8);
    a_board_carries_slots = || right::board_carries_posts(56);
    a_board_wakes_sleepers = right::board_wakes_sleepers;
    sleepers_share_a_call = models::sleepers_share_a_call;
}

fail! {
    records_that_are_not_released_are_found = weak::ring_carries_records, "Causality violation";
    a_ring_without_fences_is_found = unfenced::ring_wakes_its_reader, "deadlock";
    lines_that_are_not_released_are_found = weak::lines_carry_records, "Causality violation";
    second_lines_that_are_not_released_are_found = weak::lines_carry_records_of_two_lines, "Causality violation";
    chunks_that_are_not_released_are_found = weak::lines_carry_long_records, "Causality violation";
    lines_without_fences_are_found = unfenced::lines_wake_their_reader, "deadlock";
    a_bell_without_fences_is_found = unfenced::bell_wakes_who_sleeps, "deadlock";
    a_lock_that_is_not_released_is_found = weak::lock_lets_one_thread_in, "Causality violation";
    a_lock_that_is_waited_for_but_not_acquired_is_found = weak::lock_is_waited_for, "Causality violation";
    holders_that_do_not_release_are_found = weak::holders_are_alone, "Causality violation";
    handing_over_without_releasing_is_found = || weak::holders_are_waited_for(weak::give), "Causality violation";
    who_looks_before_giving_back_is_found = || right::holders_are_waited_for(models::hasty_give), "deadlock";
    lines_of_a_board_that_are_not_released_are_found = || weak::board_carries_posts(8), "Causality violation";
    slots_of_a_board_that_are_not_released_are_found = || weak::board_carries_posts(56), "Causality violation";
    a_board_without_fences_is_found = unfenced::board_wakes_sleepers, "deadlock";
    loans_that_are_not_acquired_are_found = weak::loans_come_back, "Causality violation";
    who_takes_a_call_from_others_is_found = models::greedy_sleepers, "deadlock";
}
