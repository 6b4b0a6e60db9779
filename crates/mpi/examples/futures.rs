//! Requests as futures: many tasks of one thread, which sleeps in between.

use std::{future::Future, pin::Pin, task::Poll};

use mpi::{Error, request::block_on, traits::*};

type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs all of them until they have ended.
fn run<T>(mut tasks: Vec<Task<'_, T>>) -> Vec<T> {
    let mut done = Vec::new();
    block_on(std::future::poll_fn(|context| {
        tasks.retain_mut(|task| match task.as_mut().poll(context) {
            Poll::Ready(output) => {
                done.push(output);
                false
            }
            Poll::Pending => true,
        });
        if tasks.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    done
}

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let (next, previous) = (&world.process_at_rank(next), &world.process_at_rank(previous));

    // A number goes round once per tag; each task waits for it and hands it on.
    let mut tasks: Vec<Task<'_, Result<i32, Error>>> = Vec::new();
    for tag in 0..50 {
        tasks.push(Box::pin(async move {
            if rank == 0 {
                next.send_with_tag(&tag, tag)?;
                Ok(previous.immediate_receive_with_tag::<i32>(tag).await?.0)
            } else {
                let (number, _) = previous.immediate_receive_with_tag::<i32>(tag).await?;
                next.send_with_tag(&(number + 1), tag)?;
                Ok(number + 1)
            }
        }));
    }
    let mut numbers = run(tasks).into_iter().collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    let added = if rank == 0 { size - 1 } else { rank };
    assert_eq!(numbers, (0..50).map(|tag| tag + added).collect::<Vec<_>>());

    // With borrowed buffers, within a scope.
    let (from, mut into) = (vec![rank; 50_000], vec![0; 50_000]);
    mpi::request::scope(|scope| {
        let tasks: Vec<Task<'_, _>> = vec![
            Box::pin(previous.immediate_receive_into(scope, &mut into)),
            Box::pin(next.immediate_send(scope, &from)),
        ];
        run(tasks).into_iter().collect::<Result<Vec<_>, _>>()
    })?;
    assert_eq!(into, vec![previous.rank(); 50_000]);
    Ok(())
}
