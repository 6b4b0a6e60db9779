//! Threads take messages of unknown length out of one queue; no one takes another's.

use std::{collections::BTreeSet, sync::Mutex, thread};

use mpi::{Error, traits::*};

const MESSAGES: usize = 50;

/// Every second message is long enough to wait for its receive.
fn letter(number: usize) -> Vec<u32> {
    vec![
        number as u32;
        if number.is_multiple_of(2) {
            number
        } else {
            10_000 + number
        }
    ]
}

fn main() -> Result<(), Error> {
    let (universe, threading) = mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
    assert_eq!(threading, mpi::environment::threading_support());
    let world = universe.world();
    let size = world.size();
    let expected = size as usize * MESSAGES;
    let heard = Mutex::new(BTreeSet::new());
    let take = |share: usize| {
        for _ in (share..expected).step_by(2) {
            let (message, status) = world.any_process().matched_probe()?;
            let (letter, _) = (message, status).matched_receive_vec::<u32>()?;
            let number = letter.first().map_or(0, |number| *number as usize);
            assert_eq!(letter, self::letter(number));
            assert!(
                heard.lock().unwrap().insert((status.source_rank(), number)),
                "each once"
            );
        }
        Ok::<_, Error>(())
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(|| take(0)), scope.spawn(|| take(1))];
        for number in 0..MESSAGES {
            for to in 0..size {
                world.process_at_rank(to).send(&letter(number))?;
            }
        }
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    assert_eq!(heard.into_inner().unwrap().len(), expected);
    assert!(world.any_process().immediate_probe()?.is_none());
    Ok(())
}
