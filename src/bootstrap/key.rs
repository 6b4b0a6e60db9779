//! The job's key.

use std::{fmt, io, str::FromStr};

use rustix::{
    io::retry_on_intr,
    rand::{GetRandomFlags, getrandom},
};

use super::message::{from_hex, to_hex};

/// 128 random bits that all processes of a job share, and others do not.
///
/// The contact secret of sessions is derived from it (`Contact::of_job`), so that packets of other jobs are dropped.
/// `Debug` does not print it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKey([u8; 16]);

impl JobKey {
    /// A new key. Needs no file descriptor: a wire-up server may have none left.
    ///
    /// # Errors
    /// The operating system has no randomness (`getrandom`).
    pub fn random() -> io::Result<Self> {
        let mut key = [0; 16];
        let mut filled = 0;
        while filled < key.len() {
            filled += retry_on_intr(|| getrandom(&mut key[filled..], GetRandomFlags::empty()))?;
        }
        Ok(Self(key))
    }

    /// A key with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// As 32 hexadecimal digits. A process that has them can take part in the job.
    #[must_use]
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }
}

impl FromStr for JobKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = from_hex(text).ok_or(())?;
        bytes.try_into().map(Self).map_err(|_| ())
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_are_read_back() {
        let (one, other) = (JobKey::random().unwrap(), JobKey::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.to_hex().parse(), Ok(one));
        assert_eq!("12".parse::<JobKey>(), Err(()));
        assert_eq!(format!("{one:?}"), "JobKey(…)");
    }
}
