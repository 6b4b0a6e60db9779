//! The compact form of a type map: contiguous data are one run, and repetitions are a loop, however many there are.
//!
//! Only bytes matter here, in packing order. A [`Node`] is canonical in one respect: its first byte in packing order is
//! at its `offset`, so the shapes below it can be shared and compared wherever they are.
//!
//! Arithmetic does not overflow because the constructors check the bounds of all data first: offsets are places of
//! data, and strides are distances between them.

use alloc::{borrow::Cow, boxed::Box, sync::Arc, vec::Vec};
use core::ops::Deref;

/// How deeply loops and lists may be nested after normalisation. A subarray takes one level per dimension.
pub const MAX_DEPTH: usize = 64;

/// Nodes of at most this many runs are written out within a list of others, so that nested structures become one list.
const SPLICE_RUNS: u64 = 8;

/// A static value or a counted one.
#[derive(Debug)]
pub(super) enum Shared<T: 'static> {
    Static(&'static T),
    Counted(Arc<T>),
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(&raw const **self, &raw const **other) || **self == **other
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(value) => Self::Static(value),
            Self::Counted(value) => Self::Counted(Arc::clone(value)),
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(value) => value,
            Self::Counted(value) => value,
        }
    }
}

/// A shape at a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Offset of the first byte in packing order.
    pub(super) offset: i64,
    pub(super) shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Empty,
    /// At offset and start 0.
    Run(Run),
    /// At least two runs.
    Runs(Shared<Runs>),
    Loop(Arc<Loop>),
    /// At least two parts, not all of them runs.
    Parts(Arc<Parts>),
}

/// Contiguous bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Relative to the shape.
    pub(super) offset: i64,
    /// Packed offset of its beginning, relative to the shape.
    pub(super) start: u64,
    /// Not 0.
    pub(super) len: u64,
}

#[derive(Debug, PartialEq)]
pub(super) struct Runs {
    pub(super) list: Cow<'static, [Run]>,
    pub(super) size: u64,
    /// The length of all of them, if they have the same; otherwise 0.
    pub(super) uniform: u64,
}

/// At least two copies of a shape, `stride` bytes apart.
#[derive(Debug, PartialEq)]
pub(super) struct Loop {
    pub(super) count: u64,
    pub(super) stride: i64,
    pub(super) child: Shape,
    pub(super) child_size: u64,
    depth: usize,
}

#[derive(Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) list: Box<[Part]>,
    size: u64,
    /// The size of all of them, if they have the same; otherwise 0.
    uniform: u64,
    depth: usize,
}

#[derive(Debug, PartialEq)]
pub(super) struct Part {
    /// Packed offset of its beginning, relative to the shape.
    pub(super) start: u64,
    pub(super) node: Node,
}

/// The error for a shape that is nested too deeply.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooDeep;

impl Node {
    pub(super) const EMPTY: Self = Self {
        offset: 0,
        shape: Shape::Empty,
    };

    pub(super) const fn run(offset: i64, len: u64) -> Self {
        Self {
            offset,
            shape: Shape::run(len),
        }
    }

    /// The same, shifted by `by` bytes. The offset fits an `i64` because the bounds have been checked.
    pub(super) fn shifted(&self, by: i128) -> Self {
        Self {
            offset: (i128::from(self.offset) + by) as i64,
            shape: self.shape.clone(),
        }
    }

    /// `count` copies, each `stride` bytes after the previous one.
    pub(super) fn repeated(&self, count: u64, stride: i64) -> Result<Self, TooDeep> {
        Ok(Self {
            offset: self.offset,
            shape: match &self.shape {
                _ if count == 0 => return Ok(Self::EMPTY),
                shape if count == 1 => shape.clone(),
                Shape::Empty => Shape::Empty,
                Shape::Run(run) if run.len as i64 == stride => Shape::run(run.len * count),
                Shape::Loop(inner) if i128::from(inner.stride) * i128::from(inner.count) == i128::from(stride) => {
                    Shape::repeat(&inner.child, count * inner.count, inner.stride)?
                }
                shape => Shape::repeat(&shape.flat()?, count, stride)?,
            },
        })
    }

    /// The same with its shape [`flat`](Shape::flat).
    pub(super) fn flat(self) -> Result<Self, TooDeep> {
        let shape = self.shape.flat()?;
        Ok(Self { shape, ..self })
    }

    /// One after the other in packed order.
    pub(super) fn sequence(nodes: impl IntoIterator<Item = Self>) -> Result<Self, TooDeep> {
        let mut list = Vec::<Self>::new();
        for node in nodes {
            append(&mut list, node);
        }
        if let Some(repeated) = progression(&list) {
            return repeated;
        }
        let mut spliced = Vec::with_capacity(list.len());
        for node in list {
            node.splice(&mut spliced);
        }
        let Some(first) = spliced.first() else {
            return Ok(Self::EMPTY);
        };
        let offset = first.offset;
        if spliced.len() == 1 {
            return Ok(spliced.remove(0));
        }
        for node in &mut spliced {
            node.offset -= offset;
        }
        let shape = if spliced.iter().all(|node| matches!(node.shape, Shape::Run(_))) {
            Shape::runs(&spliced)
        } else {
            Shape::parts(spliced)?
        };
        Ok(Self { offset, shape })
    }

    /// Appends this to `list`, written out if it is small.
    fn splice(self, list: &mut Vec<Self>) {
        if self.shape.run_count() > SPLICE_RUNS {
            append(list, self);
            return;
        }
        match &self.shape {
            Shape::Empty => {}
            Shape::Run(_) => append(list, self),
            Shape::Runs(runs) => {
                for run in &*runs.list {
                    append(list, Self::run(self.offset + run.offset, run.len));
                }
            }
            Shape::Loop(inner) => {
                for index in 0..inner.count as i64 {
                    let offset = self.offset + index * inner.stride;
                    let shape = inner.child.clone();
                    Self { offset, shape }.splice(list);
                }
            }
            Shape::Parts(parts) => {
                for part in &parts.list {
                    part.node.shifted(i128::from(self.offset)).splice(list);
                }
            }
        }
    }
}

impl Shape {
    const fn run(len: u64) -> Self {
        Self::Run(Run {
            offset: 0,
            start: 0,
            len,
        })
    }

    fn repeat(child: &Self, count: u64, stride: i64) -> Result<Self, TooDeep> {
        Ok(Self::Loop(Arc::new(Loop {
            count,
            stride,
            child: child.clone(),
            child_size: child.size(),
            depth: deeper(child.depth())?,
        })))
    }

    fn runs(nodes: &[Node]) -> Self {
        let mut size = 0;
        let mut list = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (offset, start, len) = (node.offset, size, node.shape.size());
            list.push(Run { offset, start, len });
            size += len;
        }
        let uniform = uniform(list.iter().map(|run| run.len));
        Self::Runs(Shared::Counted(Arc::new(Runs {
            list: Cow::Owned(list),
            size,
            uniform,
        })))
    }

    fn parts(nodes: Vec<Node>) -> Result<Self, TooDeep> {
        let mut size = 0;
        let depth = nodes.iter().map(|node| node.shape.depth()).max().unwrap_or(0);
        let uniform = uniform(nodes.iter().map(|node| node.shape.size()));
        let list = nodes
            .into_iter()
            .map(|node| {
                let start = size;
                size += node.shape.size();
                Part { start, node }
            })
            .collect();
        Ok(Self::Parts(Arc::new(Parts {
            list,
            size,
            uniform,
            depth: deeper(depth)?,
        })))
    }

    /// As one list of runs if there are few, so that loops around it need not descend for each turn.
    fn flat(&self) -> Result<Self, TooDeep> {
        let nested = matches!(self, Self::Loop(_) | Self::Parts(_));
        if !nested || self.run_count() > SPLICE_RUNS {
            return Ok(self.clone());
        }
        let shape = self.clone();
        Ok(Node::sequence([Node { offset: 0, shape }])?.shape)
    }

    /// Bytes of data.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Run(run) => run.len,
            Self::Runs(runs) => runs.size,
            Self::Loop(inner) => inner.count * inner.child_size,
            Self::Parts(parts) => parts.size,
        }
    }

    /// How many runs it has; long lists of parts count as very many.
    pub(super) fn run_count(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Run(_) => 1,
            Self::Runs(runs) => runs.list.len() as u64,
            Self::Loop(inner) => inner.count.saturating_mul(inner.child.run_count()),
            Self::Parts(parts) if parts.list.len() as u64 > SPLICE_RUNS => u64::MAX,
            Self::Parts(parts) => {
                let counts = parts.list.iter().map(|part| part.node.shape.run_count());
                counts.fold(0, u64::saturating_add)
            }
        }
    }

    fn depth(&self) -> usize {
        match self {
            Self::Empty | Self::Run(_) | Self::Runs(_) => 0,
            Self::Loop(inner) => inner.depth,
            Self::Parts(parts) => parts.depth,
        }
    }

    /// Whether both are the same by construction: not all equal shapes are recognised.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Run(a), Self::Run(b)) => a == b,
            (Self::Runs(a), Self::Runs(b)) => core::ptr::eq(&raw const **a, &raw const **b),
            (Self::Loop(a), Self::Loop(b)) => Arc::ptr_eq(a, b),
            (Self::Parts(a), Self::Parts(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Runs {
    /// The index of the run that holds packed byte `position`, which is below `size`.
    pub(super) fn find(&self, position: u64) -> usize {
        match self.uniform {
            0 => self.list.partition_point(|run| run.start <= position) - 1,
            len => (position / len) as usize,
        }
    }
}

impl Parts {
    /// The part that holds packed byte `position`, which is below the size.
    pub(super) fn find(&self, position: u64) -> &Part {
        &self.list[match self.uniform {
            0 => self.list.partition_point(|part| part.start <= position) - 1,
            size => (position / size) as usize,
        }]
    }
}

/// Appends `node`, joined with the last one if together they are one run.
fn append(list: &mut Vec<Node>, node: Node) {
    if matches!(node.shape, Shape::Empty) {
        return;
    }
    if let (Some(last), Shape::Run(next)) = (list.last_mut(), &node.shape)
        && let Shape::Run(run) = &mut last.shape
        && last.offset.checked_add_unsigned(run.len) == Some(node.offset)
    {
        run.len += next.len;
    } else {
        list.push(node);
    }
}

/// `list` as a loop, if all its nodes are alike and at equal distances.
fn progression(list: &[Node]) -> Option<Result<Node, TooDeep>> {
    let [first, second, ..] = list else { return None };
    if first.shape.run_count().saturating_mul(list.len() as u64) <= SPLICE_RUNS {
        return None;
    }
    let stride = second.offset - first.offset;
    list.windows(2)
        .all(|pair| pair[1].offset - pair[0].offset == stride && pair[0].shape.is_same(&pair[1].shape))
        .then(|| first.repeated(list.len() as u64, stride))
}

/// The common value of all `sizes`, or 0.
fn uniform(mut sizes: impl Iterator<Item = u64>) -> u64 {
    let first = sizes.next().unwrap_or(0);
    if sizes.all(|size| size == first) { first } else { 0 }
}

fn deeper(depth: usize) -> Result<usize, TooDeep> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(TooDeep) }
}
