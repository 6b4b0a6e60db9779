//! Grids (MPI 8.5). Ranks are in row-major order: the last coordinate runs fastest.

use alloc::vec::Vec;

use super::{Rank, TopologyError, same_length};

/// A grid of processes, each dimension of which may be a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dimensions: Vec<Dimension>,
    size: Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    size: Rank,
    is_periodic: bool,
    /// The distance in ranks of neighbours along this dimension.
    stride: Rank,
}

/// Partners of a shift (`MPI_Cart_shift`). `None` is `MPI_PROC_NULL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The rank from which data come.
    pub source: Option<Rank>,
    /// The rank to which data go.
    pub destination: Option<Rank>,
}

/// The subgrid of a process (`MPI_Cart_sub`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sub {
    /// That grid.
    pub grid: Cartesian,
    /// Number of this subgrid: the colour for `MPI_Comm_split`.
    pub color: Rank,
    /// The rank of the process in it: the key for `MPI_Comm_split`.
    pub rank: Rank,
}

impl Cartesian {
    /// A grid of `sizes` (`MPI_Cart_create`), for a communicator of `processes`. If there are more of these than it
    /// needs, those from [`size`](Self::size) on are not part of it. No dimensions make a grid of one process.
    ///
    /// # Errors
    /// [`TopologyError::Lengths`], [`TopologyError::Dimension`], [`TopologyError::TooLarge`].
    pub fn new(processes: Rank, sizes: &[Rank], periods: &[bool]) -> Result<Self, TopologyError> {
        same_length("periods", periods.len(), sizes.len())?;
        if let Some(dimension) = sizes.iter().position(|size| *size < 1) {
            let size = sizes[dimension];
            return Err(TopologyError::Dimension { dimension, size });
        }
        let mut stride: Rank = 1;
        let mut dimensions = Vec::with_capacity(sizes.len());
        for (&size, &is_periodic) in sizes.iter().zip(periods).rev() {
            dimensions.push(Dimension {
                size,
                is_periodic,
                stride,
            });
            stride = stride.checked_mul(size).ok_or(TopologyError::TooLarge { processes })?;
        }
        if stride > processes {
            return Err(TopologyError::TooLarge { processes });
        }
        dimensions.reverse();
        Ok(Self {
            dimensions,
            size: stride,
        })
    }

    /// Number of processes that are part of it.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.size
    }

    /// Size of each dimension, and whether it is periodic.
    pub fn dimensions(&self) -> impl ExactSizeIterator<Item = (Rank, bool)> + '_ {
        self.dimensions
            .iter()
            .map(|dimension| (dimension.size, dimension.is_periodic))
    }

    /// The coordinates of `rank`, one per dimension (`MPI_Cart_coords`).
    ///
    /// # Errors
    /// [`TopologyError::Rank`].
    pub fn coordinates(&self, rank: Rank) -> Result<impl ExactSizeIterator<Item = Rank> + '_, TopologyError> {
        self.check(rank)?;
        Ok(self.dimensions.iter().map(move |dimension| dimension.coordinate(rank)))
    }

    /// The rank at `coordinates` (`MPI_Cart_rank`). They wrap around in periodic dimensions.
    ///
    /// # Errors
    /// [`TopologyError::Lengths`], [`TopologyError::Coordinate`].
    pub fn rank(&self, coordinates: &[Rank]) -> Result<Rank, TopologyError> {
        same_length("coords", coordinates.len(), self.dimensions.len())?;
        let mut rank = 0;
        for (number, (dimension, &coordinate)) in self.dimensions.iter().zip(coordinates).enumerate() {
            let Some(inside) = dimension.wrapped(i64::from(coordinate)) else {
                return Err(TopologyError::Coordinate {
                    dimension: number,
                    coordinate,
                    size: dimension.size,
                });
            };
            rank += inside * dimension.stride;
        }
        Ok(rank)
    }

    /// The ranks `displacement` away from `rank` in both directions of a dimension (`MPI_Cart_shift`).
    ///
    /// # Errors
    /// [`TopologyError::Rank`], [`TopologyError::NoDimension`].
    pub fn shift(&self, rank: Rank, dimension: usize, displacement: Rank) -> Result<Shift, TopologyError> {
        self.check(rank)?;
        let Some(line) = self.dimensions.get(dimension) else {
            return Err(TopologyError::NoDimension {
                dimension,
                dimensions: self.dimensions.len(),
            });
        };
        Ok(Shift {
            source: line.moved(rank, -i64::from(displacement)),
            destination: line.moved(rank, i64::from(displacement)),
        })
    }

    /// The grid of the dimensions that `remain` in which `rank` is (`MPI_Cart_sub`).
    ///
    /// # Errors
    /// [`TopologyError::Rank`], [`TopologyError::Lengths`].
    pub fn sub(&self, rank: Rank, remain: &[bool]) -> Result<Sub, TopologyError> {
        self.check(rank)?;
        same_length("remain_dims", remain.len(), self.dimensions.len())?;
        let mut sub = Sub {
            grid: Self {
                dimensions: Vec::new(),
                size: 1,
            },
            color: 0,
            rank: 0,
        };
        for (dimension, &remains) in self.dimensions.iter().zip(remain) {
            let number = if remains { &mut sub.rank } else { &mut sub.color };
            *number = *number * dimension.size + dimension.coordinate(rank);
        }
        for (dimension, _) in self
            .dimensions
            .iter()
            .zip(remain)
            .rev()
            .filter(|(_, remains)| **remains)
        {
            let stride = sub.grid.size;
            sub.grid.dimensions.push(Dimension { stride, ..*dimension });
            sub.grid.size *= dimension.size;
        }
        sub.grid.dimensions.reverse();
        Ok(sub)
    }

    /// The neighbours of `rank`, both sources and destinations: for each dimension the one before and the one after;
    /// `None` beyond an edge (MPI 8.6). One process may be there more than once.
    ///
    /// # Errors
    /// [`TopologyError::Rank`].
    pub fn neighbors(&self, rank: Rank) -> Result<impl Iterator<Item = Option<Rank>> + '_, TopologyError> {
        self.check(rank)?;
        let around = move |dimension: &Dimension| [dimension.moved(rank, -1), dimension.moved(rank, 1)];
        Ok(self.dimensions.iter().flat_map(around))
    }

    fn check(&self, rank: Rank) -> Result<(), TopologyError> {
        if (0..self.size).contains(&rank) {
            Ok(())
        } else {
            let size = self.size;
            Err(TopologyError::Rank { rank, size })
        }
    }
}

impl Dimension {
    fn coordinate(&self, rank: Rank) -> Rank {
        rank / self.stride % self.size
    }

    /// `coordinate` within the dimension.
    fn wrapped(&self, coordinate: i64) -> Option<Rank> {
        let size = i64::from(self.size);
        let inside = coordinate.rem_euclid(size);
        (self.is_periodic || inside == coordinate).then_some(inside as Rank)
    }

    /// The rank `by` further on than `rank`.
    fn moved(&self, rank: Rank, by: i64) -> Option<Rank> {
        let from = self.coordinate(rank);
        let to = self.wrapped(i64::from(from) + by)?;
        Some(rank + (to - from) * self.stride)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    fn grids() -> impl Strategy<Value = Cartesian> {
        prop::collection::vec((1..5, any::<bool>()), 0..4).prop_map(|dimensions| {
            let (sizes, periods): (Vec<Rank>, Vec<bool>) = dimensions.into_iter().unzip();
            Cartesian::new(1_000, &sizes, &periods).unwrap()
        })
    }

    fn coordinates(grid: &Cartesian, rank: Rank) -> Vec<Rank> {
        grid.coordinates(rank).unwrap().collect()
    }

    proptest! {
        #[test]
        fn ranks_are_row_major(grid in grids()) {
            let all: Vec<_> = (0..grid.size()).map(|rank| coordinates(&grid, rank)).collect();
            prop_assert!(all.is_sorted());
            for (rank, coordinates) in (0..).zip(&all) {
                prop_assert_eq!(grid.rank(coordinates), Ok(rank));
            }
        }

        #[test]
        fn shifts_are_coordinates(grid in grids(), displacement in prop_oneof![-9..10, any::<Rank>()]) {
            for rank in 0..grid.size() {
                for (dimension, (size, is_periodic)) in grid.dimensions().enumerate() {
                    let at = |by: i64| {
                        let mut there = coordinates(&grid, rank);
                        let place = i64::from(there[dimension]) + by;
                        there[dimension] = if is_periodic {
                            place.rem_euclid(i64::from(size)) as Rank
                        } else {
                            Rank::try_from(place).ok()?
                        };
                        grid.rank(&there).ok()
                    };
                    let by = i64::from(displacement);
                    let expected = Shift { source: at(-by), destination: at(by) };
                    prop_assert_eq!(grid.shift(rank, dimension, displacement), Ok(expected));
                }
            }
        }

        #[test]
        fn subgrids_keep_coordinates(grid in grids(), remain in prop::collection::vec(any::<bool>(), 4)) {
            let remain = &remain[..grid.dimensions().len()];
            let mut members = vec![];
            for rank in 0..grid.size() {
                let sub = grid.sub(rank, remain).unwrap();
                let kept = coordinates(&grid, rank).into_iter().zip(remain).filter(|(_, remains)| **remains);
                let kept: Vec<Rank> = kept.map(|(coordinate, _)| coordinate).collect();
                prop_assert_eq!(coordinates(&sub.grid, sub.rank), kept);
                members.push((sub.color, sub.rank));
            }
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), grid.size() as usize, "no place is taken twice");
        }
    }

    #[test]
    fn neighbors_are_in_the_order_of_the_standard() {
        let grid = Cartesian::new(12, &[3, 4], &[true, false]).unwrap();
        let neighbors = |rank| grid.neighbors(rank).unwrap().collect::<Vec<_>>();
        assert_eq!(neighbors(0), [Some(8), Some(4), None, Some(1)]);
        assert_eq!(neighbors(11), [Some(7), Some(3), Some(10), None]);
        // A ring of one process is its own neighbour, twice.
        let ring = Cartesian::new(1, &[1], &[true]).unwrap();
        assert_eq!(ring.neighbors(0).unwrap().collect::<Vec<_>>(), [Some(0), Some(0)]);
    }

    #[test]
    fn coordinates_wrap_in_periodic_dimensions_only() {
        let grid = Cartesian::new(12, &[3, 4], &[true, false]).unwrap();
        assert_eq!(grid.rank(&[-1, 0]), Ok(8));
        let out = TopologyError::Coordinate {
            dimension: 1,
            coordinate: 4,
            size: 4,
        };
        assert_eq!(grid.rank(&[0, 4]), Err(out));
        assert_eq!(
            grid.shift(0, 1, -1),
            Ok(Shift {
                source: Some(1),
                destination: None
            })
        );
    }

    #[test]
    fn bad_grids_are_refused() {
        let new = |sizes: &[Rank]| Cartesian::new(8, sizes, &vec![false; sizes.len()]);
        assert_eq!(new(&[3, 3]), Err(TopologyError::TooLarge { processes: 8 }));
        assert_eq!(new(&[Rank::MAX; 3]), Err(TopologyError::TooLarge { processes: 8 }));
        assert_eq!(new(&[2, 0]), Err(TopologyError::Dimension { dimension: 1, size: 0 }));
        assert!(Cartesian::new(8, &[2], &[]).is_err());
        assert_eq!(new(&[]).map(|grid| grid.size()), Ok(1));
        let grid = new(&[2, 3]).unwrap();
        assert!(grid.coordinates(6).is_err() && grid.neighbors(-1).is_err());
        assert!(grid.shift(0, 2, 1).is_err() && grid.sub(0, &[true]).is_err() && grid.rank(&[0]).is_err());
    }
}
