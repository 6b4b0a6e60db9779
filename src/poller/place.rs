//! Where a poller's socket is, and that nobody else has it.

use std::{
    env, fs,
    io::{self, ErrorKind},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
            net::{SocketAddr as UnixAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    process::geteuid,
};

use super::{PollerOptions, StartError};

/// Name of the socket in the folder for it.
const NAME: &str = "hikyaku-poller";
/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// Where the socket is if nothing is said: `hikyaku-poller` in `$XDG_RUNTIME_DIR`, or in `/tmp/hikyaku-<user>`, which is
/// made. No other user can make a file there.
///
/// # Errors
/// Neither folder is ours alone.
pub fn default_socket() -> Result<PathBuf, StartError> {
    let user = geteuid().as_raw();
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    socket_in(session.as_deref(), &env::temp_dir().join(format!("hikyaku-{user}")))
}

/// In the first folder, if it is ours alone; else in the second one, which is made if there is none.
fn socket_in(first: Option<&Path>, second: &Path) -> Result<PathBuf, StartError> {
    if let Some(first) = first.filter(|path| path.is_absolute() && check_folder(path).is_ok()) {
        return Ok(first.join(NAME));
    }
    let failed = |source| StartError::Folder {
        path: second.to_owned(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(second) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => check_folder(second).map_err(failed)?,
    }
    Ok(second.join(NAME))
}

/// It is a folder (no link to one), belongs to us, and others can not use it.
fn check_folder(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let wrong = if !found.is_dir() {
        "it is no folder"
    } else if found.uid() != geteuid().as_raw() {
        "it belongs to another user"
    } else if found.mode() & OTHERS != 0 {
        "other users can use it"
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, wrong))
}

/// One poller has a socket: the lock goes with the process, however it ends, and its file if it is not killed.
pub(super) struct Lock {
    path: PathBuf,
    /// Locked.
    _file: fs::File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Who has opened it meanwhile finds that it is not there any more: `lock_socket`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Keeps other pollers from the socket.
pub(super) fn lock_socket(options: &PollerOptions) -> Result<Lock, StartError> {
    let mut path = options.socket.clone().into_os_string();
    path.push(".lock");
    let path = PathBuf::from(path);
    let failed = |source| StartError::Socket {
        path: options.socket.clone(),
        source,
    };
    // Where others may make files it could be a link to one of ours.
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    loop {
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StartError::Running {
                    path: options.socket.clone(),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        // One that was removed between the two keeps nobody away.
        let ours = file.metadata().map_err(failed)?;
        let there = fs::symlink_metadata(&path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Lock { path, _file: file });
        }
    }
}

/// One poller of a network namespace has a device: a name that goes with the process.
pub(super) fn lock_device(options: &PollerOptions) -> Result<UnixListener, StartError> {
    let name = format!("hikyaku-poller {}", options.dpdk.device);
    let taken = |source: io::Error| match source.kind() {
        ErrorKind::AddrInUse => StartError::DeviceTaken {
            device: options.dpdk.device.to_string(),
        },
        _ => StartError::System {
            doing: "locking the device",
            source,
        },
    };
    // Names have 107 octets.
    let end = name.len().min(107);
    let address = UnixAddr::from_abstract_name(&name.as_bytes()[name.len() - end..]).map_err(taken)?;
    UnixListener::bind_addr(&address).map_err(taken)
}

/// The socket, for the owner only. One that a killed poller has left behind is removed; nothing else is.
pub(super) fn listen(options: &PollerOptions) -> Result<UnixListener, StartError> {
    let path = &options.socket;
    let failed = |source| StartError::Socket {
        path: path.clone(),
        source,
    };
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(failed(ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // (Who comes before that is refused by who it is.)
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::symlink,
        process,
        sync::atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::backends::dpdk::{Device, DpdkOptions};

    /// A folder for a test, that is ours alone.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("hikyaku-place-{}-{number}", process::id()));
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn options(socket: PathBuf) -> PollerOptions {
        let dpdk = DpdkOptions::new(Device::parse("net_null99").unwrap());
        PollerOptions::new(dpdk, "10.99.0.1".parse().unwrap(), socket)
    }

    #[test]
    fn sockets_are_in_folders_of_ones_own() {
        let folder = Folder::new();
        let second = folder.0.join("second");
        assert_eq!(socket_in(Some(&folder.0), &second).unwrap(), folder.0.join(NAME));
        assert!(!second.exists(), "it was not needed");
        // Others may use it, it is a link, it is not there, it is named from somewhere.
        let open = folder.0.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o711)).unwrap();
        let link = folder.0.join("link");
        symlink(&folder.0, &link).unwrap();
        for wrong in [&*open, &*link, &*folder.0.join("nowhere"), Path::new("relative")] {
            assert_eq!(socket_in(Some(wrong), &second).unwrap(), second.join(NAME), "{wrong:?}");
        }
        assert_eq!(fs::metadata(&second).unwrap().mode() & 0o777, 0o700);
        for wrong in [&open, &link] {
            let error = socket_in(None, wrong).unwrap_err();
            assert!(matches!(error, StartError::Folder { .. }), "{error}");
        }
    }

    #[test]
    fn a_lock_is_no_link() {
        let folder = Folder::new();
        let (socket, target) = (folder.0.join("p"), folder.0.join("target"));
        symlink(&target, folder.0.join("p.lock")).unwrap();
        let error = lock_socket(&options(socket.clone())).err().unwrap();
        assert!(matches!(error, StartError::Socket { .. }), "{error}");
        assert!(!target.exists(), "a file was made where the link leads");
        fs::remove_file(folder.0.join("p.lock")).unwrap();
        let lock = lock_socket(&options(socket.clone())).unwrap();
        assert_eq!(fs::metadata(folder.0.join("p.lock")).unwrap().mode() & 0o777, 0o600);
        drop(lock);
    }

    #[test]
    fn only_sockets_are_replaced() {
        let folder = Folder::new();
        let socket = folder.0.join("p");
        fs::write(&socket, "years of work").unwrap();
        let error = listen(&options(socket.clone())).unwrap_err();
        assert!(matches!(error, StartError::Socket { .. }), "{error}");
        assert_eq!(fs::read(&socket).unwrap(), b"years of work");
        fs::remove_file(&socket).unwrap();
        drop(listen(&options(socket.clone())).unwrap());
        drop(listen(&options(socket)).unwrap());
    }
}
