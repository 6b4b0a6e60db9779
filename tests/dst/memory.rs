//! Windows: puts and gets between fences, a shared counter, locks.

use hikyaku::mpi::{
    Rank,
    datatype::Kind,
    engine::{Communicator, LockKind, Operands, Target, Window},
    error::Error,
    operation::{Operation, Predefined},
};

use super::{
    prng::{self, Prng},
    safe::byte,
    script::Limits,
};

const SUM: Operation = Operation::predefined(Predefined::Sum);

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Bytes that each rank puts to each other one.
    part: usize,
    /// Number of additions of each rank to the counter at `home`.
    additions: u64,
    home: usize,
    exclusive: bool,
    salt: usize,
}

impl Memory {
    pub(crate) fn draw(rng: &mut Prng, ranks: usize, limits: Limits) -> Self {
        Self {
            part: rng.skewed((limits.bytes / ranks as u64).max(1)) as usize,
            additions: rng.below(6),
            home: rng.below(ranks as u64) as usize,
            exclusive: rng.chance(500),
            salt: rng.below(1_000) as usize,
        }
    }

    fn content(&self, from: usize, to: usize) -> Vec<u8> {
        prng::bytes(&[self.salt as u64, from as u64, to as u64], self.part)
    }
}

/// Runs the part of this rank, and checks it.
pub(crate) fn use_memory(comm: &Communicator, plan: &Memory) -> Result<(), Error> {
    put_and_get(comm, plan)?;
    count(comm, plan)
}

fn put_and_get(comm: &Communicator, plan: &Memory) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let window = Window::allocate(comm, (plan.part * size) as u64, 1)?;
    window.fence()?;
    let byte = byte();
    let target = |rank: usize, place: usize| Target {
        rank: rank as Rank,
        displacement: place as i64,
        count: plan.part as u64,
        datatype: &byte,
    };
    let operands = |base: *mut u8| Operands {
        base,
        count: plan.part as u64,
        datatype: &byte,
    };
    // Leaked when something fails: the network may still read or write it.
    let given: Vec<*mut [u8]> = (0..size)
        .map(|to| &raw mut *Box::leak(plan.content(rank, to).into_boxed_slice()))
        .collect();
    for (to, data) in given.iter().enumerate() {
        // SAFETY: it is not freed before the fence has ended well.
        unsafe { window.put(&operands(data.cast()), &target(to, rank * plan.part)) }?;
    }
    window.fence()?;
    // SAFETY: no rank writes between the fences.
    let mine = unsafe { std::slice::from_raw_parts(window.base(), plan.part * size) }.to_vec();
    for from in 0..size {
        assert!(
            mine[from * plan.part..][..plan.part] == plan.content(from, rank),
            "rank {rank}: rank {from} has put other bytes: {plan:?}"
        );
    }
    let gotten: Vec<*mut [u8]> = (0..size)
        .map(|_| &raw mut *Box::leak(vec![0xee; plan.part].into_boxed_slice()))
        .collect();
    for (from, room) in gotten.iter().enumerate() {
        let next = (rank + 1) % size;
        // SAFETY: as above.
        unsafe { window.get(&operands(room.cast()), &target(from, next * plan.part)) }?;
    }
    window.fence()?;
    for (from, room) in gotten.iter().enumerate() {
        // SAFETY: all operations have ended; it was leaked here.
        let room = unsafe { Box::from_raw(*room) };
        assert!(
            *room == *plan.content((rank + 1) % size, from),
            "rank {rank} has got other bytes from rank {from}: {plan:?}"
        );
    }
    // SAFETY: all operations have ended; they were leaked here.
    given.into_iter().for_each(|data| drop(unsafe { Box::from_raw(data) }));
    window.free()
}

/// All ranks add to one counter; all of them must have fetched different values, and at the end it is the number of
/// additions.
fn count(comm: &Communicator, plan: &Memory) -> Result<(), Error> {
    let window = Window::allocate(comm, 8, 8)?;
    let home = plan.home as Rank;
    let kind = if plan.exclusive {
        LockKind::Exclusive
    } else {
        LockKind::Shared
    };
    let mut last = -1;
    for _ in 0..plan.additions {
        let was = add(&window, 1, home, kind)?;
        let most = plan.additions as i64 * i64::from(comm.size());
        assert!(
            was > last && was < most,
            "the counter was {last} and then {was}: {plan:?}"
        );
        last = was;
    }
    comm.barrier()?;
    let all = add(&window, 0, home, LockKind::Shared)?;
    assert_eq!(all, plan.additions as i64 * i64::from(comm.size()), "{plan:?}");
    comm.barrier()?;
    window.free()
}

fn add(window: &Window, value: i64, home: Rank, kind: LockKind) -> Result<i64, Error> {
    // Leaked when something fails.
    let cells = Box::leak(Box::new([value, 0_i64]));
    let (origin, result) = ((&raw const cells[0]).cast(), (&raw mut cells[1]).cast());
    let cells = &raw mut *cells;
    window.lock(kind, home)?;
    // SAFETY: they live until it has been unlocked, or for ever.
    unsafe { window.fetch_and_op(origin, result, Kind::I64, (home, 0), &SUM) }?;
    window.unlock(home)?;
    // SAFETY: it has ended; it was leaked here.
    let cells = unsafe { Box::from_raw(cells) };
    Ok(cells[1])
}
