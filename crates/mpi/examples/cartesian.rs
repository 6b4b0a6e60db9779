//! A grid of processes: coordinates, shifts, parts of it, and talking to neighbours.

use mpi::{
    Count, Error,
    topology::{CartesianLayout, dimensions},
    traits::*,
};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.size() < 4 {
        return Ok(());
    }
    let mut dims = [0, 0];
    dimensions(4, &mut dims)?;
    assert_eq!(dims, [2, 2]);
    let Some(grid) = world.create_cartesian_communicator(&dims, &[false, true], true)? else {
        assert!(world.rank() >= 4);
        return Ok(());
    };
    assert_eq!(grid.num_dimensions(), 2);
    let CartesianLayout { dims, periods, coords } = grid.get_layout();
    assert_eq!((&dims[..], &periods[..]), (&[2, 2][..], &[false, true][..]));
    assert_eq!(grid.coordinates_to_rank(&coords), grid.rank());
    let (x, y) = (coords[0], coords[1]);

    let column = grid.subgroup(&[true, false])?;
    let row = grid.subgroup(&[false, true])?;
    assert_eq!((column.size(), Count::from(column.rank())), (2, x));
    assert_eq!((row.size(), Count::from(row.rank())), (2, y));

    // The first dimension has edges …
    let (before, after) = grid.shift(0, 1);
    assert_eq!((before.is_none(), after.is_none()), (x == 0, x == 1));
    // … the second one goes around.
    let (before, after) = grid.shift(1, -1);
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!(grid.rank_to_coordinates(before), [x, (y + 1) % 2]);
    assert_eq!(grid.rank_to_coordinates(after), [x, (y + 1) % 2]);
    assert_eq!(grid.shift(1, 2), (Some(grid.rank()), Some(grid.rank())));

    // Above and below, left and right; beyond the edge nothing comes.
    let mut around = [-1; 4];
    grid.neighbor_all_gather_into(&grid.rank(), &mut around)?;
    let at = |x: Count, y: Count| grid.coordinates_to_rank(&[x, y]);
    let expected = [
        if x > 0 { at(x - 1, y) } else { -1 },
        if x < 1 { at(x + 1, y) } else { -1 },
        at(x, y - 1),
        at(x, y + 1),
    ];
    assert_eq!(around, expected);

    // A ring as a graph: from the one before, to the one after.
    let (rank, size) = (world.rank(), world.size());
    if size == 4 {
        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        let ring = world.create_adjacent_graph_communicator(&[previous], &[next])?;
        let mut heard = [0.0; 1_000];
        ring.neighbor_all_to_all_into(&[f64::from(rank); 1_000], &mut heard)?;
        assert_eq!(heard, [f64::from(previous); 1_000]);
    }
    Ok(())
}
