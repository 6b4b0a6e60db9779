#![expect(unsafe_code, reason = "an allocator is called by its unsafe methods")]
//! Blocks of all sizes, allocated, resized and freed in any order and in any thread.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use super::{Heap, Pool, Regions, apart, pool::LARGEST, turn};
use crate::prng::Prng;

/// There is one pool, whose pages are counted.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pages() -> u32 {
    Pool::lock().used()
}

/// A block filled with its mark.
struct Block {
    start: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: the holder of this value holds the block.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, zeroed: bool, mark: u8) -> Self {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the layout is not empty.
        let start = unsafe {
            match zeroed {
                true => Heap.alloc_zeroed(layout),
                false => Heap.alloc(layout),
            }
        };
        assert!(!start.is_null() && start.addr().is_multiple_of(align));
        let mut block = Self { start, layout, mark };
        assert!(!zeroed || block.bytes().iter().all(|byte| *byte == 0));
        block.bytes().fill(mark);
        block
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it is that large, and has been written; in `new` it may not have been, but for what is zeroed.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }

    fn is_whole(&mut self) -> bool {
        let mark = self.mark;
        self.bytes().iter().all(|byte| *byte == mark)
    }

    fn resize(&mut self, size: usize) {
        assert!(self.is_whole());
        let kept = size.min(self.layout.size());
        // SAFETY: it is allocated with this layout, and the new size is not 0.
        self.start = unsafe { Heap.realloc(self.start, self.layout, size) };
        assert!(!self.start.is_null() && self.start.addr().is_multiple_of(self.layout.align()));
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        let mark = self.mark;
        assert!(self.bytes()[..kept].iter().all(|byte| *byte == mark));
        self.bytes().fill(mark);
    }

    fn free(mut self) {
        assert!(self.is_whole(), "nobody else has written to it");
        // SAFETY: it is allocated with this layout, and not used any more.
        unsafe { Heap.dealloc(self.start, self.layout) };
    }
}

fn size(rng: &mut Prng) -> usize {
    let most = 1 << (rng.next_u64() % if cfg!(miri) { 14 } else { 18 });
    1 + (rng.next_u64() % most) as usize
}

/// Allocates and frees at random for `processes`; gives some blocks to another thread, and frees some of the other's.
fn work(seed: u64, processes: u32, steps: u32, to: &mpsc::Sender<Block>, from: &mpsc::Receiver<Block>) -> Vec<Block> {
    let (mut rng, mut blocks) = (Prng::new(seed), Vec::<Block>::new());
    let regions = Regions::of(processes);
    for step in 0..steps {
        let process = rng.next_u64() % u64::from(processes + 2);
        turn((process <= u64::from(processes)).then_some(process as u32));
        let index = rng.next_u64() as usize % blocks.len().max(1);
        match rng.next_u64() % 8 {
            0..4 => {
                let (size, zeroed) = (size(&mut rng), rng.chance(0.3));
                let align = 1
                    << if rng.chance(0.9) {
                        rng.next_u64() % 5
                    } else {
                        rng.next_u64() % 13
                    };
                let block = Block::new(size, align, zeroed, step as u8);
                turn(None);
                blocks.push(block);
            }
            4 if !blocks.is_empty() => blocks[index].resize(size(&mut rng)),
            5 if !blocks.is_empty() => {
                let block = blocks.swap_remove(index);
                turn(None);
                to.send(block).unwrap();
            }
            6 => from.try_iter().for_each(Block::free),
            _ if !blocks.is_empty() => blocks.swap_remove(index).free(),
            _ => {}
        }
    }
    drop(regions);
    blocks
}

#[test]
fn blocks_are_whole_and_everything_comes_back() {
    let _alone = alone();
    let before = pages();
    let steps = if cfg!(miri) { 60 } else { 20_000 };
    for seed in 0..2 {
        let ((to_one, one), (to_other, other)) = (mpsc::channel(), mpsc::channel());
        let at_other = thread::spawn(move || {
            let left = work(seed, 3, steps, &to_one, &other);
            (left, other)
        });
        let left = work(seed + 100, 5, steps, &to_other, &one);
        let (left_there, other) = at_other.join().unwrap();
        // After the simulations.
        left.into_iter().chain(left_there).for_each(Block::free);
        one.try_iter().chain(other.try_iter()).for_each(Block::free);
        assert_eq!(pages(), before);
    }
}

#[test]
fn what_a_process_allocates_lies_together() {
    let _alone = alone();
    let regions = Regions::of(2);
    let mut blocks: [Vec<Block>; 2] = Default::default();
    for round in 0..20 {
        for process in 0..2 {
            turn(Some(process));
            let block = Block::new(48, 8, false, round);
            turn(None);
            blocks[process as usize].push(block);
        }
    }
    let page = |block: &Block| block.start.addr() / super::pool::PAGE;
    let first = blocks.each_ref().map(|blocks| page(&blocks[0]));
    assert_ne!(first[0], first[1]);
    for (process, blocks) in blocks.iter().enumerate() {
        assert!(blocks.iter().all(|block| page(block) == first[process]));
        assert!(blocks.iter().all(|block| Pool::owns(block.start)));
    }
    drop(regions);
    blocks.into_iter().flatten().for_each(Block::free);
}

#[test]
fn what_is_no_processs_is_in_pages_of_its_own() {
    let _alone = alone();
    let before = pages();
    let regions = Regions::of(1);
    turn(Some(0));
    let own = Block::new(48, 8, false, 1);
    let common = apart(|| Block::new(48, 8, false, 2));
    let after = Block::new(48, 8, false, 3);
    turn(None);
    let again = apart(|| Block::new(48, 8, false, 4));
    let outside = Block::new(48, 8, false, 5);
    let page = |block: &Block| block.start.addr() / super::pool::PAGE;
    assert_eq!((page(&own), page(&common)), (page(&after), page(&again)));
    assert_ne!(page(&own), page(&common));
    assert!(Pool::owns(common.start) && !Pool::owns(outside.start));
    // A process that frees it may use it again.
    turn(Some(0));
    common.free();
    turn(None);
    drop(regions);
    [own, after, again, outside].into_iter().for_each(Block::free);
    assert_eq!(pages(), before);
    let nowhere = apart(|| Block::new(48, 8, false, 6));
    assert!(!Pool::owns(nowhere.start));
    nowhere.free();
}

#[test]
fn others_memory_is_the_systems() {
    let _alone = alone();
    let regions = Regions::of(1);
    let outside = Block::new(100, 8, false, 1);
    turn(Some(0));
    let (inside, large) = (Block::new(100, 8, false, 2), Block::new(LARGEST + 1, 8, true, 3));
    let aligned = Block::new(100, 128, false, 4);
    // In the one simulation there is another one.
    let within = Regions::of(1);
    let between = Block::new(100, 8, false, 5);
    drop(within);
    let after = Block::new(100, 8, false, 6);
    turn(Some(1));
    let nobody = Block::new(100, 8, false, 7);
    turn(None);
    let owned = [&outside, &inside, &large, &aligned, &between, &after, &nobody].map(|block| Pool::owns(block.start));
    assert_eq!(owned, [false, true, false, false, false, true, false]);
    drop(regions);
    [outside, inside, large, aligned, between, after, nobody]
        .into_iter()
        .for_each(Block::free);
}
