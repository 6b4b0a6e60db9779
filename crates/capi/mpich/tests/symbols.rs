//! The library exports MPI's functions under both names, the constants that are data in this ABI, a
//! callback that `mpi.h` names, and nothing else.

#[path = "../../support/elf.rs"]
mod elf;

/// These have one name.
const DATA: &[&str] = &[
    "MPI_F08_STATUSES_IGNORE",
    "MPI_F08_STATUS_IGNORE",
    "MPI_F_STATUSES_IGNORE",
    "MPI_F_STATUS_IGNORE",
    "MPI_T_PVAR_ALL_HANDLES",
    "MPI_UNWEIGHTED",
    "MPI_WEIGHTS_EMPTY",
    "MPIR_Dup_fn",
];

#[test]
fn exports_are_those_of_the_abi() {
    elf::check("libmpich.so", include_str!("symbols.txt"), DATA);
}
