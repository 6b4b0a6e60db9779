//! Launchers of others: MPICH's, Open MPI's and Slurm's. They need these to be installed (`cargo xtask setup`) and are
//! run by `cargo xtask launchers`.

mod program;

use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
    thread,
    time::Instant,
};

use self::program::Program;
use super::{Dir, PATIENCE, PROGRAM, check_hello, err, out};

fn by(line: &str, more: &[(&str, &str)]) -> Output {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    // Whether this test runs under a launcher itself must not matter.
    for (name, _) in
        env::vars().filter(|(name, _)| ["PMI", "OMPI", "SLURM", "HIKYAKU"].iter().any(|p| name.starts_with(p)))
    {
        command.env_remove(name);
    }
    command.envs(more.iter().copied());
    command.output().unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn hello(line: &str, size: usize, launcher: &str, more: &[(&str, &str)]) {
    let output = by(&format!("{line} {PROGRAM} hello"), more);
    assert!(output.status.success(), "{line}: {}", err(&output));
    check_hello(&out(&output), size, launcher);
    assert_eq!(
        out(&output).matches(&format!("of {size}, app 0")).count(),
        size,
        "{}",
        out(&output)
    );
}

/// Runs a program in C, which sends, sums and puts.
fn in_c(line: &str, size: usize, more: &[(&str, &str)]) {
    let Some(program) = Program::compiled() else { return };
    let output = by(&format!("{line} {}", program.path()), more);
    assert!(output.status.success(), "{line}: {}", err(&output));
    let said = format!("{size} ranks, sum {}", size * (size - 1) / 2);
    assert!(out(&output).contains(&said), "{line}: {}", out(&output));
}

/// Runs the same program, which has two more of it started as well, and talks to them.
fn spawns(line: &str, size: usize, run: impl Fn(&str) -> Output) {
    let Some(program) = Program::compiled() else { return };
    let output = run(&format!("{line} {} spawn", program.path()));
    assert!(output.status.success(), "{line}: {}", err(&output));
    let said = format!("{size} ranks, sum {}, spawned 3", size * (size - 1) / 2);
    assert!(out(&output).contains(&said), "{line}: {}", out(&output));
}

/// Ranks that abort and that vanish. `run` runs a launcher.
fn misbehaviour(line: &str, run: impl Fn(&str) -> Output) {
    let output = run(&format!("{line} {PROGRAM} hello --abort 1 --code 7"));
    assert_eq!(output.status.code(), Some(7), "{line}: {}", err(&output));
    let output = run(&format!("{line} {PROGRAM} hello --vanish 1 --code 6"));
    assert!(!output.status.success(), "{line}: {}", err(&output));
}

/// Runs Open MPI's launcher. Once in some hundred times, version 4.1 with PMIx 4.2 deadlocks with itself when a rank has
/// aborted: `PMIx_server_finalize` waits for a thread that waits for a mutex of its own. All ranks have ended by then, so
/// the launcher is killed and started again.
fn by_open_mpi(line: &str) -> Output {
    let limited = format!("timeout --signal=KILL 40 {line}");
    let killed = |output: &Output| output.status.code() == Some(128 + 9) || output.status.signal() == Some(9);
    let mut output = by(&limited, &[]);
    for _ in 0..2 {
        if !killed(&output) {
            break;
        }
        eprintln!("killed after 40 s: {line}");
        output = by(&limited, &[]);
    }
    output
}

#[test]
#[ignore = "needs MPICH's mpiexec.hydra: cargo xtask launchers"]
fn mpich() {
    hello("mpiexec.hydra -n 3", 3, "pmi1", &[]);
    hello("mpiexec.hydra -pmi-port -n 2", 2, "pmi1", &[]);
    hello("mpiexec.hydra -n 2", 2, "pmi2", &[("HIKYAKU_BOOTSTRAP", "pmi2")]);
    hello("mpiexec.mpich -n 1", 1, "pmi1", &[]);
    misbehaviour("mpiexec.hydra -n 3", |line| by(line, &[]));
    in_c("mpiexec.hydra -n 3", 3, &[]);
    for (line, size) in [
        ("mpiexec.hydra -n 3", 3),
        ("mpiexec.hydra -pmi-port -n 1", 1),
        ("env HIKYAKU_BOOTSTRAP=pmi2 mpiexec.hydra -n 2", 2),
    ] {
        spawns(line, size, |line| by(line, &[]));
    }
}

#[test]
#[ignore = "needs Open MPI's mpirun: cargo xtask launchers"]
fn open_mpi() {
    let mpirun = "mpirun.openmpi --allow-run-as-root --oversubscribe";
    hello(&format!("{mpirun} -n 3"), 3, "pmix", &[]);
    hello(&format!("{mpirun} -n 1"), 1, "pmix", &[]);
    misbehaviour(&format!("{mpirun} -n 3"), by_open_mpi);
    in_c(&format!("{mpirun} -n 3"), 3, &[]);
    spawns(&format!("{mpirun} -n 2"), 2, by_open_mpi);
    // There is a slot for each rank, and none for those that they spawn.
    let Some(program) = Program::compiled() else { return };
    let full = "mpirun.openmpi --allow-run-as-root --host localhost:2 -n 2";
    let output = by_open_mpi(&format!("{full} {} spawn", program.path()));
    let said = err(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("MPI_Comm_spawn") && said.contains("it may have no slots left"),
        "{said}"
    );
}

/// Slurm with one node, this one, in a directory of its own; as root.
struct Slurm {
    dir: Dir,
}

impl Slurm {
    fn start() -> Self {
        let dir = Dir::new("slurm");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        let at = |name: &str| dir.path(name);
        fs::create_dir_all(at("state")).unwrap();
        fs::create_dir_all(at("spool")).unwrap();
        dir.write("munge.key", &"0123456789abcdef".repeat(8));
        must(&format!("chmod 600 {}", at("munge.key")));
        // A socket's path has to be short.
        let socket = env::temp_dir().join(format!("hikyaku-munge-{}", std::process::id()));
        let socket = socket.display();
        must(&format!(
            "munged --force --key-file={} --socket={socket} --pid-file={} --log-file={} --seed-file={}",
            at("munge.key"),
            at("munged.pid"),
            at("munged.log"),
            at("munge.seed")
        ));
        let conf = [
            "ClusterName=hikyaku",
            &format!("SlurmctldHost={host}(127.0.0.1)"),
            "SlurmUser=root",
            "SlurmctldPort=16817",
            "SlurmdPort=16818",
            "AuthType=auth/munge",
            &format!("AuthInfo=socket={socket}"),
            &format!("StateSaveLocation={}", at("state")),
            &format!("SlurmdSpoolDir={}", at("spool")),
            &format!("SlurmctldPidFile={}", at("slurmctld.pid")),
            &format!("SlurmdPidFile={}", at("slurmd.pid")),
            &format!("SlurmctldLogFile={}", at("slurmctld.log")),
            &format!("SlurmdLogFile={}", at("slurmd.log")),
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "ReturnToService=2",
            &format!("NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN"),
            &format!("PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP"),
        ];
        let conf = dir.write("slurm.conf", &(conf.join("\n") + "\n"));
        must(&format!("slurmctld -c -f {conf}"));
        must(&format!("slurmd -f {conf} -N {host}"));
        Self { dir }
    }

    fn conf(&self) -> String {
        self.dir.path("slurm.conf")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in ["slurmd", "slurmctld", "munged"] {
            let pid = fs::read_to_string(self.dir.path(&format!("{daemon}.pid"))).unwrap_or_default();
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

fn must(line: &str) {
    let output = by(
        line,
        &[("PATH", &format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap()))],
    );
    assert!(output.status.success(), "{line}: {}{}", out(&output), err(&output));
}

#[test]
#[ignore = "needs Slurm, munge and root: cargo xtask launchers"]
fn slurm() {
    let slurm = Slurm::start();
    let conf = slurm.conf();
    let conf: &[(&str, &str)] = &[("SLURM_CONF", &conf)];
    // The node registers itself a moment after its start: srun waits for it.
    hello("srun --mpi=pmi2 -O -n 3", 3, "pmi2", conf);
    hello("srun --mpi=none -O -n 3", 3, "slurm", conf);
    hello(
        "srun --mpi=pmi2 -O -n 2",
        2,
        "pmi1",
        &[conf, &[("HIKYAKU_BOOTSTRAP", "pmi1")]].concat(),
    );
    hello("srun --mpi=none -n 1", 1, "slurm", conf);
    in_c("srun --mpi=pmi2 -O -n 3", 3, conf);
    in_c("srun --mpi=none -O -n 3", 3, conf);
    // What is spawned is a step of its own, which has the only CPU of the node, too.
    let shared = "env SLURM_OVERLAP=1 SLURM_OVERCOMMIT=1 srun --mpi=pmi2 -O -n 2";
    spawns(shared, 2, |line| by(line, conf));
    let output = by(
        &format!("srun --mpi=pmi2 -O -n 3 {PROGRAM} hello --abort 1 --code 7"),
        conf,
    );
    // Slurm gives the highest code, and those of ranks that it kills count.
    assert!(
        [Some(7), Some(137), Some(143)].contains(&output.status.code()),
        "{}",
        err(&output)
    );
    assert!(
        err(&output).contains("task 1: Exited with exit code 7"),
        "{}",
        err(&output)
    );
}

/// Pods of an indexed job.
#[test]
#[ignore = "needs root and unshare: cargo xtask launchers"]
fn pods() {
    in_namespaces("rendezvous", |index, port| {
        vec![
            ("JOB_COMPLETION_INDEX", index.to_string()),
            ("HIKYAKU_SIZE", "3".to_owned()),
            ("HIKYAKU_RENDEZVOUS", format!("prog-0.ranks:{port}")),
        ]
    });
}

/// Processes of torchrun, one a pod. It has the port before ours for itself.
#[test]
#[ignore = "needs root and unshare: cargo xtask launchers"]
fn torchrun() {
    in_namespaces("torch", |index, port| {
        vec![
            ("RANK", index.to_string()),
            ("WORLD_SIZE", "3".to_owned()),
            ("LOCAL_RANK", "0".to_owned()),
            ("LOCAL_WORLD_SIZE", "1".to_owned()),
            ("MASTER_ADDR", "prog-0.ranks".to_owned()),
            ("MASTER_PORT", (port - 1).to_string()),
        ]
    });
}

/// Three processes, each with files of its own for names, and these variables. The name of the first one resolves only
/// when it is there, which is after the others.
fn in_namespaces(launcher: &str, variables: impl Fn(usize, u16) -> Vec<(&'static str, String)>) {
    let dir = Dir::new(launcher);
    let hosts = dir.write("hosts", "127.0.0.1 localhost\n");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    // Each pod has a file of its hosts for itself; here they share one. No server is asked for names.
    let names = dir.write("nsswitch.conf", "hosts: files\n");
    let script =
        format!("mount --bind {hosts} /etc/hosts && mount --bind {names} /etc/nsswitch.conf && exec {PROGRAM} hello");
    let start = |index: usize| {
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .envs(variables(index, port))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut processes: Vec<_> = [1, 2].map(start).into();
    for process in &processes {
        wait_until_it_tries_again(process.id());
    }
    dir.write("hosts", "127.0.0.1 localhost prog-0.ranks\n");
    processes.push(start(0));
    let mut text = String::new();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        text += &out(&output);
    }
    check_hello(&text, 3, launcher);
}

/// Waits until a process sleeps, which it does between two attempts to reach rank 0.
fn wait_until_it_tries_again(process: u32) {
    let end = Instant::now() + PATIENCE;
    let sleeps = || {
        let command = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let call = fs::read_to_string(format!("/proc/{process}/syscall")).unwrap_or_default();
        let number = call.split(' ').next().and_then(|number| number.parse::<i64>().ok());
        command.trim() == "hikyaku" && number == Some(nix::libc::SYS_clock_nanosleep)
    };
    while !sleeps() {
        assert!(Instant::now() < end, "process {process} does not try to reach rank 0");
        thread::yield_now();
    }
}
