//! `hikyaku sim` as people run it: the form of what comes out, and what is refused.
#![cfg(feature = "sim")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn run(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.arg("sim").args(line.split_whitespace()).stdin(Stdio::null());
    command.output().expect("the command starts")
}

/// The output of a command that succeeds.
fn printed(line: &str) -> String {
    let output = run(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The error of a command that fails with this exit code, without a result or a panic.
fn failed(line: &str, code: i32) -> String {
    let output = run(line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    assert!(output.stdout.is_empty() && !said.contains("panicked"), "{line}: {said}");
    said
}

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sim-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// Traces of a job: the calls of each rank.
fn traces(name: &str, calls: &[&[&str]]) -> PathBuf {
    let directory = directory(name);
    for (rank, lines) in calls.iter().enumerate() {
        let size = calls.len();
        let header =
            format!(r#"{{"trace":"hikyaku","version":1,"rank":{rank},"size":{size},"host":"h","time":0,"unix":0}}"#);
        let footer = format!(r#"{{"calls":{},"time":900}}"#, lines.len());
        let text = [&[&header[..]], *lines, &[&footer]].concat().join("\n") + "\n";
        fs::write(directory.join(format!("rank-{rank}.jsonl")), text).expect("a trace");
    }
    directory
}

/// Another process has other addresses, and other keys of its hash maps.
#[test]
fn results_are_the_same_in_every_process() {
    for line in [
        "incast --senders 5,20 --bytes 40000 --loss 0.01 --seed 9 --format json",
        "optical --figures-only --ranks 6 --ports 2 --failure 0.2 --wavelengths 2 --format json",
        "dpdk-btl --sizes 8,20K --compute 50 --queues 1,8 --format json",
        "pacs-cs --grids 3x3x3 --rails 2 --bytes 8K --format json",
    ] {
        assert_eq!(printed(line), printed(line), "{line}");
    }
}

/// Memory is quicker than wires, and two levels send other messages than one.
#[test]
fn ranks_share_hosts() {
    let barrier = |options: &str| {
        let text = printed(&format!("scale --ranks 32 --alltoall 0 {options} --format json"));
        let document: Value = serde_json::from_str(&text).expect("one JSON object");
        document["rows"][0]["barrier_us"].as_f64().expect("a time")
    };
    let [alone, flat, leaders] = ["", "--per-host 8 --levels off", "--per-host 8"].map(barrier);
    assert!(flat < alone && flat != leaders, "{alone}, {flat} and {leaders} us");
    assert_eq!(barrier("--per-host 8 --levels leaders"), leaders);
}

#[test]
fn optical_has_the_form_of_the_contract() {
    let text = printed("optical --ranks 4 --ports 2 --ft-scale 4096 --format json");
    let document: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(document["experiment"], "optical");
    let rows = document["rows"].as_array().expect("rows");
    let figures: Vec<&Value> = rows.iter().filter(|row| !row["figure"].is_null()).collect();
    assert_eq!(figures.len(), 4 * 7 * 3, "figures, sizes, modes");
    for row in figures {
        for key in ["algorithm", "mode", "bytes", "closed_form_s", "simulated_s"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
        assert_eq!(row["ports"].as_u64(), (row["mode"] == "planned").then_some(2));
    }
    let table: Vec<&Value> = rows.iter().filter(|row| row["table"] == "ft").collect();
    assert_eq!(table.len(), 5 + 5 + 3, "without release, with it, and kept");
    for row in table {
        for key in ["mode", "release", "seconds", "ratio_to_ideal"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
    }
}

#[test]
fn figures_are_drawn() {
    let directory = directory("figures");
    let file = directory.join("a.svg");
    printed(&format!("scale --ranks 2,4 --plot {}", file.display()));
    let svg = fs::read_to_string(&file).expect("a figure");
    assert!(svg.starts_with("<svg") && svg.contains("allreduce, model"));
    // Before anything is simulated, since that may take minutes.
    let nowhere = directory.join("no/a.svg");
    let said = failed(&format!("scale --ranks 2 --plot {}", nowhere.display()), 2);
    assert!(said.contains("no/a.svg") && said.contains("No such file"), "{said}");
    let said = failed("replay nothing --plot a.svg", 2);
    assert!(said.contains("unexpected argument '--plot'"), "{said}");
    // Who fails leaves no empty figure behind.
    let file = directory.join("b.svg");
    failed(&format!("scale --ranks 2 --loss 1 --plot {}", file.display()), 1);
    assert!(!file.exists());
}

#[test]
fn nonsense_is_refused_by_name() {
    for (line, named) in [
        ("", "Usage"),
        ("collider", "collider"),
        ("scale --ranks 1", "--ranks"),
        ("scale --ranks 2,,4", "--ranks"),
        ("scale --ranks 70000", "65536"),
        ("scale --bandwidth NaN", "bandwidth"),
        ("scale --bandwidth=-1", "bandwidth"),
        ("scale --mtu 100", "--mtu"),
        ("scale --per-host 0", "--per-host"),
        ("scale --per-host 2 --levels three", "leaders"),
        ("scale --queue 10", "queue"),
        ("scale --loss 1.5", "loss"),
        ("scale --cpu-packet inf", "--cpu-packet"),
        ("scale --cpu-packet 300,200,100", "400,200"),
        ("scale --cpu-packet 300,-1", "receive"),
        ("scale --delay 2000000000", "--delay"),
        ("scale --seed 18446744073709551616", "--seed"),
        ("scale --format xml", "--format"),
        ("incast --senders 0", "--senders"),
        ("incast --bytes 2M", "--bytes"),
        ("optical --ports 0", "--ports"),
        ("optical --setup NaN", "--setup"),
        ("optical --failure 1", "--failure"),
        ("optical --wavelengths 0", "--wavelengths"),
        ("dpdk-btl --sizes 0", "--sizes must be from 1 to 1M"),
        ("dpdk-btl --copy=-1", "--copy"),
        ("dse --sizes 0", "--sizes must be from 1 to 64K"),
        ("dse --processors 65", "--processors"),
        ("dse --ack-delay NaN", "--ack-delay"),
        ("pacs-cs --grids 2x2x2", "--grids"),
        ("pacs-cs --rails 17", "--rails"),
        ("pacs-cs --eager 2M", "--eager"),
        ("replay", "<PATH>"),
        ("replay a --compute NaN", "--compute"),
        ("replay a --ports 2 --setup=-1", "--setup"),
        ("replay a --algorithm alltoall=fast", "pairwise"),
        ("optical --change 5:ports=1", "write 20us, 1.5ms or 4s"),
        (
            "optical --change 5ms:lambdas=1",
            "there are ports, ports@HOST and wavelengths",
        ),
        ("optical --change 5ms:ports=70000", "at most 65536"),
        (
            "optical --ranks 8 --change 5ms:ports@8=1",
            "no host 8; the job of --ranks has 8, from 0 to 7",
        ),
        (
            "optical --change 5ms:ports@20=1",
            "no host 20; NPB FT (--figures-only leaves it out) has 16",
        ),
        ("replay a --change 5ms:ports=1", "--ports"),
    ] {
        let said = failed(line, 2);
        assert!(said.contains(named), "{line}: {said}");
    }
}

/// Ports and wavelengths that come and go make a job later; those that never come back make it a deadlock, with who waits.
#[test]
fn ports_and_wavelengths_change() {
    let time = |line: &str| {
        let text = printed(&format!("{line} --format json"));
        let document: Value = serde_json::from_str(&text).expect("one JSON object");
        let rows = document["rows"].as_array().cloned().unwrap_or_else(|| vec![document]);
        rows.iter().filter_map(|row| row["simulated_s"].as_f64()).sum::<f64>()
    };
    let barrier = r#"{"call":"MPI_Barrier","begin":100,"end":200}"#;
    let job = traces("changes", &[&[barrier; 4], &[barrier; 4], &[barrier; 4]]);
    let replay = format!("replay {} --ports 2", job.display());
    for line in ["optical --figures-only --ranks 4 --ports 2", &replay] {
        let plain = time(line);
        assert_eq!(plain, time(&format!("{line} --change 900000s:ports=0")), "{line}");
        for gone in ["ports=0", "ports@1=0", "wavelengths=0"] {
            let back = gone.replace('0', "4");
            let late = time(&format!("{line} --change 5ms:{gone} --change 2s:{back}"));
            assert!(late > plain + 1.9, "{line}, {gone}: {late}, {plain}");
            let said = failed(&format!("{line} --change 5ms:{gone}"), 1);
            let who = said.contains("deadlock at ") && said.contains("process 1 is in MPI_");
            assert!(who && said.contains("waiting for process 0"), "{line}, {gone}: {said}");
        }
    }
    let said = failed("optical --figures-only --ranks 4 --ports 2 --change 5ms:ports=0", 1);
    assert!(said.contains("linear, naive, 1 B: deadlock"), "{said}");
    let said = failed(&format!("{replay} --change 5ms:ports@3=1"), 2);
    assert!(said.contains("no host 3; the job has 3, from 0 to 2"), "{said}");
}

/// Wires and cores are those that were asked for, in a replay, too.
#[test]
fn what_packets_cost_is_what_is_said() {
    let barrier = r#"{"call":"MPI_Barrier","begin":100,"end":200}"#;
    let job = traces("costs", &[&[barrier], &[barrier]]);
    let replay = format!("replay {}", job.display());
    for (line, time) in [("scale --ranks 2", "alpha_us"), (&replay, "simulated_s")] {
        let of = |options: &str| {
            let text = printed(&format!("{line} {options} --format json"));
            let document: Value = serde_json::from_str(&text).expect("one JSON object");
            document[time].as_f64().expect("a time")
        };
        let plain = of("");
        assert_eq!(plain, of("--cpu-packet 300 --delay 500"));
        assert_eq!(of("--cpu-packet 2000"), of("--cpu-packet 2000,2000"));
        assert!(of("--cpu-packet 300,2000") > plain && of("--cpu-packet 2000,300") > plain);
        assert!(of("--delay 5000") > plain);
    }
}

/// Where all is lost peers are given up; the first who says so is what is told, not those who wait for it.
#[test]
fn who_can_not_go_on_is_told() {
    for line in [
        "scale --ranks 4 --loss 1",
        "incast --senders 2 --loss 1",
        "pacs-cs --grids 3x3x3 --rails 1 --bandwidth 1e3",
    ] {
        let said = failed(line, 1);
        assert!(
            said.contains("hikyaku: rank ") && said.contains("MPI_ERR_PROC_FAILED"),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_replay_says_what_is_wrong() {
    let barrier = r#"{"call":"MPI_Barrier","begin":100,"end":200}"#;
    let receive = r#"{"call":"MPI_Recv","begin":300,"end":400,"peer":1,"tag":3,"bytes":8,"ended":[[0,1,3,8]]}"#;
    let huge = r#"{"call":"MPI_Send","begin":300,"end":400,"peer":0,"tag":3,"bytes":18446744073709551615}"#;
    let good = traces("good", &[&[barrier], &[barrier]]);
    let text = printed(&format!("replay {} --format json", good.display()));
    let document: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!((&document["ranks"], &document["calls"]), (&2.into(), &2.into()));
    let said = failed(&format!("replay {} --loss 1", good.display()), 1);
    assert!(said.contains("MPI_ERR_PROC_FAILED"), "{said}");
    let deadlock = traces("deadlock", &[&[receive], &[]]);
    let said = failed(&format!("replay {}", deadlock.display()), 1);
    assert!(
        said.contains("deadlock") && said.contains("process 0 is in MPI_Recv, rank 1, tag 3"),
        "{said}"
    );
    let large = traces("large", &[&[], &[huge]]);
    let said = failed(&format!("replay {}", large.display()), 1);
    let why = "rank-1.jsonl, line 2: MPI_Send: there is no memory for 18446744073709551615 bytes";
    assert!(said.contains("rank 1: ") && said.contains(why), "{said}");
    fs::remove_file(good.join("rank-1.jsonl")).expect("it was there");
    let said = failed(&format!("replay {}", good.display()), 1);
    assert!(said.contains("rank 1 is not there"), "{said}");
    fs::write(good.join("rank-1.jsonl"), [0xff, 0, 1]).expect("a file");
    let said = failed(&format!("replay {}", good.display()), 1);
    assert!(said.contains("rank-1.jsonl, line 1"), "{said}");
    let said = failed("replay /no/such/directory", 1);
    assert!(said.contains("/no/such/directory"), "{said}");
}

/// Damaged traces say things that no program does: the error names the line, whatever memory it is about.
#[test]
fn a_replay_survives_what_no_program_does() {
    let timed = |calls: &[&str]| -> Vec<String> {
        let calls = calls.iter().zip((10..).step_by(10));
        calls
            .map(|(call, at)| format!("{{{call},\"begin\":{at},\"end\":{}}}", at + 5))
            .collect()
    };
    let both = |name: &str, calls: &[&str]| {
        let calls = timed(calls);
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        format!("replay {}", traces(name, &[&calls, &calls]).display())
    };
    let dynamic = r#""call":"MPI_Win_create_dynamic","displacement":1,"made":{"context":5,"group":[0,1]}"#;
    let window = r#""call":"MPI_Win_create","bytes":1048576,"displacement":1,"made":{"context":5,"group":[0,1]}"#;
    let (fence, free) = (
        r#""call":"MPI_Win_fence","context":5"#,
        r#""call":"MPI_Win_free","context":5"#,
    );
    let lock_all = r#""call":"MPI_Win_lock_all","context":5"#;
    let get = r#""call":"MPI_Get","peer":1,"bytes":1048576,"displacement":0,"request":0,"context":5"#;
    let attach = |address: u32, bytes: u32| {
        format!(r#""call":"MPI_Win_attach","displacement":{address},"bytes":{bytes},"context":5"#)
    };
    let put = |bytes: u32, address: u32| {
        format!(r#""call":"MPI_Put","peer":1,"bytes":{bytes},"displacement":{address},"context":5"#)
    };
    let barrier = r#""call":"MPI_Barrier""#;
    let reduced = r#""call":"MPI_Reduce_scatter","bytes":8,"count":1,"received":[67108864,67108864]"#;
    let cut = r#""call":"MPI_Psend_init","peer":1,"tag":0,"partitions":4294967295,"request":3"#;
    let kind = r#""call":"MPI_Compare_and_swap","peer":1,"bytes":4,"displacement":0,"kind":"MPI_INTS","context":5"#;
    for (index, (calls, why)) in [
        // Its memory would be taken for that of the barrier.
        (vec![window, lock_all, get, barrier], "line 4: MPI_Get has no `request`"),
        (
            vec![reduced],
            "line 2: MPI_Reduce_scatter: 134217728 bytes in blocks of a vector of 8",
        ),
        (vec![cut], "line 2: MPI_Psend_init: 4294967295 partitions"),
        (
            vec![window, kind],
            "line 3: MPI_Compare_and_swap: `kind` is \"MPI_INTS\"",
        ),
        (
            vec![dynamic, fence, &put(8, 64), fence, free],
            "line 4: MPI_Put: no call of rank 1 before has attached",
        ),
    ]
    .iter()
    .enumerate()
    {
        let said = failed(&both(&format!("damaged-{index}"), calls), 1);
        assert!(said.contains(why), "{why}: {said}");
    }
    // Nothing may be anywhere, an address may be 0, and a window that is gone has nothing attached.
    let (small, large) = (attach(2_000, 8), attach(1_000, 4_000));
    let all = [
        dynamic,
        fence,
        &put(0, 64),
        &attach(0, 16),
        fence,
        &put(16, 0),
        fence,
        &small,
        free,
    ];
    let again = [dynamic, &large, fence, &put(800, 2_400), fence, free];
    printed(&both("unusual", &[&all[..], &again[..]].concat()));
}
