//! Runs the command as people do: both ends on this machine, short, and looks at the form of what comes out.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hikyaku");

fn command(line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn run(line: &str) -> Output {
    command(line).output().expect("the command starts")
}

/// Runs and gives the one JSON object of standard output.
fn json(line: &str) -> Value {
    let output = run(line);
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: not one JSON object ({error}): {text}"))
}

/// Rows of a transport.
fn rows<'a>(document: &'a Value, transport: &str) -> Vec<&'a Value> {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["transport"] == transport).collect()
}

/// Runs, expects a refusal, and gives what it says.
fn refused(line: &str) -> String {
    let output = run(line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    assert!(output.stdout.is_empty(), "{line} prints a result");
    said
}

#[test]
fn latency_has_the_form_of_the_contract() {
    let document =
        json("bench latency --sizes 8 --iterations 50 --rounds 3 --format json --vs tcp,udp --wait adaptive");
    assert_eq!(document["benchmark"], "latency");
    for transport in ["tcp", "udp"] {
        let rows = rows(&document, transport);
        assert_eq!(rows.len(), 1, "{document}");
        assert_eq!((&rows[0]["size"], &rows[0]["level"]), (&8.into(), &"transport".into()));
        let (p50, p99) = (
            rows[0]["p50_us"].as_f64().expect("p50"),
            rows[0]["p99_us"].as_f64().expect("p99"),
        );
        assert!(p50 > 0.0 && p99 > 0.0);
    }
    let ours = rows(&document, "hikyaku/udp");
    assert_eq!(ours.len(), 1, "{document}");
    assert!(
        ours[0]["ratio"]["tcp"].is_f64() && ours[0]["ratio"]["udp"].is_f64(),
        "{document}"
    );
    assert_eq!(document["environment"]["wait"], "adaptive");
    assert_eq!(document["environment"]["rounds"], 3);
}

#[test]
fn ranks_of_one_host_are_measured_through_memory() {
    let short = "--backend shm --iterations 20 --rounds 2 --format json --wait adaptive";
    for (benchmark, has_time, has_speed) in [
        ("latency --level transport,mpi --sizes 0,100K", true, false),
        ("bandwidth --level transport --sizes 100K", false, true),
        ("rate --level mpi", false, true),
        ("put --sizes 8", true, true),
        ("get --sizes 8", true, true),
        ("barrier", true, false),
        ("allreduce --np 3 --sizes 8", true, false),
        ("bcast --sizes 8", true, false),
        ("alltoall --sizes 8", true, false),
    ] {
        let document = json(&format!("bench {benchmark} {short}"));
        let rows = rows(&document, "hikyaku/shm");
        assert!(!rows.is_empty(), "{document}");
        let rounds: u64 = rows.iter().filter_map(|row| row["rounds"].as_u64()).sum();
        let sizes = if benchmark.contains("0,100K") { 2 } else { 1 };
        let levels = if benchmark.contains("transport,mpi") { 2 } else { 1 };
        assert_eq!(rounds, 2 * sizes * levels, "{document}");
        for row in rows {
            let is_measured = |field: &str| row[field].as_f64().is_some_and(|value| value > 0.0);
            let level = row["level"].as_str().unwrap();
            assert!(
                benchmark.contains(level) || level == "mpi" && !benchmark.contains("--level"),
                "{row}"
            );
            assert_eq!(is_measured("p50_us") && is_measured("best_us"), has_time, "{row}");
            assert_eq!(
                is_measured("messages_per_s") && is_measured("mb_per_s"),
                has_speed,
                "{row}"
            );
            if row["cores"].is_string() {
                assert!(is_measured("cache_line_ns"), "{row}");
            }
        }
    }
}

#[test]
fn mpi_stands_beside_the_transport() {
    for benchmark in ["latency --sizes 8,100K", "bandwidth --sizes 2048,100K", "rate"] {
        let document = json(&format!(
            "bench {benchmark} --level transport,mpi --iterations 3 --rounds 2 --vs tcp --format json --wait adaptive"
        ));
        let ours = rows(&document, "hikyaku/udp");
        let of = |level: &str| ours.iter().filter(|row| row["level"] == level).count();
        assert!(of("mpi") > 0 && of("mpi") == of("transport"), "{document}");
        for row in ours {
            let beside = row["ratio"]["hikyaku/udp"].is_f64();
            assert_eq!(beside, row["level"] == "mpi", "{row}");
            assert!(row["ratio"]["tcp"].is_f64(), "{row}");
        }
    }
}

#[test]
fn collectives_have_a_row_for_each_size_and_algorithm() {
    for (benchmark, sizes) in [("bcast", "8,20000"), ("allreduce", "8,20000"), ("alltoall", "8,4K")] {
        let line = format!("bench {benchmark} --np 3 --sizes {sizes} --algorithm auto,linear");
        let document = json(&format!("{line} --iterations 3 --rounds 2 --format json"));
        assert_eq!(document["benchmark"], benchmark);
        let rows = rows(&document, "hikyaku/udp");
        assert_eq!(rows.len(), 4, "{document}");
        for row in rows {
            assert_eq!((&row["level"], &row["np"]), (&"mpi".into(), &3.into()), "{row}");
            let time = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
            assert!(time("max_us") >= time("avg_us") * 0.999 && time("p99_us") >= time("p50_us") * 0.999);
            let (forced, other) = (row["forced"] == true, &row["ratio"]);
            assert!(other[if forced { "auto" } else { "linear" }].is_f64(), "{row}");
            assert!(!forced || row["algorithm"] == "linear", "{row}");
        }
    }
}

#[test]
fn a_barrier_has_one_row() {
    let document = json("bench barrier --np 5 --wait block --iterations 5 --rounds 2 --format json");
    let rows = rows(&document, "hikyaku/udp");
    assert_eq!((rows.len(), &rows[0]["np"]), (1, &5.into()), "{document}");
    assert_eq!(document["environment"]["wait"], "block");
    let loopback = json("bench barrier --np 3 --backend loopback --iterations 5 --rounds 2 --format json");
    assert_eq!(loopback["environment"]["ends"], "threads");
}

#[test]
fn two_ranks_stream_both_ways_and_reach_into_each_others_memory() {
    for benchmark in ["bibw", "put", "get"] {
        let document = json(&format!(
            "bench {benchmark} --sizes 8,100K --iterations 2 --rounds 2 --wait adaptive --format json"
        ));
        assert_eq!(document["benchmark"], benchmark);
        let rows = rows(&document, "hikyaku/udp");
        assert_eq!(rows.len(), 2, "{document}");
        for row in rows {
            assert!(row["mb_per_s"].as_f64().is_some_and(|speed| speed > 0.0), "{row}");
            assert_eq!(row["p50_us"].is_f64(), benchmark != "bibw", "{row}");
        }
    }
}

#[test]
fn the_environment_sets_what_mpi_does() {
    let line = "bench allreduce --np 2 --sizes 64 --iterations 2 --rounds 1 --format json";
    let with = |name: &str, value: &str| command(line).env(name, value).output().expect("it starts");
    let output = with("HIKYAKU_ALLREDUCE", "ring");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows(&document, "hikyaku/udp")[0]["algorithm"], "ring", "{document}");
    let output = with("HIKYAKU_ALLREDUCE", "rings");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("rabenseifner"), "{said}");
}

#[test]
fn tuning_gives_settings_that_can_be_used() {
    let line = "tune --sizes 8,8K,128K --iterations 3 --rounds 3 --wait adaptive";
    let document = json(&format!("{line} --format json"));
    assert_eq!(document["benchmark"], "tune");
    assert_eq!(document["rows"].as_array().map(Vec::len), Some(3), "{document}");
    for row in document["rows"].as_array().expect("rows") {
        assert!(row["eager_us"].is_f64() && row["rendezvous_us"].is_f64() && row["ratio"].is_f64());
    }
    let settings = document["settings"].as_object().expect("settings");
    let within = if cfg!(feature = "shm") { 3 } else { 0 };
    assert_eq!(settings.len(), 4 + within, "{document}");
    // The reader refuses options that it does not understand.
    let mut with = command("bench barrier --np 2 --iterations 2 --rounds 1 --format json --wait adaptive");
    with.envs(
        settings
            .iter()
            .map(|(name, value)| (name, value.as_str().expect("text"))),
    );
    let output = with.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(run(line).stdout).expect("UTF-8");
    for name in settings.keys() {
        assert!(text.contains(&format!("\nexport {name}=")), "{text}");
    }
}

/// The found costs can be given to the simulator, and stand beside the measured times.
#[cfg(feature = "sim")]
#[test]
fn a_simulated_host_is_fitted_to_this_one() {
    let line = "tune --sizes 8,1000,8K,64K --iterations 3 --rounds 3 --wait adaptive --mtu 1500 --sim";
    let document = json(&format!("{line} --format json"));
    let simulation = &document["simulation"];
    for name in ["send_ns", "receive_ns", "byte_ns", "delay_ns"] {
        assert!(
            simulation[name].as_f64().is_some_and(|cost| cost >= 0.0),
            "{name}: {simulation}"
        );
    }
    let rows = simulation["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &simulation["mtu"]), (4, &1500.into()), "{simulation}");
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
        let ratio = number("simulated_us") / number("measured_us");
        assert!((ratio / number("ratio") - 1.0).abs() < 0.01, "{row}");
    }
    let given = simulation["command"].as_str().expect("a command");
    let rest = given.strip_prefix("hikyaku ").unwrap_or_else(|| panic!("{given}"));
    let simulated = json(&format!("{rest} --ranks 2,4 --format json"));
    assert_eq!(simulated["rows"].as_array().map(Vec::len), Some(2), "{given}");
    let text = String::from_utf8(run(line).stdout).expect("UTF-8");
    assert!(
        text.contains("\n# hikyaku sim scale --cpu-packet ") && text.contains("simulated  ratio\n"),
        "{text}"
    );
}

#[test]
fn every_way_to_wait_works() {
    for wait in ["spin", "block", "adaptive"] {
        let document = json(&format!(
            "bench latency --sizes 8,4000 --iterations 5 --rounds 2 --mtu 1500 --format json --wait {wait}"
        ));
        assert_eq!(
            (rows(&document, "tcp").len(), rows(&document, "udp").len()),
            (2, 2),
            "{wait}: {document}"
        );
    }
}

#[test]
fn bandwidth_and_rate_have_their_rows() {
    let document = json("bench bandwidth --sizes 2048,1M --iterations 2 --rounds 2 --format json --wait adaptive");
    for row in rows(&document, "tcp").into_iter().chain(rows(&document, "udp")) {
        let (mb, messages) = (
            row["mb_per_s"].as_f64().unwrap(),
            row["messages_per_s"].as_f64().unwrap(),
        );
        let size = row["size"].as_f64().unwrap();
        assert!((mb * 1e6 / (messages * size) - 1.0).abs() < 0.01, "{row}");
    }
    let document = json("bench rate --iterations 2 --rounds 2 --format json --wait adaptive");
    for transport in ["hikyaku/udp", "tcp", "tcp/batched", "udp"] {
        assert_eq!(rows(&document, transport).len(), 1, "{document}");
    }
}

#[test]
fn incast_has_a_row_for_each_number_of_senders() {
    let document = json("bench incast --senders 1,3 --sizes 4K --iterations 5 --rounds 2 --format json");
    for transport in ["hikyaku/udp", "tcp", "udp"] {
        let senders: Vec<_> = rows(&document, transport)
            .iter()
            .map(|row| row["senders"].clone())
            .collect();
        assert_eq!(senders, [1, 3], "{document}");
    }
}

/// The transports of `bench dse`.
const DSE: [&str; 5] = ["hikyaku/udp/dse", "hikyaku/udp", "tcp/plain", "tcp", "tcp/batched"];

#[test]
fn dse_counts_sockets() {
    let document = json("bench dse --only sockets --format json");
    assert_eq!(rows(&document, "tcp full mesh")[0]["sockets"], 3540, "{document}");
    for (ours, sockets) in [("hikyaku/udp", 60), ("hikyaku/udp, two ports each", 120)] {
        assert_eq!(rows(&document, ours)[0]["sockets"], sockets, "{document}");
    }
}

#[test]
fn dse_has_single_sizes_and_a_mix() {
    let line = "bench dse --only sizes,mix --sizes 16 --iterations 1000 --rounds 1 --wait adaptive";
    let document = json(&format!("{line} --seed 3 --format json"));
    for transport in DSE {
        let rows = rows(&document, transport);
        assert_eq!(rows.len(), 8, "{document}");
        let (mixed, single): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["seed"] == 3);
        assert_eq!(mixed.len(), 4, "{document}");
        assert!(single.iter().all(|row| row["size"] == 16 && row["seed"].is_null()));
        for row in mixed {
            assert!(row["size"].is_null() && row["wall_ms"].as_f64().unwrap() > 0.0, "{row}");
            let shares = row["shares"].as_array().expect("shares");
            let up_to = |class: usize| shares[..=class].iter().filter_map(Value::as_f64).sum::<f64>();
            // The paper's table 1; a thousand draws are within four standard deviations of it.
            assert!((up_to(0) - 60.0).abs() < 6.2 && (up_to(1) - 80.0).abs() < 5.1, "{row}");
            assert!(
                (up_to(2) - 98.0).abs() < 1.8 && (up_to(4) - 100.0).abs() < 1e-9,
                "{row}"
            );
        }
    }
    let text = String::from_utf8(run(line).stdout).expect("UTF-8");
    assert!(
        text.contains("# mix: sizes drawn with seed 1: ") && text.contains("  mix | "),
        "{text}"
    );
}

#[test]
fn dse_has_the_weak_points_of_its_protocol() {
    let document = json("bench dse --only hot-spot,priority --iterations 210 --rounds 1 --wait adaptive --format json");
    for transport in DSE {
        let rows = rows(&document, transport);
        assert_eq!(rows.len(), 6 + 8, "{document}");
        assert!(
            rows.iter()
                .all(|row| row["wall_ms"].as_f64().is_some_and(|wall| wall > 0.0)
                    && row["sender_cpu_us_per_message"].is_f64()
                    && row["receiver_cpu_us_per_message"].is_f64()),
            "{document}"
        );
        for pattern in ["burst", "ping-pong"] {
            let of = |part: &str, field: &str| -> Vec<Value> {
                let rows = rows
                    .iter()
                    .filter(|row| row["part"] == part && row["pattern"] == pattern);
                rows.map(|row| row[field].clone()).collect()
            };
            assert_eq!(of("hot-spot", "senders"), [1, 3, 7], "{document}");
            assert_eq!(of("priority", "senders"), [1; 4], "{document}");
            assert_eq!(of("priority", "priority"), ["alone", "higher", "equal", "lower"]);
            let nice = of("priority", "nice");
            assert!(nice[0].is_null(), "{document}");
            let values = nice[1..]
                .iter()
                .map(|pair| (pair[0].as_i64().unwrap(), pair[1].as_i64().unwrap()));
            let [higher, equal, lower] = values.collect::<Vec<_>>()[..] else {
                panic!("{document}")
            };
            // The test itself may run at a high nice value, and there is an end to them.
            assert!(
                higher.0 <= higher.1 && equal.0 == equal.1 && lower.0 >= lower.1,
                "{document}"
            );
            assert!(lower.0 > lower.1 || lower.0 == 19, "{document}");
        }
    }
}

#[test]
fn core_has_its_variants() {
    let document = json("bench core --sizes 64,8K --iterations 100 --rounds 2 --format json");
    for transport in ["hikyaku/core", "hikyaku/core+checksum", "hikyaku/core+copy"] {
        let rows = rows(&document, transport);
        assert_eq!(rows.len(), 2, "{document}");
        for row in rows {
            assert!(
                row["ns_per_message"].as_f64().unwrap() >= row["ns_per_packet"].as_f64().unwrap(),
                "{row}"
            );
        }
    }
}

#[test]
fn an_idle_peer_is_small() {
    let document = json("bench peers --peers 5000 --format json");
    let row = &rows(&document, "hikyaku/core")[0];
    let bytes = row["bytes_per_peer"].as_f64().unwrap();
    assert!(bytes > 0.0 && bytes <= 256.0, "{row}");
}

#[test]
fn the_loopback_backend_runs_in_threads() {
    let document =
        json("bench latency --backend loopback --sizes 8,64K --iterations 5 --rounds 2 --format json --wait adaptive");
    assert_eq!(rows(&document, "hikyaku/loopback").len(), 2, "{document}");
    assert_eq!(document["environment"]["ends"], "threads");
}

#[test]
fn traffic_is_captured() {
    let file = std::env::temp_dir().join(format!("hikyaku-cli-{}.pcapng", std::process::id()));
    let line = format!(
        "bench latency --sizes 8 --iterations 5 --rounds 1 --wait adaptive --capture {}",
        file.display()
    );
    assert!(run(&line).status.success());
    let bytes = std::fs::read(&file).expect("the capture is there");
    std::fs::remove_file(&file).expect("and can be removed");
    assert!(bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) && bytes.len() > 1000);
}

#[test]
fn a_figure_is_drawn() {
    let file = std::env::temp_dir().join(format!("hikyaku-cli-{}.svg", std::process::id()));
    json(&format!(
        "bench latency --sizes 8,64 --iterations 5 --rounds 1 --mtu 65536 --format json --wait adaptive --plot {}",
        file.display()
    ));
    let svg = std::fs::read_to_string(&file).expect("the figure is there");
    std::fs::remove_file(&file).expect("and can be removed");
    assert!(svg.starts_with("<svg"));
    for text in ["tcp", "message size, bytes", "one-way time, µs", "CPU ", "MTU 65536"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
}

#[test]
fn text_has_columns() {
    let output = run("bench latency --sizes 8 --iterations 5 --rounds 1 --wait adaptive");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for word in [
        "# hikyaku latency, one way",
        "MTU",
        "CPU",
        "wait: adaptive",
        "p50",
        "p99",
        "tcp",
        "udp",
    ] {
        assert!(text.contains(word), "`{word}` is missing in\n{text}");
    }
}

#[test]
fn wrong_input_is_refused_with_a_reason() {
    for (line, reason) in [
        ("bench latency --sizes 8Q", "64K"),
        ("bench bandwidth --sizes 0", "0 bytes"),
        ("bench latency --sizes 1024M", "at most 256M"),
        ("bench latency --rounds 0", "rounds"),
        ("bench latency --backend token-ring", "there are: udp, loopback, shm"),
        ("bench latency --backend shm --level mpi --np 3", "exactly 2"),
        ("bench latency --backend shm --level mpi --connect a", "one host"),
        ("bench barrier --backend shm --algorithm ring,auto", "--algorithm"),
        (
            "bench latency --backend dpdk",
            // Where there is the backend, it lacks a device.
            if cfg!(feature = "dpdk") {
                "needs a --device"
            } else {
                "--features dpdk"
            },
        ),
        ("bench incast --level mpi", "latency, bandwidth and rate"),
        ("bench dse --level mpi", "latency, bandwidth and rate"),
        ("bench latency --np 3", "exactly 2"),
        ("bench put --np 3", "exactly 2"),
        ("tune --sizes 8", "two sizes"),
        ("tune --np 2", "unexpected argument"),
        ("tune --level mpi", "unexpected argument"),
        ("bench bibw --sizes 0", "0 bytes"),
        ("bench barrier --level transport", "only MPI"),
        ("bench barrier --sizes 8", "a barrier has none"),
        ("bench allreduce --sizes 6", "multiples of 4"),
        ("bench allreduce --algorithm bruck", "rabenseifner"),
        (
            "bench alltoall --np 3 --algorithm recursive-doubling",
            "not for 3 ranks",
        ),
        ("bench latency --wait patiently", "adaptive"),
        ("bench latency --mtu 70000", "65536"),
        ("bench latency --plot figure.png", ".svg"),
        ("bench latency --connect no.such.host.invalid:1", "cannot resolve"),
        ("bench latency --listen no.such.host.invalid:1", "cannot resolve"),
        ("bench latency --connect 127.0.0.1:1", "cannot connect"),
        ("bench latency --connect a --listen b", "cannot be used with"),
        ("bench incast --senders 2 --np 3", "--np and --senders"),
        ("bench rails --cut link --plot rails.svg", "cannot be used with"),
        ("bench rails --latency --plot rails.svg", "cannot be used with"),
        ("bench", "Usage"),
        ("bench rails --cuts 2", "--cut"),
        ("bench rails --cut-rail 0", "--cut"),
        ("bench rails --cut link --cut-rail 2", "there are 2 rails"),
    ] {
        let said = refused(line);
        assert!(said.contains(reason), "{line}: {said}");
    }
}

#[test]
fn a_figure_that_there_is_not_is_refused_before_anything_is_measured() {
    for benchmark in [
        "bench connect-ahead",
        "bench overflow",
        "bench dse",
        #[cfg(feature = "sim")]
        "bench meshes",
        "bench cache-line",
        "bench copy",
        "bench peers",
        "papers --run",
    ] {
        let said = refused(&format!("{benchmark} --plot figure.svg"));
        assert!(said.contains("no figure"), "{benchmark}: {said}");
    }
}

#[test]
fn a_port_in_use_is_said_so() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let said = refused(&format!(
        "bench latency --listen {}",
        taken.local_addr().expect("its address")
    ));
    assert!(said.contains("in use"), "{said}");
}

#[test]
fn versions_that_differ_are_refused() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("its address");
    let answer = thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("the driver comes");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("its hello");
        stream
            .write_all(b"{\"hikyaku\":\"99.1.0\",\"protocol\":77}\n")
            .expect("ours");
        let _ = stream.read(&mut [0]);
    });
    let said = refused(&format!("bench latency --connect {address}"));
    assert!(said.contains("versions differ") && said.contains("99.1.0"), "{said}");
    answer.join().expect("the other end");
}

/// A listener that has said where it is.
fn listener() -> (Child, String) {
    let mut child = command("bench latency --listen 127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("its standard error"));
    said.read_line(&mut line).expect("where it listens");
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let address = line
        .split_whitespace()
        .find_map(|word| word.strip_suffix(';').filter(|word| word.contains(':')));
    (
        child,
        address.unwrap_or_else(|| panic!("no address in {line}")).to_owned(),
    )
}

#[test]
fn two_hosts_work_like_one() {
    let (mut child, address) = listener();
    let document = json(&format!(
        "bench latency --sizes 8 --iterations 10 --rounds 2 --format json --wait adaptive --connect {address}"
    ));
    assert_eq!(rows(&document, "tcp").len(), 1);
    assert_eq!(document["environment"]["ends"], "hosts");
    // They are one host here, and do not share a CPU if they need not.
    let pinning = document["environment"]["pinning"].as_array().expect("a list");
    assert!(pinning.len() == 2, "{pinning:?}");
    let alone = thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    assert!(alone || pinning[0] != pinning[1], "{pinning:?}");
    assert!(child.wait().expect("the listener ends").success());
}

#[test]
fn a_stranger_does_not_stop_the_listener_from_saying_so() {
    let (mut child, address) = listener();
    let mut stream = TcpStream::connect(address).expect("the listener is there");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    assert_eq!(child.wait().expect("the listener ends").code(), Some(1));
}

#[test]
fn a_dead_worker_ends_the_measurement_with_a_reason() {
    let line = "bench latency --sizes 8 --iterations 100000 --rounds 1000 --vs udp --wait adaptive";
    let mut driver = command(line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(driver.stderr.take().expect("its standard error"));
    let mut line = String::new();
    while !line.contains("worker process") {
        line.clear();
        assert!(
            said.read_line(&mut line).expect("it says who runs where") > 0,
            "it ended early"
        );
    }
    let worker = line
        .split("worker process ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a number");
    thread::sleep(Duration::from_millis(50));
    assert!(
        Command::new("kill")
            .args(["-9", worker])
            .status()
            .expect("kill")
            .success()
    );
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("its last words");
    assert_eq!(driver.wait().expect("it ends").code(), Some(1));
    assert!(rest.contains("has died"), "{rest}");
}

#[test]
fn a_device_belongs_to_dpdk() {
    assert!(refused("bench latency --device memif").contains("backend dpdk"));
    assert!(refused("bench incast --backend dpdk --device memif").contains("dpdk"));
    assert!(refused("bench barrier --backend dpdk").contains("dpdk"));
}

#[test]
fn the_doctor_looks_at_everything() {
    let document = json("doctor --format json");
    assert_eq!(document["tool"], "doctor");
    let rows = document["rows"].as_array().expect("rows");
    for area in ["machine", "network", "dpdk", "launchers"] {
        assert!(rows.iter().any(|row| row["area"] == area), "{area}: {document}");
    }
    for row in rows {
        let state = row["state"].as_str().expect("a state");
        assert!(["ok", "could", "none"].contains(&state), "{row}");
        assert_eq!(row["advice"].is_null(), state == "ok", "{row}");
    }
    let text = String::from_utf8(run("doctor").stdout).expect("UTF-8");
    assert!(
        text.contains("net.core.rmem_max") && text.contains("hugepages"),
        "{text}"
    );
}

/// A process that computes loses messages, and takes fewer than a poller does. A poller that is stopped loses more with
/// one queue than with queues for all that comes meanwhile.
#[cfg(feature = "dpdk")]
fn overflow() {
    let run = |more: &str| {
        json(&format!(
            "bench overflow --seconds 1 --descriptors 64 --format json {more}"
        ))
    };
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
    let rows = |document: &Value| document["rows"].as_array().unwrap().clone();
    let document = run("--queues 1");
    let all = rows(&document);
    let [process, poller, _] = &all[..] else {
        panic!("{document}");
    };
    assert!(number(process, "lost") > 0.0, "{document}");
    assert!(number(process, "mb_per_s") < number(poller, "mb_per_s"), "{document}");
    // So few that they still fit if the machine is busy with something else.
    let document = run("--rate 4000 --queues 1,16");
    let all = rows(&document);
    let [_, _, one, many] = &all[..] else {
        panic!("{document}");
    };
    assert!(number(one, "lost_percent") > number(many, "lost_percent"), "{document}");
    for row in [one, many] {
        assert!(
            number(row, "round_trips") > 0.0 && number(row, "longest_ms") >= 1.0,
            "{document}"
        );
    }
}

/// Open MPI takes part where its compiler is.
#[test]
fn figure_11_has_mpi_over_tcp() {
    let document = json("bench figure11 --sizes 8,64K,2M --iterations 10 --rounds 2 --format json --wait adaptive");
    assert_eq!(rows(&document, "hikyaku/udp/eager").len(), 2, "{document}");
    assert_eq!(rows(&document, "tcp").len(), 3, "{document}");
    let is_there = |program: &str| {
        let said = Command::new(program).arg("--version").output();
        said.is_ok_and(|output| output.status.success())
    };
    let (eager, rendezvous) = (
        rows(&document, "openmpi/tcp/eager"),
        rows(&document, "openmpi/tcp/rendezvous"),
    );
    if !is_there("mpicc.openmpi") || !is_there("mpirun.openmpi") || eager.is_empty() {
        eprintln!("left out: Open MPI, or its headers, are not here");
        return;
    }
    assert_eq!((eager.len(), rendezvous.len()), (3, 3), "{document}");
    for row in rows(&document, "hikyaku/udp/eager") {
        assert!(row["ratio"]["openmpi/tcp/eager/mpi"].is_number(), "{row}");
    }
}

/// Devices without an interface: the benchmark makes the wires, and takes them away.
#[test]
#[cfg(feature = "dpdk")]
fn over_a_wire_of_its_own() {
    use std::{fs, os::unix::fs::MetadataExt};

    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("left out: it needs root");
        return;
    }
    let document = json(
        "bench figure11 --backend dpdk --device af_packet --sizes 8,2048 --iterations 10 --rounds 2 --format json --wait adaptive",
    );
    assert_eq!(document["environment"]["mtu"], 1500);
    for transport in [
        "hikyaku/dpdk/eager",
        "hikyaku/dpdk/rendezvous",
        "hikyaku/udp/eager",
        "tcp",
    ] {
        assert_eq!(rows(&document, transport).len(), 2, "{document}");
    }
}

/// Both ends over shared memory, beside the kernel.
#[test]
#[cfg(feature = "dpdk")]
fn without_the_kernel() {
    for benchmark in ["latency", "bandwidth"] {
        let document = json(&format!(
            "bench {benchmark} --backend dpdk --device memif --sizes 8,2048,64K --iterations 20 --rounds 3 --format json \
             --level transport,mpi --vs tcp,udp,memif --wait adaptive"
        ));
        // Bare UDP may lose a round, which is void then.
        for transport in ["tcp", "memif", "memif/copied"] {
            assert_eq!(rows(&document, transport).len(), 3, "{document}");
        }
        // At both levels.
        assert_eq!(rows(&document, "hikyaku/dpdk").len(), 6, "{document}");
        for row in rows(&document, "hikyaku/dpdk") {
            assert!(
                row["ratio"]["tcp"].is_number() && row["ratio"]["memif"].is_number(),
                "{row}"
            );
        }
        assert_eq!(document["environment"]["mtu"], 16_000);
    }
    let document = json(
        "bench figure11 --backend dpdk --device memif --sizes 8,64K,2M --iterations 10 --rounds 2 --format json --wait adaptive",
    );
    for backend in ["udp", "dpdk"] {
        assert_eq!(
            rows(&document, &format!("hikyaku/{backend}/rendezvous")).len(),
            3,
            "{document}"
        );
        // Not beyond the largest eager limit.
        assert_eq!(
            rows(&document, &format!("hikyaku/{backend}/eager")).len(),
            2,
            "{document}"
        );
    }
    overflow();
    assert!(refused("bench latency --vs memif").contains("dpdk"));
    assert!(refused("bench latency --backend dpdk --device pigeon").contains("memif"));
}
