//! The store of a job, through which its processes find each other.

use super::{error::BootstrapError, news::News};

/// Longest key, in characters.
pub const MAX_KEY: usize = 32;
/// Longest value, in bytes: PMI's 1,024 characters hold their hexadecimal form.
pub const MAX_VALUE: usize = 511;

/// The store that all processes of a job share, as a launcher offers it.
pub(super) trait Exchange: Send {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError>;
    fn fence(&mut self) -> Result<(), BootstrapError>;
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError>;
    /// The values that each of `size` ranks has put under `key`.
    fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, BootstrapError> {
        (0..size).map(|rank| self.get(rank, key)).collect()
    }
    fn finalize(&mut self) -> Result<(), BootstrapError>;
    /// Where failed ranks are reported, if the job goes on without them.
    fn news(&self) -> Option<&News> {
        None
    }
    /// Tells the launcher to end the job.
    fn abort(&mut self, code: u8, message: &str);
}
