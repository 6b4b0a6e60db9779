//! Grids of processes.

use hikyaku::mpi::{
    error::{Detail, Error, ErrorClass},
    topology::{Cartesian, TopologyError, dims_create},
};

use super::{AsHandle, Handle, Rank};
use crate::Count;

/// The layout of a grid: for each dimension its size, whether it is a ring, and the coordinate of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartesianLayout {
    /// Number of processes in each dimension.
    pub dims: Vec<Count>,
    /// For each dimension, whether it is a ring.
    pub periods: Vec<bool>,
    /// The coordinates of this process.
    pub coords: Vec<Count>,
}

/// A communicator whose processes form a grid.
#[derive(Debug)]
pub struct CartesianCommunicator {
    handle: Handle,
    grid: Cartesian,
}

impl AsHandle for CartesianCommunicator {
    fn as_handle(&self) -> &Handle {
        &self.handle
    }
}

/// Divides `processes` among the dimensions that are 0, as evenly as possible (`MPI_Dims_create`). rsmpi has it only as
/// a raw C function.
///
/// # Errors
/// The dimensions that are not 0 do not divide the number of processes.
///
/// ```
/// let mut dims = [0, 0];
/// mpi::topology::dimensions(6, &mut dims).unwrap();
/// assert_eq!(dims, [3, 2]);
/// ```
pub fn dimensions(processes: Rank, dims: &mut [Count]) -> Result<(), Error> {
    const CALL: &str = "MPI_Dims_create";
    let mut sizes = ranks(CALL, dims)?;
    dims_create(processes, &mut sizes).map_err(|error| Error::topology(CALL, error))?;
    for (dim, size) in dims.iter_mut().zip(sizes) {
        *dim = size.into();
    }
    Ok(())
}

/// Coordinates as the engine has them.
fn ranks(call: &'static str, coordinates: &[Count]) -> Result<Vec<Rank>, Error> {
    let detail = |value| Detail::Value {
        argument: "a size or coordinate",
        value,
        min: Rank::MIN.into(),
        max: Rank::MAX.into(),
    };
    let wrong = |value| Error::new(ErrorClass::Dims, call).with_detail(detail(value));
    coordinates
        .iter()
        .map(|value| Rank::try_from(*value).map_err(|_| wrong(*value)))
        .collect()
}

impl CartesianCommunicator {
    pub(super) fn grid(
        call: &'static str,
        processes: Rank,
        dims: &[Count],
        periods: &[bool],
    ) -> Result<Cartesian, Error> {
        let grid = Cartesian::new(processes, &ranks(call, dims)?, periods);
        grid.map_err(|error| Error::topology(call, error))
    }

    pub(super) fn create(handle: &Handle, dims: &[Count], periods: &[bool]) -> Result<Option<Self>, Error> {
        const CALL: &str = "MPI_Cart_create";
        let grid = Self::grid(CALL, handle.comm.size(), dims, periods)?;
        let is_member = handle.comm.rank() < grid.size();
        let comm = handle.comm.split_for(CALL, is_member.then_some(0), 0)?;
        Ok(comm.map(|comm| Self {
            handle: handle.sibling(comm),
            grid,
        }))
    }

    pub(crate) fn topology(&self) -> &Cartesian {
        &self.grid
    }

    /// Number of dimensions (`MPI_Cartdim_get`).
    #[must_use]
    pub fn num_dimensions(&self) -> Count {
        self.grid.dimensions().len() as Count
    }

    /// Returns sizes, periods and the coordinates of this process (`MPI_Cart_get`).
    ///
    /// # Panics
    /// If a slice is not as long as the number of dimensions.
    pub fn get_layout_into(&self, dims: &mut [Count], periods: &mut [bool], coords: &mut [Count]) {
        let layout = self.get_layout();
        dims.copy_from_slice(&layout.dims);
        periods.copy_from_slice(&layout.periods);
        coords.copy_from_slice(&layout.coords);
    }

    /// Returns sizes, periods and the coordinates of this process (`MPI_Cart_get`).
    #[must_use]
    pub fn get_layout(&self) -> CartesianLayout {
        let (dims, periods) = self
            .grid
            .dimensions()
            .map(|(size, periodic)| (Count::from(size), periodic))
            .unzip();
        CartesianLayout {
            dims,
            periods,
            coords: self.rank_to_coordinates(self.handle.comm.rank()),
        }
    }

    /// The rank at these coordinates, which wrap around in rings (`MPI_Cart_rank`).
    ///
    /// # Panics
    /// If the coordinates are outside of the grid, or not as many as the dimensions.
    #[must_use]
    pub fn coordinates_to_rank(&self, coords: &[Count]) -> Rank {
        let coords = ranks("MPI_Cart_rank", coords).unwrap_or_else(|error| panic!("{error}"));
        made("coordinates_to_rank", self.grid.rank(&coords))
    }

    /// The coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Panics
    /// If there is no such rank, or `coords` is not as long as the number of dimensions.
    pub fn rank_to_coordinates_into(&self, rank: Rank, coords: &mut [Count]) {
        coords.copy_from_slice(&self.rank_to_coordinates(rank));
    }

    /// The coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn rank_to_coordinates(&self, rank: Rank) -> Vec<Count> {
        made("rank_to_coordinates", self.grid.coordinates(rank))
            .map(Count::from)
            .collect()
    }

    /// The source and the destination of this process in a shift by `displacement` along a dimension
    /// (`MPI_Cart_shift`); `None` at an edge.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[must_use]
    pub fn shift(&self, dimension: Count, displacement: Count) -> (Option<Rank>, Option<Rank>) {
        let dimension = usize::try_from(dimension).unwrap_or(usize::MAX);
        let displacement = ranks("MPI_Cart_shift", &[displacement]).unwrap_or_else(|error| panic!("{error}"));
        let shift = self.grid.shift(self.handle.comm.rank(), dimension, displacement[0]);
        let shift = made("shift", shift);
        (shift.source, shift.destination)
    }

    /// The grid of fewer dimensions to which this process belongs (`MPI_Cart_sub`). Collective.
    ///
    /// # Errors
    /// A process is lost, or `retain` does not have one entry for each dimension.
    pub fn subgroup(&self, retain: &[bool]) -> Result<Self, Error> {
        const CALL: &str = "MPI_Cart_sub";
        let comm = &self.handle.comm;
        let sub = self
            .grid
            .sub(comm.rank(), retain)
            .map_err(|error| Error::topology(CALL, error))?;
        let part = comm.split_for(CALL, Some(sub.color), sub.rank)?;
        let part = part.ok_or_else(|| Error::new(ErrorClass::Intern, CALL))?;
        Ok(Self {
            handle: self.handle.sibling(part),
            grid: sub.grid,
        })
    }
}

fn made<T>(name: &str, value: Result<T, TopologyError>) -> T {
    value.unwrap_or_else(|error| panic!("{name}: {error}"))
}
