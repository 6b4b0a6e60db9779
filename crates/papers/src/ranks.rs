//! Runs a program as every rank of a simulation.

use std::{cell::RefCell, fmt::Display, rc::Rc, sync::Arc};

use hikyaku::{
    mpi::engine::Engine,
    sim::{NetworkStats, OpticsStats, Simulation, SimulationError},
};
use hikyaku_bench::failure::Failure;

fn failed(error: &SimulationError) -> Failure {
    match error {
        SimulationError::Range(_) | SimulationError::Config(_) => Failure::usage(error.to_string()),
        _ => Failure::run(error.to_string()),
    }
}

/// How the program of a rank ends.
pub(crate) type Done<T> = Result<T, Box<dyn std::error::Error>>;

/// The result of a program that all ranks have run.
pub(crate) struct Ran<T> {
    /// By rank.
    pub results: Vec<T>,
    pub network: NetworkStats,
    pub optics: OpticsStats,
}

/// Runs a program at all ranks. If one of them cannot go on, since peers are given up where nearly everything is lost, that
/// is the failure, and not that others wait for it.
pub(crate) fn run_ranks<T: 'static, E: Display>(
    simulation: &Simulation,
    program: impl Fn(&Arc<Engine>) -> Result<T, E> + 'static,
) -> Result<Ran<T>, Failure> {
    let first = Rc::new(RefCell::new(None));
    let ours = Rc::clone(&first);
    let outcome = simulation.run(move |engine| {
        let result = program(engine);
        result
            .map_err(|error| {
                let mut first = ours.borrow_mut();
                first.get_or_insert_with(|| format!("rank {}: {error}", engine.process()));
            })
            .ok()
    });
    if let Some(problem) = first.take() {
        return Err(Failure::run(problem));
    }
    let outcome = outcome.map_err(|error| failed(&error))?;
    Ok(Ran {
        results: outcome.results.into_iter().flatten().collect(),
        network: outcome.network,
        optics: outcome.optics,
    })
}
