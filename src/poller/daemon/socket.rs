//! The location of a poller's socket, and its locks.

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

use super::{error::StartError, options::PollerOptions};
use crate::{backends::dpdk::Device, environment::Environment};

/// Name of the socket in the folder for it.
const NAME: &str = "hikyaku-poller";
/// Mode bits that give access to other users.
const OTHERS: u32 = 0o077;

/// The default path of the socket: `hikyaku-poller` in `$XDG_RUNTIME_DIR`, or in `/tmp/hikyaku-<user>`, which is
/// created. No other user can create a file there.
///
/// # Errors
/// Other users can use both folders, or neither can be created.
pub fn default_socket(environment: &Environment) -> Result<PathBuf, StartError> {
    let user = geteuid().as_raw();
    let session = environment.path("XDG_RUNTIME_DIR");
    socket_in(session, &env::temp_dir().join(format!("hikyaku-{user}")))
}

/// In the first folder, if only this user can use it; otherwise in the second one, which is created if it does not
/// exist.
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

/// Checks that it is a folder (no link to one), belongs to this user, and is closed to others.
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

/// Ensures that a socket has one poller: the lock is released when the process ends, in whatever way; its file is
/// removed unless the process is killed.
pub(super) struct Lock {
    path: PathBuf,
    /// Holds the lock.
    _file: fs::File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that has opened the file meanwhile notices that it is gone: see `lock_socket`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks the socket against other pollers.
pub(super) fn lock_socket(options: &PollerOptions) -> Result<Lock, StartError> {
    let mut path = options.socket.clone().into_os_string();
    path.push(".lock");
    let path = PathBuf::from(path);
    let failed = |source| StartError::Socket {
        path: options.socket.clone(),
        source,
    };
    // Where others may create files, it could be a link to one of this user's.
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
        // If the file was removed between the two calls, its lock means nothing.
        let ours = file.metadata().map_err(failed)?;
        let there = fs::symlink_metadata(&path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok(Lock { path, _file: file });
        }
    }
}

/// Ensures that a device has one poller per network namespace: an abstract socket name, which goes with the process.
pub(super) fn lock_device(device: &Device) -> Result<UnixListener, StartError> {
    let name = format!("hikyaku-poller {device}");
    let taken = |source: io::Error| match source.kind() {
        ErrorKind::AddrInUse => StartError::DeviceTaken {
            device: device.to_string(),
        },
        _ => StartError::System {
            doing: "locking the device",
            source,
        },
    };
    // Abstract names have at most 107 bytes.
    let end = name.len().min(107);
    let address = UnixAddr::from_abstract_name(&name.as_bytes()[name.len() - end..]).map_err(taken)?;
    UnixListener::bind_addr(&address).map_err(taken)
}

/// Listens on the socket, for the owner only. Removes a socket that a killed poller has left behind, and nothing else.
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
    // (A process that connects before that is refused by its user.)
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
    use crate::backends::dpdk::DpdkOptions;

    /// A folder for a test, closed to other users.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("hikyaku-socket-{}-{number}", process::id()));
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
        // Not the first folder if others may use it, if it is a link, does not exist, or has a relative path.
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
