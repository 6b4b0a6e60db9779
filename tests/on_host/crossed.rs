//! Large blocks that ranks read straight from each other's memory.

use std::time::Duration;

use hikyaku::{
    mpi::{
        collectives::{Blocks, Call, Collective},
        datatype::{Datatype, Kind},
        engine::{Buffers, Communicator, Options, Region},
        error::{Error, ErrorClass},
    },
    transport::WaitPolicy,
};

use super::{
    collectives::allreduce,
    support::{job, job_on, options},
};

/// Elements of a block: 64 KB.
const COUNT: usize = 8 << 10;

fn datatype() -> Datatype {
    Datatype::predefined(Kind::I64)
}

/// Element `at` of what a rank has for another one.
fn element(from: usize, to: usize, at: usize) -> i64 {
    (from << 40 | to << 32 | at) as i64
}

fn block(from: usize, to: usize, len: usize) -> impl Iterator<Item = i64> {
    (0..len).map(move |at| element(from, to, at))
}

/// Each block has `count` elements, which lie apart at this rank if it says so.
fn alltoall_of(count: usize, comm: &Communicator, is_strided: bool, in_place: bool) -> Result<Vec<i64>, Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let stride = 1 + usize::from(is_strided);
    let datatype = match is_strided {
        true => Datatype::resized(0, 16, &datatype()).unwrap(),
        false => datatype(),
    };
    let spread = |data: Vec<i64>| -> Vec<i64> { data.into_iter().flat_map(|x| vec![x; stride]).collect() };
    let mut input = spread((0..size).flat_map(|to| block(rank, to, count)).collect());
    let mut output = if in_place { input.clone() } else { vec![-1; input.len()] };
    let buffers = Buffers {
        input: match in_place {
            true => Region::None,
            false => Region::Plain(input.as_mut_ptr().cast(), &datatype),
        },
        output: Region::Plain(output.as_mut_ptr().cast(), &datatype),
    };
    let call = Call::of(Collective::Alltoall).with_count(count).with_in_place(in_place);
    // SAFETY: both are borrowed until it has ended.
    let request = unsafe { comm.collective("MPI_Alltoall", &call, &buffers, None, None) };
    request?.wait()?;
    Ok(output.into_iter().step_by(stride).collect())
}

fn alltoall(comm: &Communicator, is_strided: bool, in_place: bool) -> Vec<i64> {
    alltoall_of(COUNT, comm, is_strided, in_place).unwrap()
}

fn transposed_of(count: usize, comm: &Communicator) -> Vec<i64> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    (0..size).flat_map(|from| block(from, rank, count)).collect()
}

fn transposed(comm: &Communicator) -> Vec<i64> {
    transposed_of(COUNT, comm)
}

/// Blocks that this rank has had the system copy.
fn crossed(comm: &Communicator) -> u64 {
    comm.engine().stats().crossed
}

/// Ranks of a process can read each other's memory, if the system knows how to.
fn can_cross() -> bool {
    let (mut into, from) = ([0_u8; 8], [7_u8; 8]);
    let span = |start: *const u8| libc::iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: 8,
    };
    let (local, remote) = (span(into.as_mut_ptr()), span(from.as_ptr()));
    // SAFETY: both have eight bytes, and the first ones may be written.
    unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) == 8 }
}

/// Calls it until this rank reads from all others: those that have never talked to each other begin to with the first call.
fn warm(comm: &Communicator) {
    let others = comm.size() as u64 - 1;
    for turn in 0.. {
        let before = crossed(comm);
        assert_eq!(alltoall(comm, false, false), transposed(comm));
        let ready = allreduce(comm, &[i64::from(crossed(comm) - before == others)], None);
        if ready == [i64::from(comm.size())] || !can_cross() {
            return;
        }
        assert!(turn < 1_000, "they do not come to talk");
    }
}

#[test]
fn each_rank_reads_the_blocks_of_all_others() {
    for size in [2, 3, 6] {
        job(size, |comm| {
            warm(&comm);
            let before = crossed(&comm);
            for in_place in [false, true] {
                assert_eq!(alltoall(&comm, false, in_place), transposed(&comm), "{in_place}");
            }
            // (What is packed because it is in place is copied twice anyway.)
            let read = if can_cross() { u64::from(size) - 1 } else { 0 };
            assert_eq!(crossed(&comm) - before, read);
            // In several steps of the system.
            let count = 150_000;
            assert!(alltoall_of(count, &comm, false, false).unwrap() == transposed_of(count, &comm));
        });
    }
}

/// Then the bytes go by the memory in common, also those that were read.
#[test]
fn a_rank_that_cannot_read_or_be_read_makes_all_copy() {
    job(3, |comm| {
        warm(&comm);
        let is_odd = comm.rank() == 1;
        for in_place in [false, true] {
            assert_eq!(alltoall(&comm, is_odd, in_place), transposed(&comm), "{in_place}");
        }
        if is_odd {
            comm.engine().set_cma_limit(Some(u32::MAX));
        }
        let before = crossed(&comm);
        for in_place in [false, true] {
            assert_eq!(alltoall(&comm, false, in_place), transposed(&comm), "{in_place}");
        }
        assert!(!is_odd || crossed(&comm) == before);
    });
}

/// One rank has large blocks, one small ones, one nothing.
#[test]
fn only_long_streams_are_read() {
    job(3, |comm| {
        warm(&comm);
        let (rank, size) = (comm.rank() as usize, comm.size() as usize);
        let len = |from: usize, to: usize| [3 * COUNT, 100, 0][from] + to;
        let room = 4 * COUNT;
        let mut input: Vec<i64> = (0..size).flat_map(|to| block(rank, to, room)).collect();
        let mut output = vec![-1_i64; size * room];
        let places: Vec<isize> = (0..size).map(|at| (at * room) as isize).collect();
        let sent: Vec<usize> = (0..size).map(|to| len(rank, to)).collect();
        let taken: Vec<usize> = (0..size).map(|from| len(from, rank)).collect();
        let blocks = |counts| Blocks::Uneven {
            counts,
            displacements: &places,
        };
        let datatype = datatype();
        let buffers = Buffers {
            input: Region::Plain(input.as_mut_ptr().cast(), &datatype),
            output: Region::Plain(output.as_mut_ptr().cast(), &datatype),
        };
        let call = Call::of(Collective::Alltoallv)
            .with_input(blocks(&sent))
            .with_output(blocks(&taken));
        let before = crossed(&comm);
        // SAFETY: both are borrowed until it has ended.
        let request = unsafe { comm.collective("MPI_Alltoallv", &call, &buffers, None, None) };
        request.unwrap().wait().unwrap();
        for from in 0..size {
            let (block_of, rest) = output[from * room..(from + 1) * room].split_at(len(from, rank));
            assert!(
                block(from, rank, room).zip(block_of).all(|(x, y)| x == *y),
                "from {from}"
            );
            assert!(rest.iter().all(|x| *x == -1), "from {from}");
        }
        let read = u64::from(rank != 0 && can_cross());
        assert_eq!(crossed(&comm) - before, read);
    });
}

/// Blocks that are just large, of ranks that share a core, go in one step of those that are small. So a rank whose elements
/// lie in one run must take the same way as one whose elements do not.
#[test]
fn all_take_the_same_way_whatever_their_elements_are() {
    let options = Options {
        wait: WaitPolicy::Yield {
            spin: Duration::from_millis(1),
        },
        ..options()
    };
    for count in [4_095, 4_096, 4_097] {
        job_on("udp", 2, &options, |comm| {
            for turn in 0..20 {
                let is_strided = turn & 1 << comm.rank() != 0;
                let all = alltoall_of(count, &comm, is_strided, false).unwrap();
                assert!(all == transposed_of(count, &comm), "{count}, {turn}");
            }
        });
    }
}

/// A rank whose blocks are small posts no table, and takes none for data.
#[test]
fn blocks_of_different_lengths_are_an_error() {
    for small in [1, 4, 100, 4_000] {
        job(2, |world| {
            // (Nothing goes by the memory of a communicator whose ranks have called different collectives.)
            let comm = world.duplicate().unwrap();
            warm(&comm);
            let count = if comm.rank() == 0 { COUNT } else { small };
            let error = alltoall_of(count, &comm, false, false).unwrap_err();
            assert_eq!(error.class(), ErrorClass::NotSame, "{small}: {error}");
        });
    }
}
