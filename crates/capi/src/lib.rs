//! MPI's C functions over [`hikyaku::mpi`], written once for both of MPI's binary interfaces.
//!
//! Two small packages make shared libraries of it: `hikyaku-capi-abi` is `libmpi_abi.so.1` (the standard's ABI), and
//! `hikyaku-capi-mpich` is `libmpi.so.12` (MPICH's ABI). Each consists of one call of [`export!`].
//!
//! - [`abi`]: how each ABI writes handles, constants and statuses.
//! - [`border`]: arguments as C gives them, and as the bodies of functions get them.
//! - [`objects`]: what handles stand for.
//! - [`calls`]: the functions. Each file has those of one chapter: a table, and below it the bodies. A line of the table
//!   is name, body, and types of the arguments; `+ c` says that there is also a function whose counts are `MPI_Count`.
//!
//! Nothing here is for Rust programs: these use `hikyaku-mpi`.

pub mod abi;
pub mod border;
pub mod calls;
mod errors;
mod functions;
pub mod objects;
mod process;
