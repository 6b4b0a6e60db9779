//! Hazards of a schedule. The test looks at the schedule itself, so that no lucky order hides one.

use hikyaku::mpi::collectives::{Region, Schedule, Span, Step};

/// No step touches what a message of the same round may still be writing, or writes what one may still be reading.
pub(crate) fn check(schedule: &Schedule, rank: usize, size: usize) {
    for round in 0..schedule.rounds() {
        let (mut sent, mut received) = (Vec::<Span>::new(), Vec::<Span>::new());
        assert!(schedule.round(round).next().is_some(), "an empty round");
        for step in schedule.round(round) {
            let fail = |what| panic!("rank {rank}, round {round}: {step} {what}\n{schedule}");
            match step {
                Step::Send { to, spans } => {
                    if to == rank || to >= size {
                        fail("goes nowhere");
                    }
                    if any_overlap(spans, &received) {
                        fail("reads what is being received");
                    }
                    sent.extend(spans);
                }
                Step::Receive { from, spans } => {
                    if from == rank || from >= size {
                        fail("comes from nowhere");
                    }
                    for (index, span) in spans.iter().enumerate() {
                        if overlaps_itself(span)
                            || any_overlap(&[*span], &received)
                            || any_overlap(&[*span], &sent)
                            || any_overlap(&[*span], &spans[..index])
                        {
                            fail("overwrites what is being sent or received");
                        }
                    }
                    received.extend(spans);
                }
                Step::Reduce { from, into } | Step::Copy { from, into } => {
                    if any_overlap(&[from, into], &received) || any_overlap(&[into], &sent) {
                        fail("meets a message");
                    }
                    if any_overlap(&[from], &[into]) {
                        fail("overlaps itself");
                    }
                }
            }
            let spans = match step {
                Step::Send { spans, .. } | Step::Receive { spans, .. } => spans.to_vec(),
                Step::Reduce { from, into } | Step::Copy { from, into } => vec![from, into],
            };
            for span in spans {
                let outside =
                    |run: Span| run.offset < 0 || run.offset + run.count as isize > schedule.scratch() as isize;
                if span.elements() == 0 || span.region == Region::Scratch && span.runs().any(outside) {
                    fail("is empty or outside of the scratch memory");
                }
            }
        }
    }
}

fn any_overlap(a: &[Span], b: &[Span]) -> bool {
    let overlap = |a: Span, b: Span| {
        a.region == b.region && a.offset < b.offset + b.count as isize && b.offset < a.offset + a.count as isize
    };
    let runs = |spans: &[Span]| spans.iter().flat_map(Span::runs).collect::<Vec<_>>();
    let (a, b) = (runs(a), runs(b));
    a.iter().any(|a| b.iter().any(|b| overlap(*a, *b)))
}

fn overlaps_itself(span: &Span) -> bool {
    span.times > 1 && span.stride.unsigned_abs() < span.count
}
