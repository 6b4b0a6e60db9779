//! Errors of the interface of tools.

use crate::abi::Encoding;

/// Why a function of tools has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    NotInitialized,
    /// `MPI_T_ERR_INVALID`.
    Invalid,
    /// `MPI_T_ERR_INVALID_INDEX`.
    Index,
    /// `MPI_T_ERR_INVALID_SESSION`.
    Session,
    /// `MPI_T_ERR_INVALID_HANDLE`.
    Handle,
    /// `MPI_T_ERR_INVALID_NAME`.
    Name,
    /// `MPI_T_ERR_CVAR_SET_NEVER`.
    SetNever,
    /// `MPI_T_ERR_PVAR_NO_WRITE`.
    NoWrite,
    /// `MPI_T_ERR_PVAR_NO_STARTSTOP`.
    NoStartStop,
}

/// What a body returns.
pub(crate) type Told = Result<(), Trouble>;

/// All of them, with their numbers in the standard's ABI and MPICH's, and in words.
const ALL: [(Trouble, [i32; 2], &str); 9] = [
    (
        Trouble::NotInitialized,
        [1003, 60],
        "MPI_T_ERR_NOT_INITIALIZED: the interface of tools has not begun",
    ),
    (
        Trouble::Invalid,
        [1006, 74],
        "MPI_T_ERR_INVALID: a place for a result is missing",
    ),
    (
        Trouble::Index,
        [1007, 62],
        "MPI_T_ERR_INVALID_INDEX: nothing has this index",
    ),
    (
        Trouble::Session,
        [1009, 67],
        "MPI_T_ERR_INVALID_SESSION: there is no such session of tools",
    ),
    (
        Trouble::Handle,
        [1010, 64],
        "MPI_T_ERR_INVALID_HANDLE: the handle is of nothing: it was freed, or never was one",
    ),
    (
        Trouble::Name,
        [1011, 73],
        "MPI_T_ERR_INVALID_NAME: nothing has this name",
    ),
    (
        Trouble::SetNever,
        [1015, 69],
        "MPI_T_ERR_CVAR_SET_NEVER: settings stand since the process began",
    ),
    (
        Trouble::NoWrite,
        [1016, 71],
        "MPI_T_ERR_PVAR_NO_WRITE: counters cannot be written",
    ),
    (
        Trouble::NoStartStop,
        [1017, 70],
        "MPI_T_ERR_PVAR_NO_STARTSTOP: counters always run",
    ),
];

/// The result for the program.
#[must_use]
pub fn end(encoding: &Encoding, told: Told) -> i32 {
    let Err(trouble) = told else { return 0 };
    let row = ALL.iter().find(|row| row.0 == trouble);
    row.map_or(0, |row| row.1[encoding.column])
}

/// An error in words, by the number that the program knows.
pub(crate) fn text(encoding: &Encoding, code: i32) -> Option<&'static str> {
    let row = ALL.iter().find(|row| row.1[encoding.column] == code);
    row.map(|row| row.2)
}
