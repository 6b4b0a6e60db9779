//! Limits of the system that a large job meets: raised where that is allowed, and named where not.

use std::io;

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Descriptors of an agent for each rank: both outputs, the connection to the wire-up server and that for news, and one
/// more for connections that have not shown the ticket yet.
const PER_RANK: u64 = 5;
/// Besides: the pipes of the rank that is being started, standard streams, spare places of the wire-up server.
const BESIDES: u64 = 96;

/// How many files this process may open, and might open at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files {
    soft: u64,
    hard: u64,
}

impl Files {
    pub(super) fn now() -> io::Result<Self> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        Ok(Self { soft, hard })
    }

    /// Lets this process open as many files as `ranks` ranks need.
    pub(super) fn allow(self, ranks: usize) -> Result<(), String> {
        let needed = ranks as u64 * PER_RANK + BESIDES;
        let Self { soft, hard } = self;
        if needed <= soft {
            return Ok(());
        }
        if needed > hard {
            return Err(format!(
                "{ranks} ranks on this host need {needed} open files of their agent, which may have {hard} (RLIMIT_NOFILE): \
                 raise that with `ulimit -n` there, or use fewer ranks on a host"
            ));
        }
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
            .map_err(|errno| format!("raising RLIMIT_NOFILE from {soft} to {needed}: {errno}"))
    }

    /// Gives a process that is being started the limit that this one had. Only a system call.
    pub(super) fn restore(self) -> io::Result<()> {
        Ok(setrlimit(Resource::RLIMIT_NOFILE, self.soft, self.hard)?)
    }
}

/// Why a process could not be started, with the limit that it has met.
pub(super) fn named(error: &io::Error) -> String {
    let limit = |resource| match getrlimit(resource) {
        Ok((soft, _)) => soft.to_string(),
        Err(_) => "unknown".to_owned(),
    };
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => format!(
            "{error}: no more processes can be started here; RLIMIT_NPROC is {} (`ulimit -u`), and pids.max of the control \
             group and kernel.pid_max limit them too",
            limit(Resource::RLIMIT_NPROC)
        ),
        Some(Errno::EMFILE | Errno::ENFILE) => format!(
            "{error}: RLIMIT_NOFILE is {} (`ulimit -n`), and fs.file-max limits the whole system",
            limit(Resource::RLIMIT_NOFILE)
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_had_is_named() {
        let files = Files { soft: 64, hard: 512 };
        let error = files.allow(200).unwrap_err();
        assert!(
            error.contains("200 ranks on this host need 1096") && error.contains("512 (RLIMIT_NOFILE)"),
            "{error}"
        );
        let enough = Files { soft: 512, hard: 512 };
        assert_eq!(enough.allow(83), Ok(()));
        let error = named(&io::Error::from(Errno::EAGAIN));
        assert!(error.contains("RLIMIT_NPROC is "), "{error}");
    }
}
