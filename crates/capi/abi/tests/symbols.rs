//! The library exports MPI's functions under both names, and nothing else.

#[path = "../../support/elf.rs"]
mod elf;

#[test]
fn exports_are_those_of_the_abi() {
    elf::check("libmpi_abi.so", include_str!("symbols.txt"), &[]);
}
