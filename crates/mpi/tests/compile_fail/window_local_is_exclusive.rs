//~ E0502 cannot borrow `window` as immutable
use mpi::window::Window;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let mut window = Window::<u64>::allocate(&world, 4).unwrap();
    let local = window.local().unwrap();
    window.fence(|_| Ok(())).unwrap();
    println!("{}", local[0]);
}
