//! Reads traces (`docs/tracing.md`).

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The version of the format that this reads.
const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    /// The program that wrote it: `hikyaku`.
    trace: String,
    version: u32,
    /// The rank.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Name of its host.
    pub host: String,
    /// When it began, on the clock of all times in it, ns.
    pub time: u64,
    /// The same on the wall clock, since 1970.
    pub unix: u64,
}

/// A status: number of the request, source, tag, bytes; `true` if it was cancelled.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "RawStatus")]
pub struct Status {
    /// Number of the request.
    pub request: u64,
    /// Where the message came from.
    pub source: i32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub bytes: u64,
    /// It was cancelled.
    pub cancelled: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawStatus {
    Ended((u64, i32, i32, u64)),
    Cancelled((u64, i32, i32, u64, bool)),
}

impl From<RawStatus> for Status {
    fn from(raw: RawStatus) -> Self {
        let (request, source, tag, bytes, cancelled) = match raw {
            RawStatus::Ended((request, source, tag, bytes)) => (request, source, tag, bytes, false),
            RawStatus::Cancelled(all) => all,
        };
        Self {
            request,
            source,
            tag,
            bytes,
            cancelled,
        }
    }
}

/// A communicator.
#[derive(Clone, Debug, Deserialize)]
pub struct Made {
    /// Its context.
    pub context: u32,
    /// Processes of its ranks.
    pub group: Vec<u32>,
    /// Those of the other group, if it is between two.
    pub remote: Option<Vec<u32>>,
}

/// A line about a call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Call {
    /// The line of the file.
    #[serde(skip)]
    pub line: usize,
    /// Its name in MPI.
    pub call: String,
    /// When it began, ns.
    pub begin: u64,
    /// When it ended, ns.
    pub end: u64,
    /// The communicator that it was called on.
    pub context: u32,
    /// The thread that called it.
    pub thread: u64,
    /// Further looks that found nothing.
    pub looks: u64,
    /// The other rank, or the root, as the program gave it.
    pub peer: Option<i32>,
    /// The tag, as the program gave it.
    pub tag: Option<i32>,
    /// Elements of the message, or of this rank's vector or block.
    pub count: u64,
    /// Bytes of the same.
    #[serde(alias = "octets")]
    pub bytes: u64,
    /// Bytes of each block that a collective sends; one number if all are alike.
    pub sent: Vec<u64>,
    /// The same of blocks received.
    pub received: Vec<u64>,
    /// Ranks of a neighbourhood that this one receives from.
    pub sources: Vec<i32>,
    /// Those that it sends to; also: of a group that is given.
    pub destinations: Vec<i32>,
    /// Requests, or the matched message, that it is about.
    pub requests: Vec<u64>,
    /// The number of what it has begun.
    pub request: Option<u64>,
    /// The requests that ended with it.
    pub ended: Vec<Status>,
    /// The communicator that it made.
    pub made: Option<Made>,
    /// The class of its error.
    pub error: Option<String>,
    /// Kind of its elements.
    pub kind: Option<String>,
    /// The operation of a reduction.
    pub operation: Option<String>,
    /// Where in the target's window, and the like.
    pub displacement: Option<i64>,
    /// The kind of lock.
    pub lock: Option<String>,
    /// Partitions of the message.
    pub partitions: Option<u32>,
    /// Partitions that became ready.
    pub ready: Vec<u32>,
}

impl Call {
    /// How long it took, ns.
    pub fn nanos(&self) -> u64 {
        self.end - self.begin
    }

    /// Bytes of its own buffers: what was received, or else what it was called with.
    pub fn volume(&self) -> u64 {
        let received = self.ended.iter().map(|status| status.bytes).sum();
        let blocks = |blocks: &[u64]| blocks.iter().sum::<u64>();
        match self.call.as_str() {
            "MPI_Recv" | "MPI_Mrecv" => received,
            _ if self.bytes > 0 => self.bytes,
            _ => blocks(&self.sent).max(blocks(&self.received)),
        }
    }
}

/// The last line.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Footer {
    time: u64,
}

/// The trace of one rank.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// The first line.
    pub header: Header,
    /// In the order in which they began.
    pub calls: Vec<Call>,
    /// When it ended, on the clock of its calls.
    end: u64,
}

impl Trace {
    /// From the beginning of MPI to its end, ns.
    pub fn run_time(&self) -> u64 {
        self.end.saturating_sub(self.header.time)
    }

    /// Nanoseconds of the wall clock.
    pub fn wall(&self, time: u64) -> u64 {
        self.header.unix + time.saturating_sub(self.header.time)
    }
}

/// Why there is nothing to show.
#[derive(Debug)]
pub enum TraceError {
    /// A file or directory cannot be read.
    Read(PathBuf, io::Error),
    /// A directory without traces.
    Nothing(PathBuf),
    /// The first line is not that of a trace.
    Header(PathBuf, serde_json::Error),
    /// It is no trace of ours, or of another version: its own name and version.
    Foreign(PathBuf, String, u32),
    /// It is not of the same job as the first one: the field that differs.
    Job(PathBuf, String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, source) => write!(f, "reading {}: {source}", path.display()),
            Self::Nothing(path) => write!(
                f,
                "{}: there is no rank-N.jsonl; HIKYAKU_TRACE={} makes programs write them",
                path.display(),
                path.display()
            ),
            Self::Header(path, source) => {
                write!(f, "{}, line 1: this is no trace of hikyaku: {source}", path.display())
            }
            Self::Foreign(path, trace, version) => write!(
                f,
                "{}, line 1: this is a trace of {trace}, version {version}; this command reads hikyaku, version {VERSION}",
                path.display()
            ),
            Self::Job(path, problem) => write!(f, "{}, line 1: {problem}", path.display()),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, source) => Some(source),
            Self::Header(_, source) => Some(source),
            Self::Nothing(_) | Self::Foreign(..) | Self::Job(..) => None,
        }
    }
}

/// Something that the result lacks.
#[derive(Debug, PartialEq, Eq)]
pub struct Warning(String);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The traces at these paths, by rank, and what is wrong with them.
pub fn read(paths: &[PathBuf]) -> Result<(Vec<Trace>, Vec<Warning>), TraceError> {
    let (mut traces, mut warnings) = (Vec::<Trace>::new(), Vec::new());
    for path in paths {
        for file in files(path)? {
            let fail = |source| TraceError::Read(file.clone(), source);
            // What is no text is found, and its line told, where it is parsed.
            let bytes = fs::read(&file).map_err(fail)?;
            let (trace, warning) = parse(&file, &String::from_utf8_lossy(&bytes))?;
            belongs(&file, &trace, &traces)?;
            traces.push(trace);
            warnings.extend(warning);
        }
    }
    traces.sort_by_key(|trace| trace.header.rank);
    Ok((traces, warnings))
}

fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let fail = |source| TraceError::Read(path.to_owned(), source);
    if !fs::metadata(path).map_err(fail)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("rank-") && name.ends_with(".jsonl") {
            files.push(path.join(&*name));
        }
    }
    if files.is_empty() {
        return Err(TraceError::Nothing(path.to_owned()));
    }
    files.sort();
    Ok(files)
}

/// Whether it is a further rank of the same job.
fn belongs(path: &Path, trace: &Trace, others: &[Trace]) -> Result<(), TraceError> {
    let (rank, size) = (trace.header.rank, trace.header.size);
    let other = others.first().map_or(size, |other| other.header.size);
    let problem = if size != other {
        format!("this is of a job of {size} ranks, and another file of one of {other}; is it left from an earlier run?")
    } else if rank >= size {
        format!("this is rank {rank} of {size}, which there is not")
    } else if others.iter().any(|other| other.header.rank == rank) {
        format!("rank {rank} is there twice")
    } else {
        return Ok(());
    };
    Err(TraceError::Job(path.to_owned(), problem))
}

/// One trace, as far as it is whole.
pub fn parse(path: &Path, text: &str) -> Result<(Trace, Option<Warning>), TraceError> {
    let mut lines = (1..).zip(text.lines());
    let first = lines.next().map_or("", |(_, line)| line);
    let header: Header = serde_json::from_str(first).map_err(|source| TraceError::Header(path.to_owned(), source))?;
    if (header.trace.as_str(), header.version) != ("hikyaku", VERSION) {
        return Err(TraceError::Foreign(path.to_owned(), header.trace, header.version));
    }
    let (mut calls, mut end, mut warning) = (Vec::new(), None, None);
    for (number, line) in lines {
        match parse_line(line) {
            Ok(Line::Call(call)) => calls.push(Call { line: number, ..*call }),
            Ok(Line::Footer(footer)) => end = Some(footer.time),
            Err(problem) => {
                warning = Some(format!(
                    "{}, line {number}: {problem}; the {} calls before it are shown",
                    path.display(),
                    calls.len()
                ));
                break;
            }
        }
    }
    if end.is_none() && warning.is_none() {
        warning = Some(format!(
            "{} has no last line: the rank has not finalised; what it has written before, {} calls, is shown",
            path.display(),
            calls.len()
        ));
    }
    let last = calls.iter().map(|call| call.end).max().unwrap_or(header.time);
    calls.sort_by_key(|call| call.begin);
    let trace = Trace {
        path: path.to_owned(),
        header,
        calls,
        end: end.unwrap_or(last),
    };
    Ok((trace, warning.map(Warning)))
}

enum Line {
    Call(Box<Call>),
    Footer(Footer),
}

fn parse_line(line: &str) -> Result<Line, String> {
    if line.starts_with("{\"calls\"") {
        let footer = serde_json::from_str(line).map_err(|error| error.to_string())?;
        return Ok(Line::Footer(footer));
    }
    let call: Call = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if call.call.is_empty() {
        return Err("this is no call".to_owned());
    }
    if call.end < call.begin {
        return Err(format!("{} ends before it begins", call.call));
    }
    Ok(Line::Call(Box::new(call)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"trace":"hikyaku","version":1,"rank":1,"size":2,"host":"h","time":5,"unix":1000}"#;
    const CALL: &str = r#"{"call":"MPI_Recv","begin":10,"end":30,"context":0,"peer":-1,"tag":3,"ended":[[0,1,3,8]]}"#;
    const FOOTER: &str = r#"{"calls":1,"time":40}"#;

    fn parsed(lines: &[&str]) -> Result<(Trace, Option<Warning>), String> {
        parse(Path::new("t"), &lines.join("\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_trace() {
        let (trace, warning) = parsed(&[HEADER, CALL, FOOTER]).unwrap();
        assert_eq!((warning, trace.run_time(), trace.wall(10)), (None, 35, 1005));
        let call = &trace.calls[0];
        assert_eq!((call.peer, call.volume(), call.nanos()), (Some(-1), 8, 20));
        assert!(!call.ended[0].cancelled);
    }

    #[test]
    fn what_is_before_the_damage_is_shown() {
        for (lines, said) in [
            (vec![HEADER, CALL], "no last line"),
            (vec![HEADER, CALL, r#"{"call":"MPI_Se"#], "t, line 3: "),
            (vec![HEADER, CALL, "{}", FOOTER], "t, line 3: this is no call"),
            (
                vec![HEADER, CALL, r#"{"call":"MPI_Send","begin":3,"end":2}"#],
                "MPI_Send ends before it begins",
            ),
            (vec![HEADER, CALL, r#"{"call":"MPI_Send","begin":-3}"#], "t, line 3: "),
        ] {
            let (trace, warning) = parsed(&lines).unwrap();
            assert_eq!(trace.calls.len(), 1);
            let warning = warning.unwrap().to_string();
            assert!(warning.contains(said) && warning.contains("1 calls"), "{warning}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for (line, said) in [
            ("", "t, line 1: this is no trace"),
            ("hello", "t, line 1: this is no trace"),
            (&HEADER.replace("\"version\":1", "\"version\":7"), "version 7"),
            (&HEADER.replace("\"hikyaku\"", "\"other\""), "a trace of other"),
        ] {
            let error = parsed(&[line]).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn ranks_of_one_job_belong_together() {
        let (trace, _) = parsed(&[HEADER]).unwrap();
        let with = |rank, size| {
            let mut other = trace.clone();
            (other.header.rank, other.header.size) = (rank, size);
            belongs(Path::new("t"), &trace, &[other]).map_err(|error| error.to_string())
        };
        assert!(with(0, 2).is_ok());
        assert!(with(0, 4).unwrap_err().contains("a job of 2 ranks"));
        assert!(with(1, 2).unwrap_err().contains("twice"));
    }
}
