//! Open MPI over its tcp btl as one of the things that are compared: two ranks of a job that stays for all rounds, a
//! program in C that is compiled when it is needed.

use std::{
    env, fs,
    io::{self, ErrorKind, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    failure::{Failure, While},
    machine::{clock, pin, wire},
    transports::{
        link::{Hub, Spoke},
        settings::{Job, Offer, Report, Settings, Way},
        sizes::{Messages, Sizes},
        timeout::{TIMEOUT, timed_out, until_timeout},
    },
};

const SOURCE: &str = include_str!("openmpi.c");
/// Programs of Open MPI, by the names that tell them from those of another MPI.
const COMPILER: &str = "mpicc.openmpi";
const LAUNCHER: &str = "mpirun.openmpi";
/// How long a job may take to start.
const START: u64 = 30_000_000_000;
/// Bytes of ob1's header, which the limits of the tcp btl count: with such a limit, nothing but messages without bytes
/// goes eagerly. It takes no smaller one.
const HEADER: usize = 56;
/// The limits with which all messages of these benchmarks go eagerly.
const ALL: usize = (8 << 20) + HEADER;

/// The program and the sockets of its ranks; removed when it is dropped.
pub(crate) struct Program(PathBuf);

impl Program {
    /// Compiles it. `None`: there is no Open MPI here, or not its compiler.
    pub(crate) fn compile() -> Result<Option<Self>, Failure> {
        let there = |program: &str| {
            let said = Command::new(program).arg("--version").output();
            said.is_ok_and(|output| output.status.success())
        };
        if !there(COMPILER) || !there(LAUNCHER) {
            return Ok(None);
        }
        let directory = env::temp_dir().join(format!("hikyaku-bench-{}-openmpi", std::process::id()));
        let what = "compiling a program for Open MPI";
        fs::DirBuilder::new().mode(0o700).create(&directory).or_fail(what)?;
        let program = Self(directory);
        let source = program.0.join("openmpi.c");
        fs::write(&source, SOURCE).or_fail(what)?;
        let mut command = Command::new(COMPILER);
        command.arg("-O3").arg(&source).arg("-o").arg(program.0.join("openmpi"));
        let output = command.output().or_fail(what)?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            eprintln!("hikyaku bench: {what}: {}", errors.lines().next().unwrap_or_default());
            return Ok(None);
        }
        Ok(Some(program))
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One end: the socket by which its rank is told what to do.
struct End {
    listener: UnixListener,
    path: PathBuf,
    rank: Option<UnixStream>,
}

impl End {
    fn open(directory: &str, settings: &Settings, name: &str) -> io::Result<Self> {
        let path = Path::new(directory).join(format!("{name}{}", settings.link));
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path,
            rank: None,
        })
    }

    /// Socket and CPU, as the program has them.
    fn offer(&self) -> Offer {
        let cpu = pin::pinned().map_or_else(|| "-1".to_owned(), |cpu| cpu.to_string());
        Offer {
            addresses: Vec::new(),
            extra: format!("{}\n{cpu}", self.path.display()).into_bytes(),
        }
    }

    /// Waits for the rank; `failed` says when it will not come.
    fn accept(&mut self, mut failed: impl FnMut() -> Option<String>) -> io::Result<()> {
        let limit = clock::now() + START;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    self.rank = Some(stream);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => clock::pause(Duration::from_millis(5)),
                Err(error) => return Err(error),
            }
            if let Some(why) = failed() {
                return Err(io::Error::other(why));
            }
            if clock::now() > limit {
                return Err(io::Error::other("Open MPI has not started within 30 s"));
            }
        }
    }

    /// Has the rank do a round; gives `numbers` numbers that it answers.
    fn perform(&mut self, job: [usize; 3], numbers: usize) -> io::Result<Vec<u64>> {
        let rank = self.rank.as_mut().ok_or(ErrorKind::NotConnected)?;
        rank.write_all(&job.map(|number| (number as u64).to_ne_bytes()).concat())?;
        let mut bytes = vec![0; numbers * 8];
        let mut at = 0;
        while at < bytes.len() {
            at += until_timeout("Open MPI", || match rank.read(&mut bytes[at..]) {
                Ok(0) => Err(io::Error::other("a rank of Open MPI has ended")),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Err(timed_out("Open MPI")),
                other => other,
            })?;
        }
        let numbers = bytes
            .chunks_exact(8)
            .map(|bytes| bytes.try_into().map(u64::from_ne_bytes));
        Ok(numbers.map(Result::unwrap_or_default).collect())
    }
}

/// The answering end, which starts the job.
struct OpenMpiHub {
    end: End,
    directory: PathBuf,
    way: Way,
    namespace: Option<String>,
    job: Option<Child>,
}

/// Opens the answering end.
pub(crate) fn open_hub(way: Way, directory: &str, settings: &Settings) -> io::Result<Box<dyn Hub>> {
    Ok(Box::new(OpenMpiHub {
        end: End::open(directory, settings, "hub")?,
        directory: PathBuf::from(directory),
        way,
        namespace: settings.wire.clone(),
        job: None,
    }))
}

impl OpenMpiHub {
    /// Where the job runs: both ranks here, or each in its namespace.
    fn place(&self, command: &mut Command) -> io::Result<()> {
        let Some(namespace) = &self.namespace else {
            command.args(["--host", "localhost:2", "--mca", "btl_tcp_if_include", "lo"]);
            return Ok(());
        };
        let hosts = format!("{}:1,{}:1", wire::address(1), wire::address(0));
        let interface = wire::interface(0);
        command.args(["--host", &hosts, "--mca", "btl_tcp_if_include", &interface]);
        command.args(["--mca", "oob_tcp_if_include", &interface]);
        // What Open MPI starts on another host by ssh: its daemon, which must find a host of another name there.
        let agent = self.directory.join("agent");
        let script = format!(
            "#!/bin/sh\nshift\nexec ip netns exec {namespace} unshare --uts sh -c \"hostname {namespace}; $*\"\n"
        );
        fs::write(&agent, script)?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o700))?;
        command.args(["--mca", "plm_rsh_agent"]).arg(agent);
        Ok(())
    }
}

impl Hub for OpenMpiHub {
    fn offer(&self) -> io::Result<Offer> {
        Ok(self.end.offer())
    }

    fn join(&mut self, spoke: &Offer) -> io::Result<()> {
        let limit = match self.way {
            Way::Eager => ALL,
            Way::Rendezvous => HEADER,
        };
        let mut command = Command::new(LAUNCHER);
        command.args([
            "-n",
            "2",
            "--bind-to",
            "none",
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "self,tcp",
        ]);
        command.args(["--mca", "mpi_yield_when_idle", "0"]);
        for name in ["btl_tcp_eager_limit", "btl_tcp_rndv_eager_limit"] {
            command.args(["--mca", name, &limit.to_string()]);
        }
        if self.way == Way::Eager {
            command.args(["--mca", "btl_tcp_max_send_size", &limit.to_string()]);
        }
        self.place(&mut command)?;
        command.arg(self.directory.join("openmpi"));
        for offer in [spoke, &self.end.offer()] {
            command.args(String::from_utf8_lossy(&offer.extra).split('\n'));
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Ctrl-C at a terminal is for the driver alone.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        self.job = Some(command.spawn()?);
        Ok(())
    }

    fn joined(&mut self) -> io::Result<()> {
        let job = &mut self.job;
        self.end.accept(|| {
            let ended = job.as_mut()?.try_wait().ok()??;
            Some(format!("{LAUNCHER} has ended ({ended})"))
        })
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, _spokes: usize) -> io::Result<()> {
        self.end.perform([sizes.same()?, 0, count], 1).map(drop)
    }

    fn sink(&mut self, _: &Sizes, _: usize, _: usize, _: usize) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Drop for OpenMpiHub {
    fn drop(&mut self) {
        // The ranks end when their sockets are closed; the other one's is closed already.
        self.end.rank = None;
        let Some(job) = &mut self.job else { return };
        let limit = clock::now() + 5_000_000_000;
        while clock::now() < limit {
            if !matches!(job.try_wait(), Ok(None)) {
                return;
            }
            clock::pause(Duration::from_millis(5));
        }
        let _ = job.kill();
        let _ = job.wait();
    }
}

/// The asking end.
struct OpenMpiSpoke(End);

/// Opens the asking end.
pub(crate) fn open_spoke(directory: &str, settings: &Settings) -> io::Result<Box<dyn Spoke>> {
    Ok(Box::new(OpenMpiSpoke(End::open(directory, settings, "spoke")?)))
}

impl Spoke for OpenMpiSpoke {
    fn offer(&self) -> io::Result<Offer> {
        Ok(self.0.offer())
    }

    fn ready(&mut self) -> io::Result<()> {
        self.0.accept(|| None)
    }

    fn ping(&mut self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn stream(&mut self, _: &Messages, _: usize, _: usize) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn measured(&mut self, job: &Job) -> Option<io::Result<Report>> {
        let answer = self.0.perform([job.size, job.warmup, job.count], job.count + 2);
        Some(answer.map(|mut numbers| {
            let samples = numbers.split_off(2);
            Report {
                samples,
                wall: numbers[0],
                cpu: numbers[1],
                ..Report::default()
            }
        }))
    }
}
