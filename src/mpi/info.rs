//! Info objects: hints by name (MPI 10).

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};

/// Names with their values, in the order in which they were set first. An interface limits their lengths
/// (`MPI_MAX_INFO_KEY`, `MPI_MAX_INFO_VAL`). A clone is `MPI_Info_dup`.
///
/// ```
/// use hikyaku::mpi::info::Info;
///
/// let mut info = Info::default();
/// info.set("wdir", "/tmp");
/// assert_eq!(info.get("wdir"), Some("/tmp"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(Vec<(String, String)>);

impl Info {
    /// The arguments and the place of a process (`MPI_INFO_ENV`, MPI 11.2.4): `command`, `argv`, `maxprocs` and
    /// `thread_level` are those keys that are known everywhere.
    #[must_use]
    pub fn of_process(arguments: impl IntoIterator<Item = String>, processes: u32, thread_level: &str) -> Self {
        let mut info = Self::default();
        let mut arguments = arguments.into_iter();
        if let Some(command) = arguments.next() {
            info.set("command", &command);
        }
        info.set("argv", &arguments.collect::<Vec<_>>().join(" "));
        info.set("maxprocs", &processes.to_string());
        info.set("thread_level", thread_level);
        info
    }

    /// Sets a value, in place of an old one (`MPI_Info_set`).
    pub fn set(&mut self, key: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, place)) => value.clone_into(place),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
    }

    /// A value (`MPI_Info_get_string`).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Removes a value, and returns whether there was one (`MPI_Info_delete`).
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != key);
        self.0.len() < before
    }

    /// Number of names (`MPI_Info_get_nkeys`).
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name with this number (`MPI_Info_get_nthkey`).
    #[must_use]
    pub fn key(&self, number: usize) -> Option<&str> {
        self.0.get(number).map(|(key, _)| key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order() {
        let mut info = Info::default();
        assert!(info.is_empty());
        for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
            info.set(key, value);
        }
        let copy = info.clone();
        assert_eq!(
            (info.len(), info.key(0), info.key(1), info.key(2)),
            (2, Some("a"), Some("b"), None)
        );
        assert_eq!((info.get("a"), info.get("A")), (Some("3"), None));
        assert!(info.remove("a") && !info.remove("a"));
        assert_eq!((info.key(0), copy.get("a")), (Some("b"), Some("3")));
    }

    #[test]
    fn processes_say_what_they_are() {
        let arguments = ["./a.out", "-x", "1"].map(ToOwned::to_owned);
        let info = Info::of_process(arguments, 4, "MPI_THREAD_MULTIPLE");
        let said = ["command", "argv", "maxprocs", "thread_level"].map(|key| info.get(key).unwrap());
        assert_eq!(said, ["./a.out", "-x 1", "4", "MPI_THREAD_MULTIPLE"]);
    }
}
