//~ E0597 `news` does not live long enough
use mpi::window::Window;

fn main() {
    let world = mpi::initialize().unwrap().world();
    let window = Window::<i32>::allocate(&world, 4).unwrap();
    window
        .fence(|epoch| {
            let news = vec![1, 2];
            epoch.put(&news, 0, 0)
        })
        .unwrap();
}
