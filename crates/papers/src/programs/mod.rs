//! Programs of ranks that compute as well as talk, for real ranks and for simulated ones: each tells its caller how much it
//! has computed, so that a simulation can let virtual time pass for it.

pub mod othello;
pub mod sor;

#[cfg(all(test, feature = "sim"))]
mod tests {
    use hikyaku::sim::Simulation;
    use mpi::topology::SimpleCommunicator;

    use super::*;

    /// Runs a program as each of `size` simulated ranks. Each compares its result with that of one process.
    fn run(size: u32, program: impl Fn(&SimpleCommunicator) -> Result<(), mpi::Error> + 'static) {
        let outcome = Simulation::new(size, 1).run(move |_| {
            let universe = mpi::initialize().unwrap();
            program(&universe.world()).unwrap();
        });
        outcome.unwrap_or_else(|error| panic!("{size} ranks: {error}"));
    }

    #[test]
    fn othello_finds_the_moves_of_one_process() {
        for size in [1, 2, 5] {
            run(size, |world| othello::play(world, 4, 4, &|_| ()).map(drop));
        }
    }

    #[test]
    fn sor_comes_to_the_result_of_one_process() {
        for (size, strips) in [(1, false), (4, false), (6, false), (3, true)] {
            let job = sor::Job {
                size: 20,
                iterations: 200,
                strips,
                report: 20,
                replies: strips,
            };
            run(size, move |world| sor::solve(world, job, &|_| (), &|_, _| ()).map(drop));
        }
    }
}
