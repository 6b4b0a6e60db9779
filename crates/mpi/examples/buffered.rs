//! Sends that copy, and never wait.

use mpi::{Error, ErrorClass, request::WaitGuard, traits::*};

const SIZE: usize = 1 << 20;

pub(crate) fn main() -> Result<(), Error> {
    let mut universe = mpi::initialize().unwrap();
    universe.set_buffer_size(SIZE);
    assert_eq!(universe.buffer_size(), SIZE);
    universe.detach_buffer();
    assert_eq!(universe.buffer_size(), 0);
    universe.set_buffer_size(SIZE);

    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);

    let x = vec![std::f32::consts::PI; 50_000];
    let mut y = vec![0.0; 50_000];
    mpi::request::scope(|scope| {
        let _receiving = WaitGuard::from(world.any_process().immediate_receive_into(scope, &mut y[..]));
        next.buffered_send(&x[..])?;
        Ok::<_, Error>(())
    })?;
    assert_eq!(x, y);

    // It fills up as long as no rank receives.
    let mut sent = 0;
    let full = loop {
        match next.buffered_send(&x) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.class(), ErrorClass::Buffer);
    assert!(sent >= SIZE / 200_000 - 1, "{sent}");
    let mut numbers = vec![0_usize; size as usize];
    world.all_gather_into(&sent, &mut numbers)?;
    let previous = (rank + size - 1) % size;
    for _ in 0..numbers[previous as usize] {
        assert_eq!(world.process_at_rank(previous).receive_vec::<f32>()?.0, x);
    }
    Ok(())
}
