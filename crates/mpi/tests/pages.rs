//! The Rust of the pages that needs this crate, compiled. `tests/documents.rs` of the library sees to it that what a
//! page shows is here, line for line.
#![expect(dead_code, reason = "compiled, not run")]

mod readme {
    use mpi::{collective::SystemOperation, traits::*};

    fn main() -> Result<(), mpi::Error> {
        let universe = mpi::initialize().unwrap();
        let world = universe.world();
        let (rank, size) = (world.rank(), world.size());
        let mut sum = 0;
        world.all_reduce_into(&rank, &mut sum, SystemOperation::sum())?;
        println!("rank {rank} of {size}: the sum of all ranks is {sum}");
        Ok(())
    }
}

#[cfg(feature = "sim")]
mod simulation {
    use hikyaku::sim::Simulation;
    use mpi::traits::*;

    fn main() -> Result<(), Box<dyn std::error::Error>> {
        let outcome = Simulation::new(1024, 1).run(|_| {
            let universe = mpi::initialize().unwrap();
            let world = universe.world();
            world.barrier().unwrap();
            world.rank()
        })?;
        println!("{:?} of virtual time, {:?}", outcome.time, outcome.network);
        Ok(())
    }
}

mod a_message {
    use mpi::{topology::SimpleCommunicator, traits::*};

    fn main(world: &SimpleCommunicator, mut value: f64) -> Result<(), mpi::Error> {
        world.process_at_rank(1).send(&value)?;
        world.process_at_rank(0).receive_into(&mut value)?;
        Ok(())
    }
}
