//! Items that the other crates, the tests and the benchmarks of this project need beyond the public surface. It changes
//! without notice, in any version.

/// Random numbers that are the same in each run.
pub mod prng {
    pub use crate::prng::*;
}

/// Where state lies, for the simulator.
pub mod prefetch {
    pub use crate::prefetch::*;
}

/// Between a launcher and its processes.
#[cfg(feature = "mpi")]
pub mod bootstrap {
    /// Names of variables.
    pub mod names {
        pub use crate::bootstrap::environment::names::*;
    }

    /// The address of a process.
    pub mod address {
        pub use crate::bootstrap::address::*;
        pub use crate::bootstrap::interfaces::*;
    }

    /// Messages of PMI.
    pub mod message {
        pub use crate::bootstrap::message::*;
    }

    /// The wire-up server.
    pub mod server {
        pub use crate::bootstrap::server::*;
    }
}
