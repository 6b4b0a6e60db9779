//! Collectives of a trace.

use hikyaku::mpi::{
    collectives::{self, Collective as Kind, NOBODY, Partners, ROOT},
    engine::ANY_SOURCE,
};
use hikyaku_bench::traces::Call;

use super::fields::{PROC_NULL, lacks, unknown};

/// A collective. What it does not have is 0 or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collective {
    pub kind: Kind,
    /// Between two groups that is [`ROOT`] at the root itself, and [`NOBODY`] at others of its group.
    pub root: Option<usize>,
    /// Bytes of this rank's block, or of all that a root sends to all.
    pub own: usize,
    pub sent: Lengths,
    pub received: Lengths,
    pub vector: Vector,
    pub sources: Vec<i32>,
    pub destinations: Vec<i32>,
    /// These are the neighbours in a grid.
    pub crossed: bool,
}

impl Collective {
    /// A collective of `own` bytes from each rank, or from the root.
    pub(crate) fn new(kind: Kind, root: Option<usize>, own: usize) -> Self {
        Self {
            kind,
            root,
            own,
            sent: Lengths::Even(own),
            received: Lengths::Even(own),
            vector: Vector::default(),
            sources: Vec::new(),
            destinations: Vec::new(),
            crossed: false,
        }
    }
}

/// Bytes of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    Even(usize),
    Each(Vec<usize>),
}

/// The reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector {
    /// Elements, and bytes of one: 1, 2, 4 or 8.
    pub count: usize,
    pub element: usize,
    pub commutative: bool,
}

impl Vector {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.element
    }
}

fn bytes(number: u64) -> Result<usize, String> {
    let most = 1 << 40;
    if number > most {
        return Err(format!("{number} bytes: at most {most} were expected"));
    }
    Ok(number as usize)
}

fn lengths(list: &[u64], even: bool) -> Result<Lengths, String> {
    let each: Vec<usize> = list.iter().map(|number| bytes(*number)).collect::<Result<_, _>>()?;
    Ok(if even {
        Lengths::Even(each.first().copied().unwrap_or(0))
    } else {
        Lengths::Each(each)
    })
}

fn vector(call: &Call) -> Result<Vector, String> {
    let (total, count) = (bytes(call.bytes)?, bytes(call.count)?);
    let whole = |element: &usize| element * count == total;
    let element = [2, 4, 8].into_iter().find(whole).unwrap_or(1);
    Ok(Vector {
        count: total / element,
        element,
        commutative: call.operation.as_deref() != Some("user"),
    })
}

/// The collective and the name of the call. `is_grid`: its communicator has the topology of a grid.
pub(super) fn read(call: &Call, is_grid: bool) -> Result<(&'static str, Collective), String> {
    let (kind, function) = Kind::of_function(&call.call).ok_or_else(|| unknown(&call.call))?;
    let name = function.names().into_iter().find(|name| *name == call.call);
    let name = name.unwrap_or(function.blocking);
    let even = function.lengths == collectives::Lengths::Alike;
    let root = match (kind.partners(), call.peer) {
        (Partners::Root, Some(ANY_SOURCE)) => Some(ROOT),
        (Partners::Root, Some(PROC_NULL)) => Some(NOBODY),
        (Partners::Root, peer) => {
            let root = peer.and_then(|peer| usize::try_from(peer).ok());
            Some(root.ok_or_else(|| lacks(name, "peer", "the root's rank"))?)
        }
        (Partners::All | Partners::Neighbours, _) => None,
    };
    let what = Collective {
        kind,
        root,
        own: bytes(call.bytes)?,
        sent: lengths(&call.sent, even)?,
        received: lengths(&call.received, even)?,
        vector: if kind.reduces() {
            vector(call)?
        } else {
            Vector::default()
        },
        sources: call.sources.clone(),
        destinations: call.destinations.clone(),
        crossed: is_grid && kind.partners() == Partners::Neighbours,
    };
    Ok((name, what))
}
