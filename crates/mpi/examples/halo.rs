//! Halo exchange on a lattice in three dimensions, whose faces are strided in memory: what lattice QCD does all the time.
//!
//! ```text
//! hikyaku run -n 4 target/release/examples/halo [SIZE [STEPS]]
//! ```
//!
//! SIZE (default 16) is the number of sites along each side, STEPS (default 5) how often each site becomes the mean of its
//! six neighbours and itself. The lattice has no edges: it goes around in all directions. Each rank has a block of it
//! with ghost sites around, and swaps its six faces with its neighbours at once, in both directions, from and to where
//! they lie: a face is a datatype (`MPI_Type_create_subarray`), and is not copied to a buffer first.
//!
//! After the last step all sites, and all ghosts with the sites that they stand for, are compared with those of a lattice
//! that this rank computes alone. Rank 0 says how long an exchange took, and how many bytes a second that is.
#![expect(unsafe_code, reason = "sends from and receives into parts of one array")]

use std::ops::Range;

use mpi::{
    Count, Error, Rank,
    collective::SystemOperation,
    datatype::{DynBuffer, DynBufferMut, UserDatatype},
    topology::{CartesianCommunicator, SimpleCommunicator, dimensions},
    traits::*,
};

/// A block of the lattice with ghost sites around it.
struct Block {
    /// How many own sites there are along each dimension.
    sites: [usize; 3],
    values: Vec<f64>,
    /// The neighbours in each dimension: before, after.
    faces: [[Face; 2]; 3],
}

struct Face {
    own: UserDatatype,
    ghosts: UserDatatype,
}

impl Block {
    fn new(sites: [usize; 3]) -> Self {
        let whole = sites.map(|sites| sites as Count + 2);
        let face = |dimension: usize, at: usize| {
            let (mut size, mut start) = (sites.map(|sites| sites as Count), [1; 3]);
            size[dimension] = 1;
            start[dimension] = at as Count;
            UserDatatype::subarray(&whole, &size, &start, &f64::equivalent_datatype())
        };
        let faces = [0, 1, 2].map(|dimension| {
            let last = sites[dimension];
            [(1, 0), (last, last + 1)].map(|(own, ghosts)| Face {
                own: face(dimension, own),
                ghosts: face(dimension, ghosts),
            })
        });
        Self {
            sites,
            values: vec![f64::NAN; whole.iter().product::<Count>() as usize],
            faces,
        }
    }

    /// Where a site is: its own are 1 to `sites`, ghosts 0 and `sites` + 1.
    fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        (x * (self.sites[1] + 2) + y) * (self.sites[2] + 2) + z
    }

    fn own_sites(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [a, b, c] = self.sites;
        (1..=a).flat_map(move |x| (1..=b).flat_map(move |y| (1..=c).map(move |z| [x, y, z])))
    }

    /// Swaps all faces with the neighbours; `neighbours` are, for each dimension, the one before and the one after.
    fn exchange(&mut self, grid: &CartesianCommunicator, neighbours: &[[Rank; 2]; 3]) -> Result<(), Error> {
        let values = self.values.as_mut_ptr();
        let faces = || self.faces.iter().flatten();
        // SAFETY: ghosts and own sites are within the array and have no element in common, nor have two faces of ghosts;
        // nobody else uses the array until the scope has ended.
        let mut ghosts: Vec<_> = faces()
            .map(|face| unsafe { DynBufferMut::from_raw(values, 1, &face.ghosts) })
            .collect();
        // SAFETY: as above; own sites are only read.
        let own: Vec<_> = faces()
            .map(|face| unsafe { DynBuffer::from_raw(values, 1, &face.own) })
            .collect();
        // Two neighbours may be the same rank: the tag says which way a face goes.
        let ways = || neighbours.iter().flatten().zip(0..6);
        mpi::request::scope(|scope| {
            let mut receiving = Vec::new();
            for ((rank, way), ghosts) in ways().zip(&mut ghosts) {
                let neighbour = grid.process_at_rank(*rank);
                receiving.push(neighbour.immediate_receive_into_with_tag(scope, ghosts, way ^ 1));
            }
            let mut sending = Vec::new();
            for ((rank, way), own) in ways().zip(&own) {
                let neighbour = grid.process_at_rank(*rank);
                sending.push(neighbour.immediate_send_with_tag(scope, own, way));
            }
            receiving
                .into_iter()
                .try_for_each(|request| request.wait_without_status())?;
            sending
                .into_iter()
                .try_for_each(|request| request.wait_without_status())
        })
    }

    /// Each site becomes the mean of itself and its neighbours.
    fn step(&mut self) {
        let mut next = self.values.clone();
        let (row, plane) = (self.sites[2] + 2, (self.sites[1] + 2) * (self.sites[2] + 2));
        for site in self.own_sites() {
            let at = self.at(site);
            let around = [at - plane, at + plane, at - row, at + row, at - 1, at + 1];
            next[at] = around.iter().fold(self.values[at], |sum, at| sum + self.values[*at]) / 7.0;
        }
        self.values = next;
    }

    /// The ghost sites on the six faces (those on edges and corners are nobody's neighbours).
    fn ghost_sites(&self) -> impl Iterator<Item = [usize; 3]> {
        let on_a_face = |dimension: usize, site: &[usize; 3]| site[dimension] == 1;
        (0..3).flat_map(move |dimension| {
            let beside = move |mut site: [usize; 3]| {
                site[dimension] = 0;
                let before = site;
                site[dimension] = self.sites[dimension] + 1;
                [before, site]
            };
            self.own_sites()
                .filter(move |site| on_a_face(dimension, site))
                .flat_map(beside)
        })
    }
}

/// Copies the faces of a lattice that one rank has for itself to its ghosts on the other side.
fn wrap(lattice: &mut Block) {
    let ghosts: Vec<_> = lattice.ghost_sites().collect();
    for ghost in ghosts {
        let own = [0, 1, 2].map(|dimension| around(ghost[dimension], lattice.sites[dimension]));
        let (from, to) = (lattice.at(own), lattice.at(ghost));
        lattice.values[to] = lattice.values[from];
    }
}

/// The site from 1 to `size` that 0 or `size` + 1 stands for.
fn around(index: usize, size: usize) -> usize {
    (index + size - 1) % size + 1
}

/// The initial value of a site: its number in the whole lattice.
fn first_value(size: usize, site: [usize; 3]) -> f64 {
    site.iter().fold(0, |number, index| number * size + index - 1) as f64
}

/// The part of `size` sites that the `index`-th of `parts` has.
fn share(size: usize, parts: Count, index: Count) -> Range<usize> {
    let (parts, index) = (parts as usize, index as usize);
    size * index / parts..size * (index + 1) / parts
}

/// Makes each site the mean of its neighbours and itself, `steps` times, on a lattice of `size` sites a side.
/// Compares, and says at rank 0 how long an exchange took.
pub(crate) fn smooth(world: &SimpleCommunicator, size: usize, steps: usize) -> Result<(), Error> {
    let mut dims = [0; 3];
    dimensions(world.size(), &mut dims)?;
    assert!(
        dims[0] <= size as Count,
        "{size} sites for {} ranks side by side",
        dims[0]
    );
    let grid = world
        .create_cartesian_communicator(&dims, &[true; 3], true)?
        .expect("the grid has place for all");
    let coords = grid.get_layout().coords;
    let ranges = [0, 1, 2].map(|dimension| share(size, dims[dimension], coords[dimension]));
    let neighbours = [0, 1, 2].map(|dimension| {
        let (before, after) = grid.shift(dimension, 1);
        [before, after].map(|rank| rank.expect("the grid goes around"))
    });

    let mut block = Block::new(ranges.clone().map(|range| range.len()));
    let mut whole = Block::new([size; 3]);
    // The site of the whole lattice that one of the block is, or that a ghost stands for.
    let in_whole =
        |site: [usize; 3]| [0, 1, 2].map(|dimension| around(ranges[dimension].start + site[dimension], size));
    for site in whole.own_sites() {
        let at = whole.at(site);
        whole.values[at] = first_value(size, site);
    }
    for site in block.own_sites() {
        let at = block.at(site);
        block.values[at] = first_value(size, in_whole(site));
    }
    let mut times = Vec::new();
    for _ in 0..steps {
        grid.barrier()?;
        let start = mpi::time();
        block.exchange(&grid, &neighbours)?;
        times.push(mpi::time() - start);
        block.step();
    }
    block.exchange(&grid, &neighbours)?;

    for _ in 0..steps {
        wrap(&mut whole);
        whole.step();
    }
    wrap(&mut whole);
    for site in block.ghost_sites().chain(block.own_sites()) {
        let (value, expected) = (block.values[block.at(site)], whole.values[whole.at(in_whole(site))]);
        let same = value.to_bits() == expected.to_bits();
        assert!(same, "rank {}, site {site:?}: {value} is not {expected}", grid.rank());
    }

    times.sort_by(f64::total_cmp);
    let (own, mut slowest) = (times.get(times.len() / 2).copied().unwrap_or(0.0), 0.0);
    grid.all_reduce_into(&own, &mut slowest, SystemOperation::max())?;
    if grid.rank() == 0 {
        let bytes = 2 * size_of::<f64>() * block.ghost_sites().count();
        println!(
            "halo: {size} x {size} x {size} sites on {} x {} x {} ranks, {steps} steps: as in one process; an exchange of \
             {bytes} bytes in and out takes {:.1} us, {:.0} MB/s",
            dims[0],
            dims[1],
            dims[2],
            slowest * 1e6,
            bytes as f64 / slowest / 1e6
        );
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse::<usize>()
            .unwrap_or_else(|_| panic!("usage: halo [SIZE [STEPS]]"))
    });
    let (size, steps) = (arguments.next().unwrap_or(16), arguments.next().unwrap_or(5));
    let universe = mpi::initialize().unwrap();
    smooth(&universe.world(), size, steps)
}
