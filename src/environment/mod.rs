//! The environment of the process: read here, once, and handed on as a value to whatever has settings in it.
//!
//! [`VARIABLES`] lists every variable of this software, with its meaning, whatever this build contains. What a value
//! means is known to the part that the variable belongs to; that names are right is checked here, for all parts.

mod setting;
mod variables;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
};

#[cfg(feature = "mpi")]
pub(crate) use self::setting::Nanoseconds;
pub(crate) use self::setting::{Setting, parse, refuse};
pub use self::{
    setting::EnvironmentError,
    variables::{Part, VARIABLES, Variable},
};

/// The beginning of the names of all variables.
pub const PREFIX: &str = "HIKYAKU_";

/// A set of environment variables. Copies share it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Arc<BTreeMap<String, OsString>>,
}

impl fmt::Debug for Environment {
    /// The names: values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Environment {
    /// The variables of this process, as they were when it first asked. Variables whose names are not UTF-8 are left
    /// out.
    #[must_use]
    pub fn of_process() -> Self {
        static SNAPSHOT: OnceLock<Environment> = OnceLock::new();
        let read = || {
            let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
            Self {
                variables: Arc::new(env::vars_os().filter_map(named).collect()),
            }
        };
        SNAPSHOT.get_or_init(read).clone()
    }

    /// The value of a variable; an empty one counts as not set, and so does one that is not UTF-8.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.path(name)?.to_str()
    }

    /// The value of a variable as a path; an empty one counts as not set.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<&Path> {
        self.raw(name).filter(|value| !value.is_empty()).map(Path::new)
    }

    /// The value of a variable, empty or not; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.raw(name).map(OsStr::to_string_lossy)
    }

    fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str)
    }

    /// The setting of a variable, if it is set.
    pub(crate) fn setting<T: Setting>(&self, name: &'static str) -> Result<Option<T>, EnvironmentError> {
        self.text(name).map(|value| parse(name, &value)).transpose()
    }

    /// Checks that all names that begin with [`PREFIX`] are in [`VARIABLES`].
    ///
    /// # Errors
    /// The first name that is not, with the one that it is most like.
    pub fn check(&self) -> Result<(), EnvironmentError> {
        self.unknown().next().map_or(Ok(()), Err)
    }

    /// An error for each variable whose name begins with [`PREFIX`] and is not in [`VARIABLES`].
    pub fn unknown(&self) -> impl Iterator<Item = EnvironmentError> + '_ {
        let ours = self.variables.keys().filter(|name| name.starts_with(PREFIX));
        let unknown = ours.filter(|name| VARIABLES.iter().all(|variable| variable.name != name.as_str()));
        unknown.map(|name| EnvironmentError::Unknown {
            name: name.clone(),
            nearest: nearest(name),
        })
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let owned = variables.into_iter().map(|(name, value)| (name, value.into()));
        Self {
            variables: Arc::new(owned.collect()),
        }
    }
}

/// The setting with the most similar name.
fn nearest(name: &str) -> &'static str {
    let settings = VARIABLES.iter().filter(|variable| variable.part.is_for_users());
    let names = settings.map(|variable| variable.name);
    names
        .min_by_key(|candidate| distance(name, candidate))
        .unwrap_or("none")
}

/// Number of letters to change, add or remove to turn `a` into `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        variables.iter().map(owned).collect()
    }

    #[test]
    fn names_are_checked_for_all_parts() {
        let known = [
            ("PATH", "/bin"),
            ("HIKYAKU_SEED", "7"),
            ("HIKYAKU_TRACE", "/t"),
            ("HIKYAKU_DPDK_MTU", "9000"),
        ];
        assert_eq!(of(&known).check(), Ok(()));
        for (wrong, right) in [
            ("HIKYAKU_ACK_DELEY", "HIKYAKU_ACK_DELAY"),
            ("HIKYAKU_DPDK_MUT", "HIKYAKU_DPDK_MTU"),
            ("HIKYAKU_IFCAE", "HIKYAKU_IFACE"),
            ("HIKYAKU_ALREDUCE", "HIKYAKU_ALLREDUCE"),
        ] {
            let error = of(&[&known[..], &[(wrong, "1")]].concat()).check().unwrap_err();
            let expected = format!("the environment has {wrong}, which is no setting; did you mean {right}?");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn each_variable_has_one_line() {
        for (at, variable) in VARIABLES.iter().enumerate() {
            assert!(variable.name.starts_with(PREFIX), "{}", variable.name);
            assert!(
                !variable.meaning.is_empty() && !variable.takes.is_empty(),
                "{}",
                variable.name
            );
            assert!(
                VARIABLES[..at].iter().all(|other| other.name != variable.name),
                "{} twice",
                variable.name
            );
        }
    }

    #[test]
    fn empty_values_count_as_unset_where_that_is_asked() {
        let environment = of(&[("A", ""), ("B", "x")]);
        assert_eq!((environment.get("A"), environment.get("B")), (None, Some("x")));
        assert_eq!(environment.text("A").as_deref(), Some(""));
        assert_eq!(environment.path("B"), Some(Path::new("x")));
    }

    #[test]
    fn values_are_not_printed() {
        let environment = of(&[("HIKYAKU_JOB_KEY", "secret")]);
        assert_eq!(format!("{environment:?}"), r#"{"HIKYAKU_JOB_KEY"}"#);
    }

    #[test]
    fn it_is_read_once() {
        let (one, two) = (Environment::of_process(), Environment::of_process());
        assert!(Arc::ptr_eq(&one.variables, &two.variables));
    }
}
