//! A directory of this user's own for as long as the job takes.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::mkdtemp;

/// Only its owner may look into it (mode 0700). It goes away with this.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Below `XDG_RUNTIME_DIR`, or else where temporary files are.
    pub(super) fn new() -> io::Result<Self> {
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let base = runtime.filter(|path| path.is_absolute() && path.is_dir());
        let base = base.unwrap_or_else(env::temp_dir);
        Ok(Self(mkdtemp(&base.join("hikyaku-run-XXXXXX"))?))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // It may have been taken away.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_gets_in_and_nothing_stays() {
        let dir = PrivateDir::new().unwrap();
        let path = dir.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("socket"), "").unwrap();
        drop(dir);
        assert!(!path.exists());
    }
}
