//! The client of PMI versions 1 and 2, which differ in their framing and in the names of their commands. Version 1 is
//! also what `hikyaku run` speaks, over TCP and behind a greeting with a ticket.

use std::{net::TcpStream, time::Duration};

use super::{
    Exchange, Identity, Launcher,
    channel::{Channel, connect},
    deadline::Deadline,
    descriptor,
    environment::{Environment, names},
    error::{BootstrapError, Cause},
    exchange::{Home, Names, Program, Spawner, Starter},
    message::{Message, NOTHING, Version, from_hex, key_of, to_hex},
    news::News,
};

/// The names of the commands of a version.
struct Vocabulary {
    put: [&'static str; 2],
    fence: [&'static str; 2],
    get: [&'static str; 2],
    finalize: [&'static str; 2],
    /// The field that names the key space.
    space: &'static str,
}

const ONE: Vocabulary = Vocabulary {
    put: ["put", "put_result"],
    fence: ["barrier_in", "barrier_out"],
    get: ["get", "get_result"],
    finalize: ["finalize", "finalize_ack"],
    space: "kvsname",
};

const TWO: Vocabulary = Vocabulary {
    put: ["kvs-put", "kvs-put-response"],
    fence: ["kvs-fence", "kvs-fence-response"],
    get: ["kvs-get", "kvs-get-response"],
    finalize: ["finalize", "finalize-response"],
    space: "jobid",
};

/// Time-out of a fence in a job where others may compute for long before they come, and the launcher reports those that
/// never will.
const WHOLE_JOB: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Longest word of a program to spawn, in bytes: its hexadecimal form fits into a line.
const MAX_WORD: usize = 1900;

pub(super) struct Pmi {
    launcher: Launcher,
    version: Version,
    channel: Channel,
    rank: u32,
    /// The name of the key space.
    space: String,
    /// Longest value, in characters.
    max_value: usize,
    /// Whether the server is hikyaku's, which gives the values of many ranks at once.
    has_pages: bool,
    /// Where failed ranks are reported, if the job goes on without them.
    news: Option<News>,
    /// Whether all ranks have been in a fence.
    met: bool,
    timeout: Duration,
}

type Joined = (Pmi, Identity);

impl Pmi {
    /// Joins over the descriptor `PMI_FD`, or by a connection to `PMI_PORT`.
    pub(super) fn join(
        environment: &Environment,
        version: Version,
        timeout: Duration,
    ) -> Result<Joined, BootstrapError> {
        let launcher = match version {
            Version::One => Launcher::Pmi1,
            Version::Two => Launcher::Pmi2,
        };
        let fail = |doing: String| move |cause: Cause| BootstrapError::new(launcher, doing, cause);
        let descriptor = environment
            .parse("PMI_FD", "the number of a descriptor")
            .map_err(fail("the environment".into()))?;
        if let Some(number) = descriptor {
            let doing = format!("PMI_FD={number}");
            let channel = descriptor::adopt(number).map_err(|error| fail(doing)(error.into()))?;
            Self::begin(launcher, version, Channel::new(channel), environment, timeout, false)
        } else {
            let address: String = environment
                .require("PMI_PORT", "host:port")
                .map_err(fail("the environment".into()))?;
            let stream = connect(&address, timeout).map_err(fail(format!("connecting to PMI_PORT={address}")))?;
            Self::begin(launcher, version, Channel::new(stream), environment, timeout, true)
        }
    }

    /// Joins a job of `hikyaku run`, or the server of rank 0 of a job without a launcher.
    pub(super) fn join_hikyaku(
        launcher: Launcher,
        stream: TcpStream,
        ticket: &str,
        rank: u32,
        timeout: Duration,
    ) -> Result<Self, BootstrapError> {
        let mut pmi = Self {
            launcher,
            version: Version::One,
            channel: Channel::new(stream),
            rank,
            space: "hikyaku".to_owned(),
            max_value: super::MAX_VALUE * 2,
            has_pages: true,
            news: None,
            met: false,
            timeout,
        };
        let hello = Message::new("hello").with("rank", rank).with("ticket", ticket);
        pmi.ask("saying hello to the wire-up server", &hello, "welcome")?;
        Ok(pmi)
    }

    fn begin(
        launcher: Launcher,
        version: Version,
        channel: Channel,
        environment: &Environment,
        timeout: Duration,
        by_port: bool,
    ) -> Result<Joined, BootstrapError> {
        let mut pmi = Self {
            launcher,
            version: Version::One,
            channel,
            rank: 0,
            space: String::new(),
            max_value: 0,
            has_pages: false,
            news: None,
            met: false,
            timeout,
        };
        let mut identity = if by_port {
            Some(pmi.acknowledge(environment)?)
        } else {
            None
        };
        let number = if version == Version::One { 1 } else { 2 };
        let init = Message::new("init")
            .with("pmi_version", number)
            .with("pmi_subversion", if number == 1 { 1 } else { 0 });
        let answer = pmi.ask("agreeing on the version", &init, "response_to_init")?;
        if answer.number("pmi_version") != Some(number) {
            return Err(pmi.unexpected("agreeing on the version", format!("version {number}"), &answer));
        }
        pmi.version = version;
        if version == Version::One {
            let identity = match identity.take() {
                Some(identity) => identity,
                None => pmi.identity_of(environment)?,
            };
            pmi.space_of_version_1()?;
            Ok((pmi.with_rank(identity.rank), identity))
        } else {
            let identity = pmi.full_init(environment)?;
            Ok((pmi.with_rank(identity.rank), identity))
        }
    }

    pub(super) fn with_news(self, news: Option<News>) -> Self {
        Self { news, ..self }
    }

    pub(super) fn with_rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    fn identity_of(&self, environment: &Environment) -> Result<Identity, BootstrapError> {
        let number = |name| environment.require(name, "a number");
        let fail = |cause| BootstrapError::new(self.launcher, "the environment", cause);
        let (rank, size) = (number("PMI_RANK").map_err(fail)?, number("PMI_SIZE").map_err(fail)?);
        Identity::new(self.launcher, rank, size)
    }

    /// The greeting on connections to `PMI_PORT`, whose answer has the rank and size.
    fn acknowledge(&mut self, environment: &Environment) -> Result<Identity, BootstrapError> {
        let doing = "introducing this rank over PMI_PORT";
        let id: u32 = environment
            .require("PMI_ID", "a number")
            .map_err(|cause| BootstrapError::new(self.launcher, doing, cause))?;
        self.ask(doing, &Message::new("initack").with("pmiid", id), "initack")?;
        let (mut rank, mut size) = (None, None);
        // Three lines of `cmd=set`, the last of which is `debug`.
        for _ in 0..3 {
            let line = self.answer(doing, "set")?;
            rank = rank.or_else(|| line.number("rank"));
            size = size.or_else(|| line.number("size"));
        }
        match (rank, size) {
            (Some(rank), Some(size)) => Identity::new(self.launcher, rank, size),
            _ => Err(BootstrapError::new(
                self.launcher,
                doing,
                Cause::Refused("neither rank nor size".into()),
            )),
        }
    }

    fn space_of_version_1(&mut self) -> Result<(), BootstrapError> {
        let doing = "asking for the key space";
        let answer = self.ask(doing, &Message::new("get_maxes"), "maxes")?;
        self.max_value = match answer.number("vallen_max") {
            Some(limit) => limit,
            None => return Err(self.unexpected(doing, "vallen_max".into(), &answer)),
        };
        let answer = self.ask(doing, &Message::new("get_my_kvsname"), "my_kvsname")?;
        self.space = match answer.get("kvsname") {
            Some(space) => space.to_owned(),
            None => return Err(self.unexpected(doing, "kvsname".into(), &answer)),
        };
        Ok(())
    }

    fn full_init(&mut self, environment: &Environment) -> Result<Identity, BootstrapError> {
        let doing = "joining the job";
        let mut init = Message::new("fullinit");
        if let Some(job) = environment.get("PMI_JOBID") {
            init = init.with("pmijobid", job);
        }
        if let Some(rank) = environment.get("PMI_RANK") {
            init = init.with("pmirank", rank);
        }
        let answer = self.ask(doing, &init.with("threaded", "FALSE"), "fullinit-response")?;
        let (Some(rank), Some(size)) = (answer.number("rank"), answer.number("size")) else {
            return Err(self.unexpected(doing, "rank and size".into(), &answer));
        };
        // Slurm sends -1 if there is only one.
        let app = answer.number("appnum").unwrap_or(0);
        let answer = self.ask(doing, &Message::new("job-getid"), "job-getid-response")?;
        self.space = match answer.get("jobid") {
            Some(space) => space.to_owned(),
            None => return Err(self.unexpected(doing, "jobid".into(), &answer)),
        };
        // PMI2_MAX_VALLEN.
        self.max_value = 1024;
        Ok(Identity {
            app,
            ..Identity::new(self.launcher, rank, size)?
        })
    }

    const fn vocabulary(&self) -> &'static Vocabulary {
        match self.version {
            Version::One => &ONE,
            Version::Two => &TWO,
        }
    }

    /// Sends a request and waits for its answer, whose `rc` must be 0 if there is one.
    fn ask(&mut self, doing: &str, request: &Message, expected: &str) -> Result<Message, BootstrapError> {
        let answer = self.exchange(doing, request, expected)?;
        self.accept(doing, answer)
    }

    fn accept(&self, doing: &str, answer: Message) -> Result<Message, BootstrapError> {
        match answer.get("rc") {
            None | Some("0") => Ok(answer),
            Some(_) => {
                let reason = answer.get("msg").or_else(|| answer.get("errmsg"));
                let reason = reason.map_or_else(|| answer.encode(Version::One), |text| text.replace('_', " "));
                let cause = Cause::Refused(reason.trim().to_owned());
                Err(BootstrapError::new(self.launcher, doing, cause))
            }
        }
    }

    fn exchange(&mut self, doing: &str, request: &Message, expected: &str) -> Result<Message, BootstrapError> {
        let deadline = Deadline::after(self.timeout);
        self.channel
            .send(self.version, request, deadline)
            .map_err(|cause| BootstrapError::new(self.launcher, doing, cause))?;
        self.receive(doing, expected, deadline)
    }

    fn answer(&mut self, doing: &str, expected: &str) -> Result<Message, BootstrapError> {
        self.receive(doing, expected, Deadline::after(self.timeout))
    }

    fn receive(&mut self, doing: &str, expected: &str, deadline: Deadline) -> Result<Message, BootstrapError> {
        let answer = self
            .channel
            .receive(self.version, deadline)
            .map_err(|cause| BootstrapError::new(self.launcher, doing, cause))?;
        if answer.command() == expected {
            Ok(answer)
        } else {
            Err(self.unexpected(doing, format!("cmd={expected}"), &answer))
        }
    }

    fn unexpected(&self, doing: &str, expected: String, answer: &Message) -> BootstrapError {
        let text = answer.encode(Version::One).trim_end().to_owned();
        BootstrapError::new(self.launcher, doing, Cause::Unexpected { expected, text })
    }
}

impl Exchange for Pmi {
    fn news(&self) -> Option<&News> {
        self.news.as_ref()
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let doing = format!("putting '{key}'");
        let value = to_hex(value);
        if value.len() >= self.max_value {
            let limit = self.max_value.saturating_sub(1) / 2;
            let cause = Cause::Argument(format!("this launcher takes values of up to {limit} bytes"));
            return Err(BootstrapError::new(self.launcher, doing, cause));
        }
        let [request, answer] = self.vocabulary().put;
        let mut request = Message::new(request);
        if self.version == Version::One {
            request = request.with(self.vocabulary().space, &self.space);
        }
        let request = request.with("key", key_of(self.rank, key)).with("value", value);
        self.ask(&doing, &request, answer).map(drop)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let [request, answer] = self.vocabulary().fence;
        let usual = self.timeout;
        if self.met && self.news.is_some() {
            self.timeout = WHOLE_JOB;
        }
        let done = self.ask("waiting for all ranks", &Message::new(request), answer);
        self.timeout = usual;
        self.met |= done.is_ok();
        done.map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let doing = format!("getting '{key}' of rank {rank}");
        let [request, answer] = self.vocabulary().get;
        let request = Message::new(request)
            .with(self.vocabulary().space, &self.space)
            .with("key", key_of(rank, key));
        let answer = self.exchange(&doing, &request, answer)?;
        let found = answer.number("rc").unwrap_or(0) == 0 && answer.get("found") != Some("FALSE");
        match answer.get("value") {
            _ if !found => Ok(None),
            Some(value) => match from_hex(value) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(self.unexpected(&doing, "a value in hexadecimal digits".into(), &answer)),
            },
            None => Err(self.unexpected(&doing, "a value".into(), &answer)),
        }
    }

    fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, BootstrapError> {
        if !self.has_pages {
            return (0..size).map(|rank| self.get(rank, key)).collect();
        }
        let doing = format!("getting '{key}' of all ranks");
        let mut all = Vec::with_capacity(size as usize);
        while all.len() < size as usize {
            let request = Message::new("get_all").with("key", key).with("from", all.len());
            let page = self.ask(&doing, &request, "get_all_result")?;
            let values = page.get("values").filter(|_| page.number::<u32>("count") > Some(0));
            let value = |text: &str| {
                if text == NOTHING {
                    Some(None)
                } else {
                    from_hex(text).map(Some)
                }
            };
            let before = all.len();
            let whole = values.and_then(|values| values.split(',').map(value).collect::<Option<Vec<_>>>());
            all.extend(whole.unwrap_or_default());
            if all.len() == before || all.len() > size as usize {
                return Err(self.unexpected(&doing, "values in hexadecimal digits".into(), &page));
            }
        }
        Ok(all)
    }

    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        (self.launcher == Launcher::Hikyaku).then_some(self)
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        (self.launcher == Launcher::Hikyaku).then_some(self)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        let [request, answer] = self.vocabulary().finalize;
        self.ask("finalizing", &Message::new(request), answer).map(drop)
    }

    fn abort(&mut self, code: u8, message: &str) {
        let request = match self.launcher {
            Launcher::Pmi1 => Message::new("abort").with("exitcode", code),
            Launcher::Pmi2 => Message::new("abort")
                .with("isworld", "TRUE")
                .with("exitcode", code)
                .with("msg", message.replace(char::is_control, " ")),
            _ => Message::new("abort")
                .with("exitcode", code)
                .with("text", to_hex(message.as_bytes())),
        };
        // This process ends, whether the message could be sent or not.
        let _ = self.channel.send(self.version, &request, Deadline::after(self.timeout));
    }
}

/// The client of the server of [`Family`](super::family::Family).
impl Pmi {
    /// Reserves the numbers of so many processes that are to be spawned; gives the first.
    pub(super) fn reserve(&mut self, count: u32, by: &str) -> Result<u32, BootstrapError> {
        let doing = "numbering the processes that are spawned";
        let request = Message::new("reserve").with("count", count).with("by", by);
        let answer = self.ask(doing, &request, "reserve_result")?;
        answer
            .number("first")
            .ok_or_else(|| self.unexpected(doing, "the number of a process".into(), &answer))
    }

    /// Waits until they have met.
    pub(super) fn await_spawned(&mut self, first: u32) -> Result<u32, BootstrapError> {
        let doing = "waiting for the processes that are spawned";
        let answer = self.answer(doing, "spawn_result")?;
        self.accept(doing, answer).map(|_| first)
    }

    /// They do not come, or too late.
    pub(super) fn give_up(&mut self, first: u32) -> Result<(), BootstrapError> {
        let doing = "giving processes up";
        let request = Message::new("give_up").with("first", first);
        match self.exchange(doing, &request, "give_up_result") {
            // What was waited for has come meanwhile.
            Err(error) if matches!(error.cause(), Cause::Unexpected { text, .. } if text.contains("spawn_result")) => {
                self.answer(doing, "give_up_result").map(drop)
            }
            other => other.map(drop),
        }
    }
}

/// The key of what hydra and Slurm put for the processes that they spawn.
const CONTACT: &str = "hikyaku-contact";

impl Pmi {
    /// Learns what those tell this process that have spawned it, if it was spawned.
    pub(super) fn contact(
        &mut self,
        environment: &Environment,
        identity: &mut Identity,
    ) -> Result<Option<String>, BootstrapError> {
        if environment.get("PMI_SPAWNED").is_none_or(|spawned| spawned == "0") {
            return Ok(None);
        }
        if self.version == Version::One {
            // (Version 2 has told it before.)
            let answer = self.ask(
                "asking for the number of the program",
                &Message::new("get_appnum"),
                "appnum",
            )?;
            identity.app = answer.number("appnum").unwrap_or(0);
        }
        let doing = "asking for the processes that have spawned this one";
        let [request, answer] = self.vocabulary().get;
        let request = Message::new(request).with(self.vocabulary().space, &self.space);
        let answer = self.exchange(doing, &request.with("key", CONTACT), answer)?;
        let found = answer.number("rc").unwrap_or(0) == 0 && answer.get("found") != Some("FALSE");
        // (A program of another MPI may have spawned this one.)
        let contact = answer.get("value").filter(|_| found).map(str::to_owned);
        Ok(contact)
    }
}

impl Starter for Pmi {
    fn start(&mut self, programs: &[Program], contact: &str) -> Result<(), BootstrapError> {
        let doing = "spawning processes";
        let mut words = programs.iter().flat_map(|program| &program.command);
        if let Some(word) = words.find(|word| word.contains(char::is_control)) {
            let cause = Cause::Argument(format!("PMI cannot pass on '{}'", word.escape_debug()));
            return Err(BootstrapError::new(self.launcher, doing, cause));
        }
        let answer = match self.version {
            Version::One => {
                let deadline = Deadline::after(self.timeout);
                self.channel
                    .send_text(&commands(programs, contact), deadline)
                    .map_err(|cause| BootstrapError::new(self.launcher, doing, cause))?;
                self.receive(doing, "spawn_result", deadline)?
            }
            Version::Two => self.exchange(doing, &command(programs, contact), "spawn-response")?,
        };
        self.accept(doing, answer).map(drop)
    }
}

/// Version 1 has a command of many lines for each program.
fn commands(programs: &[Program], contact: &str) -> String {
    let mut text = String::new();
    for (index, program) in programs.iter().enumerate() {
        let (total, so_far) = (programs.len(), index + 1);
        let (name, arguments) = program.command.split_first().unzip();
        let (name, arguments) = (name.map_or("", String::as_str), arguments.unwrap_or_default());
        let processes = program.processes;
        text += &format!(
            "mcmd=spawn\nnprocs={processes}\nexecname={name}\ntotspawns={total}\nspawnssofar={so_far}\nargcnt={}\n",
            arguments.len()
        );
        for (number, argument) in (1..).zip(arguments) {
            text += &format!("arg{number}={argument}\n");
        }
        text += &format!("preput_num=1\npreput_key_0={CONTACT}\npreput_val_0={contact}\ninfo_num=0\nendcmd\n");
    }
    text
}

/// Version 2 has one for all.
fn command(programs: &[Program], contact: &str) -> Message {
    let mut request = Message::new("spawn")
        .with("ncmds", programs.len())
        .with("preputcount", 1)
        .with("ppkey0", CONTACT)
        .with("ppval0", contact);
    for program in programs {
        let (name, arguments) = program.command.split_first().unzip();
        let arguments = arguments.unwrap_or_default();
        request = request
            .with("subcmd", name.map_or("", String::as_str))
            .with("maxprocs", program.processes)
            .with("argc", arguments.len());
        for (number, argument) in arguments.iter().enumerate() {
            request = request.with(&format!("argv{number}"), argument);
        }
        request = request.with("infokeycount", 0);
    }
    request
}

impl Spawner for Pmi {
    fn spawn(&mut self, programs: &[Program], by: &str, _home: &Home) -> Result<u32, BootstrapError> {
        let doing = "spawning processes";
        for (app, program) in programs.iter().enumerate() {
            for word in &program.command {
                if word.len() > MAX_WORD {
                    let cause = Cause::Argument(format!("an argument has more than {MAX_WORD} bytes"));
                    return Err(BootstrapError::new(self.launcher, doing, cause));
                }
                let request = Message::new("spawn_word")
                    .with("app", app)
                    .with("word", to_hex(word.as_bytes()));
                self.ask(doing, &request, "spawn_word_result")?;
            }
        }
        let counts: Vec<String> = programs.iter().map(|program| program.processes.to_string()).collect();
        let request = Message::new("spawn").with("counts", counts.join(",")).with("by", by);
        let answer = self.ask(doing, &request, "spawn_result")?;
        answer
            .number("first")
            .ok_or_else(|| self.unexpected(doing, "the number of a process".into(), &answer))
    }

    fn get_of(&mut self, process: u32, key: &str) -> Result<Vec<u8>, BootstrapError> {
        let doing = format!("getting '{key}' of process {process}");
        let request = Message::new("get_of").with("process", process).with("key", key);
        let answer = self.ask(&doing, &request, "get_of_result")?;
        let value = answer.get("value").and_then(from_hex);
        value.ok_or_else(|| self.unexpected(&doing, "a value in hexadecimal digits".into(), &answer))
    }
}

impl Names for Pmi {
    fn publish(&mut self, name: &str, text: &str) -> Result<(), BootstrapError> {
        let request = Message::new("publish_name")
            .with("service", to_hex(name.as_bytes()))
            .with("port", to_hex(text.as_bytes()));
        self.ask(&format!("publishing '{name}'"), &request, "publish_result")
            .map(drop)
    }

    fn look_up(&mut self, name: &str) -> Result<String, BootstrapError> {
        let doing = format!("looking up '{name}'");
        let request = Message::new("lookup_name").with("service", to_hex(name.as_bytes()));
        let answer = self.ask(&doing, &request, "lookup_result")?;
        let text = answer.get("port").and_then(from_hex).map(String::from_utf8);
        match text {
            Some(Ok(text)) => Ok(text),
            _ => Err(self.unexpected(&doing, "a text in hexadecimal digits".into(), &answer)),
        }
    }

    fn unpublish(&mut self, name: &str) -> Result<(), BootstrapError> {
        let request = Message::new("unpublish_name").with("service", to_hex(name.as_bytes()));
        self.ask(&format!("withdrawing '{name}'"), &request, "unpublish_result")
            .map(drop)
    }
}

/// Local rank and size from the launcher's other variables.
pub(super) fn local(environment: &Environment) -> Option<(u32, u32)> {
    let number = |name: &str| environment.get(name)?.parse().ok();
    let hydra = Option::zip(number("MPI_LOCALRANKID"), number("MPI_LOCALNRANKS"));
    let slurm = || {
        let one_host = number("SLURM_STEP_NUM_NODES") == Some(1);
        Option::zip(number("SLURM_LOCALID"), number("SLURM_STEP_NUM_TASKS")).filter(|_| one_host)
    };
    let ours = || Option::zip(number(names::LOCAL_RANK), number(names::LOCAL_SIZE));
    hydra.or_else(slurm).or_else(ours)
}
