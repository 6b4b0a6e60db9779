//! Communicators, with what programs attach to them.

use std::sync::Mutex;

use hikyaku::mpi::{
    engine,
    error::ErrorClass,
    topology::{Adjacency, Cartesian, Graph},
};

use super::{Attributes, Buffered, Handler, Held, Session, lock};
use crate::border::Failure;

/// A communicator of the program.
#[derive(Debug)]
pub struct Communicator {
    /// The engine's.
    pub comm: engine::Communicator,
    /// Its topology.
    pub topology: Topology,
    /// Its error handler.
    pub handler: Mutex<Held<Handler>>,
    /// Its buffer for buffered sends.
    pub buffered: Buffered,
    /// The session of which it was made, if it was.
    pub session: Option<Session>,
    /// Its name.
    pub name: Mutex<String>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A topology.
#[derive(Clone, Debug, Default)]
pub enum Topology {
    /// None.
    #[default]
    None,
    /// A grid.
    Cartesian(Cartesian),
    /// A graph that all ranks know.
    Graph(Graph),
    /// The neighbours of this rank, and whether their edges have weights.
    Adjacent(Adjacency, bool),
}

/// Ranks to receive from and to send to.
#[derive(Debug)]
pub struct Neighbours {
    /// Of the messages to receive, in the order of the blocks.
    pub sources: Vec<Option<usize>>,
    /// Of the messages to send.
    pub destinations: Vec<Option<usize>>,
    /// They are those of a grid: a message upwards arrives from below.
    pub crossed: bool,
}

impl Communicator {
    /// One with this topology, the error handler of `parent` and nothing else.
    #[must_use]
    pub fn new(comm: engine::Communicator, topology: Topology, parent: Option<&Self>) -> Self {
        let handler = parent.map_or_else(Handler::fatal, |parent| lock(&parent.handler).clone());
        Self {
            comm,
            topology,
            handler: Mutex::new(handler),
            buffered: Buffered::default(),
            session: parent.and_then(|parent| parent.session),
            name: Mutex::default(),
            attributes: Attributes::default(),
        }
    }

    /// Its neighbours.
    ///
    /// # Errors
    /// It has no topology.
    pub fn neighbours(&self) -> Result<Neighbours, Failure> {
        let (rank, index) = (self.comm.rank(), |rank: &i32| usize::try_from(*rank).ok());
        Ok(match &self.topology {
            Topology::None => {
                let text = "the communicator has no topology";
                return Err(Failure::text(ErrorClass::Topology, text));
            }
            Topology::Cartesian(grid) => {
                let near: Vec<_> = grid
                    .neighbors(rank)?
                    .map(|near| near.map(|near| near as usize))
                    .collect();
                Neighbours {
                    destinations: near.clone(),
                    sources: near,
                    crossed: true,
                }
            }
            Topology::Graph(graph) => {
                let near: Vec<_> = graph.neighbors(rank)?.iter().map(index).collect();
                Neighbours {
                    destinations: near.clone(),
                    sources: near,
                    crossed: false,
                }
            }
            Topology::Adjacent(near, _) => Neighbours {
                sources: near.sources().iter().map(index).collect(),
                destinations: near.destinations().iter().map(index).collect(),
                crossed: false,
            },
        })
    }
}
