//~ E0597 `numbers` does not live long enough
// A program that never goes on would leave its threads to read what is gone.
use hikyaku::{
    mpi::engine::Communicator,
    sim::{Simulation, SimulationError},
};

fn deadlock() -> Result<(), SimulationError> {
    let numbers = vec![1_u64; 1_000];
    let numbers = &numbers;
    Simulation::new(2, 1).run(move |engine| {
        std::thread::scope(|scope| {
            scope.spawn(|| numbers.iter().sum::<u64>());
            Communicator::world(engine).barrier().unwrap();
        });
    })?;
    Ok(())
}

fn main() {
    deadlock().unwrap();
}
