//~ E0382 borrow of moved value: `part`
use mpi::{point_to_point::partitioned, traits::*};

fn main() {
    let world = mpi::initialize().unwrap().world();
    let mut news = [0; 4];
    let mut sending = partitioned::send_init(&world.this_process(), &mut news, 1, 0).unwrap();
    mpi::request::scope(|scope| {
        let (mut parts, sent) = sending.start(scope);
        let mut part = parts.pop().unwrap();
        part.ready().unwrap();
        part[0] = 1;
        sent.wait()
    })
    .unwrap();
}
