//! Runs the targets of `fuzz/` over their corpora, and a little further.

use crate::{
    shell::{self, Cmd},
    steps::Steps,
};

const SECONDS: u32 = 20;

/// `args`: a target (all of them without), and for how many seconds.
pub(crate) fn run(steps: &mut Steps, args: &[String]) -> Result<(), String> {
    let seconds = match args.get(1) {
        None => SECONDS,
        Some(arg) => arg.parse().map_err(|_| format!("'{arg}' is no number of seconds"))?,
    };
    let targets = targets();
    let obstacle = if targets.is_empty() {
        Some("there is no fuzz/fuzz_targets".to_owned())
    } else if !shell::has_nightly() {
        Some("no nightly toolchain (rustup toolchain install nightly)".to_owned())
    } else {
        shell::missing(&["cargo-fuzz"])
    };
    if let Some(why) = obstacle {
        steps.skip("fuzz", &why);
        return Ok(());
    }
    let chosen: Vec<&String> = match args.first() {
        None => targets.iter().collect(),
        Some(name) => vec![
            targets
                .iter()
                .find(|target| *target == name)
                .ok_or_else(|| format!("there is no fuzz target '{name}'; there are: {}", targets.join(", ")))?,
        ],
    };
    steps.run("fuzz build", &Cmd::parse("cargo +nightly fuzz build"))?;
    for target in chosen {
        // libFuzzer reads all corpora first, then mutates until the time is over. What it finds it writes to the first
        // one, so that the committed one grows only by hand. `-timeout` is for one input.
        let found = shell::target_dir().join("fuzz-found").join(target);
        let committed = shell::root().join("fuzz/corpus").join(target);
        for folder in [&found, &committed] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let command = Cmd::parse("cargo +nightly fuzz run")
            .args([target, &*found.to_string_lossy(), &*committed.to_string_lossy(), "--"])
            .args([
                &format!("-max_total_time={seconds}"),
                "-timeout=10",
                "-rss_limit_mb=2048",
            ])
            .limit_s(seconds + 300);
        steps.run(&format!("fuzz {target}"), &command)?;
    }
    Ok(())
}

/// Names of the files in `fuzz/fuzz_targets`, sorted.
fn targets() -> Vec<String> {
    let Ok(files) = std::fs::read_dir(shell::root().join("fuzz/fuzz_targets")) else {
        return Vec::new();
    };
    let mut names: Vec<String> = files
        .filter_map(|file| {
            file.ok()?
                .file_name()
                .into_string()
                .ok()?
                .strip_suffix(".rs")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}
