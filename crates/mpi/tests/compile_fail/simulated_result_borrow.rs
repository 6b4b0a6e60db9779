//~ E0597 `numbers` does not live long enough
// Nor does a result refer to what a program that goes on for ever may still use.
use hikyaku::sim::Simulation;

fn main() {
    let numbers = vec![1_u64; 8];
    let numbers = &numbers[..];
    Simulation::new(1, 1).run(move |_| numbers).unwrap();
}
