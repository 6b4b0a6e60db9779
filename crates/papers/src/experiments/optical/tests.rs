//! The figures, and the claims that the optics paper (section 4.1) makes about them in words.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Optical,
}

fn ran(arguments: &[&str]) -> Vec<Point> {
    let options = Line::parse_from([&["optical"], arguments].concat()).options;
    figures(&options, &Mode::all(&options.ports), &mut Progress::new(false, 28)).unwrap()
}

/// The formulas hold for powers of two. They know no headers: those of one byte's packets, openings included, take up to
/// 2.1 % of the time.
#[test]
fn formulas_and_collectives_agree() {
    for arguments in [&["--ports", "1,2,3,4"][..], &["--ports", "2,3", "--ranks", "16"]] {
        for point in ran(arguments) {
            let ratio = point.simulated_s / point.closed_form_s;
            assert!((0.98..1.025).contains(&ratio), "{ratio}: {point:?}");
        }
    }
}

/// Figures 6 to 9 at 1 MB.
#[test]
fn the_published_figures() {
    let expected = [
        [0.5611, 0.4111, 0.3611, 0.3311, 0.2511],
        [0.6417, 0.0209, 0.0209, 0.0209, 0.0109],
        [0.0583, 0.0383, 0.0283, 0.0283, 0.0083],
        [0.0905, 0.0705, 0.0605, 0.0605, 0.0405],
    ];
    let points = ran(&[]);
    let large = points.iter().filter(|point| point.bytes == 1_000_000);
    for (point, expected) in large.zip(expected.concat()) {
        assert!(
            (point.simulated_s / expected - 1.0).abs() < 0.02,
            "{expected}: {point:?}"
        );
    }
}

/// With wavelengths for a quarter of the ranks, and set-ups of which a third fail, all end, and later.
#[test]
fn few_wavelengths_and_failing_set_ups_are_survived() {
    let arguments = ["--ranks", "12", "--ports", "1,3"];
    let limits = ["--wavelengths", "3", "--failure", "0.3"];
    let plain = ran(&arguments);
    let limited = ran(&[&arguments[..], &limits].concat());
    for (plain, limited) in plain.iter().zip(&limited) {
        let later = limited.simulated_s >= plain.simulated_s;
        assert!(later, "{plain:?} {limited:?}");
    }
    assert!(
        limited
            .iter()
            .any(|point| point.simulated_s > 2.0 * point.closed_form_s)
    );
}

/// Seconds of an algorithm at `bytes`, simulated, and the circuits that were set up.
fn point(points: &[Point], figure: u32, mode: &str, ports: Option<u32>, bytes: usize) -> (f64, u64) {
    let is_it = |it: &&Point| (it.figure, it.mode, it.ports, it.bytes) == (figure, mode, ports, bytes);
    let found = points.iter().find(is_it).unwrap();
    (found.simulated_s, found.set_ups)
}

/// How much faster planned circuits are, with how many ports, and which algorithm wins.
#[test]
fn the_claims_in_words() {
    let points = ran(&["--ports", "2,3,4,5"]);
    let naive = |figure, bytes| point(&points, figure, "naive", None, bytes);
    let planned = |figure, ports, bytes| point(&points, figure, "planned", Some(ports), bytes);

    // Figure 6, linear: "about twice as fast at the least". It is 1.9 times with 2 ports, as long as messages are small.
    for (bytes, least, most) in [(1, 1.88, 1.96), (10_000, 1.85, 1.93), (1_000_000, 1.33, 1.39)] {
        let gain = naive(6, bytes).0 / planned(6, 2, bytes).0;
        assert!((least..most).contains(&gain), "{bytes}: {gain}");
        assert!(naive(6, bytes).0 / planned(6, 4, bytes).0 > 1.69, "{bytes}");
    }

    // Figure 7, ring: each node takes part in 62 set-ups and two; never below 0.6 s.
    let (ranks, steps) = (32, 31);
    for bytes in [1, 1_000_000] {
        assert_eq!(naive(7, bytes).1, ranks * steps);
        assert_eq!(planned(7, 2, bytes).1, ranks);
        assert!(naive(7, bytes).0 > 0.6);
    }

    // Figures 8 and 9: as many rounds of set-ups with 3 ports as with 4, and fewer with 5.
    for figure in [8, 9] {
        let [three, four, five] = [3, 4, 5].map(|ports| planned(figure, ports, 1).0);
        assert!((three / four - 1.0).abs() < 0.02 && five < 0.6 * four);
    }

    // More ports are never slower, and the plan is faster than none.
    for figure in 6..=9 {
        for bytes in [1, 10_000, 1_000_000] {
            let times = [2, 3, 4, 5].map(|ports| planned(figure, ports, bytes).0);
            assert!(
                times.windows(2).all(|two| two[1] <= two[0] * 1.01),
                "{figure}: {times:?}"
            );
            assert!(times[0] < naive(figure, bytes).0);
        }
    }

    // A small allgather: without a plan recursive doubling wins, with 2 to 4 ports the ring, from 5 on recursive doubling.
    assert!(naive(8, 1).0 < 0.1 * naive(7, 1).0);
    for ports in [2, 3, 4] {
        assert!(planned(7, ports, 1).0 < planned(8, ports, 1).0);
    }
    assert!(planned(8, 5, 1).0 < planned(7, 5, 1).0);
    // A broadcast: the tree always.
    assert!(
        [2, 3, 4, 5]
            .iter()
            .all(|ports| planned(9, *ports, 1).0 < 0.3 * planned(6, *ports, 1).0)
    );
}

/// The paper sees transfers weigh from 10 KB in linear and from 100 KB in binomial trees. By its formulas the two begin
/// together: at 10 KB 3 % and 2 % more than for a byte (4 ports), at 100 KB 30 % and 20 %.
#[test]
fn transfers_begin_to_weigh_in_linear_and_in_trees_together() {
    let points = ran(&["--ports", "4"]);
    let more = |figure, bytes| {
        let at = |bytes| point(&points, figure, "planned", Some(4), bytes).0;
        at(bytes) / at(1) - 1.0
    };
    assert!((0.02..0.04).contains(&more(6, 10_000)) && (0.01..0.03).contains(&more(9, 10_000)));
    assert!((0.25..0.35).contains(&more(6, 100_000)) && (0.15..0.25).contains(&more(9, 100_000)));
}

/// 10 ms on average and 20 at most: a step waits for the slowest of its set-ups, so all take longer than with 10 ms each,
/// and about twice as long at the most; what wins with 10 ms wins here.
#[test]
fn set_up_times_that_differ() {
    let (even, drawn) = (ran(&["--ports", "2,4"]), ran(&["--ports", "2,4", "--spread", "10"]));
    for figure in 6..=9 {
        for bytes in [1, 1_000_000] {
            let at = |points: &[Point], mode, ports| point(points, figure, mode, ports, bytes).0;
            for (mode, ports) in [("naive", None), ("planned", Some(2)), ("planned", Some(4))] {
                let ratio = at(&drawn, mode, ports) / at(&even, mode, ports);
                assert!((0.85..2.1).contains(&ratio), "{figure} {mode} {ports:?}: {ratio}");
            }
            assert!(at(&drawn, "planned", Some(2)) < at(&drawn, "naive", None));
            assert!(at(&drawn, "planned", Some(4)) <= 1.05 * at(&drawn, "planned", Some(2)));
        }
    }
}
