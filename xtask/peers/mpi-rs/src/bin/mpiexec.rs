//! The launcher of mpi-rs.

fn main() {
    mpi::launcher::run();
}
