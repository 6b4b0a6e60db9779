//! Collectives between two groups (MPI 6.2.3): trees within a group, direct messages between groups.
//!
//! Ranks of the own group come first, those of the other one after them; so a rank number means different processes in
//! the two groups. Rank 0 of each group is its leader.

use super::{
    NOBODY, ROOT,
    blocks::{Blocks, Layout},
    call::{Call, ScheduleError},
    collective::Collective,
    member::Member,
    schedule::{Buffer, Builder, Schedule, Span},
    tree::{Shape, Tree},
};

/// The root, as seen from this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Here,
    /// Another rank of this group: this one has nothing to do.
    Beside,
    /// A rank of the other group.
    There(usize),
}

/// One rank of a group that faces another one.
struct Side {
    me: Member,
    remote: usize,
}

impl Call<'_> {
    /// The schedule of `rank` of `size` ranks in a collective with another group of `remote` ranks (MPI 6.2.3). Peers
    /// of the own group are the ranks below `size`, those of the other one come after them. A root is a rank of the
    /// other group, or [`ROOT`] or [`NOBODY`]; blocks belong to ranks of the other group, but for those of a
    /// reduce_scatter.
    ///
    /// # Errors
    ///
    /// An argument is out of range; scans, neighbourhoods and in-place calls are not defined between groups.
    pub fn schedule_between(&self, rank: usize, size: usize, remote: usize) -> Result<Schedule, ScheduleError> {
        let all = size.saturating_add(remote);
        if rank >= size || remote == 0 || u32::try_from(all).is_err() {
            return Err(ScheduleError::Rank { rank, size: all });
        }
        self.check_sizes(self.root() == Some(ROOT), (size, remote))?;
        build(self, Member { rank, size }, remote)
    }
}

/// The schedule of `me` with a remote group of `remote` ranks. Arguments have been checked.
fn build(call: &Call<'_>, me: Member, remote: usize) -> Result<Schedule, ScheduleError> {
    let b = &mut Builder::default();
    let side = Side { me, remote };
    let root = call.root().map_or(Ok(Root::Beside), |root| side.root(root))?;
    let (input, output) = (
        Layout::new(Buffer::INPUT, call.input),
        Layout::new(Buffer::OUTPUT, call.output),
    );
    let (own_input, own_output) = (input.single(), output.single());
    if call.in_place && call.root().is_none() {
        return Err(ScheduleError::Between(call.collective()));
    }
    match call.collective() {
        Collective::Barrier => side.barrier(b),
        Collective::Bcast => side.bcast(b, root, own_input, own_output),
        Collective::Gather | Collective::Gatherv => match root {
            Root::Here => side.receive_all(b, output),
            Root::Beside => {}
            Root::There(root) => b.send(side.there(root), [own_input]),
        },
        Collective::Scatter | Collective::Scatterv => match root {
            Root::Here => side.send_all(b, |rank| input.block(rank)),
            Root::Beside => {}
            Root::There(root) => b.receive(side.there(root), [own_output]),
        },
        Collective::Allgather | Collective::Allgatherv => {
            side.receive_all(b, output);
            side.send_all(b, |_| own_input);
        }
        Collective::Alltoall | Collective::Alltoallv => {
            side.receive_all(b, output);
            side.send_all(b, |rank| input.block(rank));
        }
        Collective::Reduce => match root {
            Root::Here => b.receive(side.there(0), [own_output]),
            Root::Beside => {}
            Root::There(root) => {
                let count = call.output.single();
                if let Some(result) = side.reduce(b, count) {
                    b.send(side.there(root), [result.span(0..count)]);
                }
            }
        },
        Collective::Allreduce => {
            let count = call.output.single();
            if let Some(result) = side.reduce(b, count) {
                side.exchange(b, result.span(0..count), own_output);
            }
            side.tree().bcast(b, count, 1);
        }
        Collective::ReduceScatter | Collective::ReduceScatterBlock => {
            let displacements = &call.output.displacements();
            side.reduce_scatter(b, call.output.packed(displacements));
        }
        Collective::Scan | Collective::Exscan | Collective::NeighborAllgather | Collective::NeighborAlltoall => {
            return Err(ScheduleError::Between(call.collective()));
        }
    }
    Ok(core::mem::take(b).finish())
}

impl Side {
    fn root(&self, root: usize) -> Result<Root, ScheduleError> {
        match root {
            ROOT => Ok(Root::Here),
            NOBODY => Ok(Root::Beside),
            root if root < self.remote => Ok(Root::There(root)),
            root => Err(ScheduleError::Root {
                root,
                size: self.remote,
            }),
        }
    }

    /// The number of a rank of the other group.
    fn there(&self, rank: usize) -> usize {
        self.me.size + rank
    }

    fn tree(&self) -> Tree {
        Tree::new(self.me, 0, Shape::Knomial(2))
    }

    /// The ranks of the other group, each process beginning with another one.
    fn others(&self) -> impl Iterator<Item = usize> {
        let (first, remote) = (self.me.rank % self.remote, self.remote);
        (first..remote).chain(0..first)
    }

    fn receive_all(&self, b: &mut Builder, output: Layout<'_>) {
        for rank in self.others() {
            b.receive(self.there(rank), [output.block(rank)]);
        }
    }

    fn send_all(&self, b: &mut Builder, input: impl Fn(usize) -> Span) {
        for rank in self.others() {
            b.send(self.there(rank), [input(rank)]);
        }
    }

    /// The leader tells the other leader when all ranks of its group are here.
    fn barrier(&self, b: &mut Builder) {
        let tree = self.tree();
        tree.signals_up(b);
        if self.me.rank == 0 {
            b.signal(self.there(0));
            b.await_signal(self.there(0));
            b.end_round();
        }
        tree.signals_down(b);
    }

    fn bcast(&self, b: &mut Builder, root: Root, input: Span, output: Span) {
        match root {
            Root::Here => b.send(self.there(0), [input]),
            Root::Beside => {}
            Root::There(root) => {
                if self.me.rank == 0 {
                    b.receive(self.there(root), [output]);
                    b.end_round();
                }
                self.tree().bcast(b, output.count, 1);
            }
        }
    }

    /// Reduces the operands of this group at its leader.
    fn reduce(&self, b: &mut Builder, count: usize) -> Option<Buffer> {
        let result = (self.me.rank == 0).then(|| b.scratch(count));
        let target = result.unwrap_or(Buffer::OUTPUT);
        self.tree().reduce(b, count, 1, Buffer::INPUT, target);
        b.end_round();
        result
    }

    /// The two leaders exchange spans.
    fn exchange(&self, b: &mut Builder, own: Span, other: Span) {
        b.receive(self.there(0), [other]);
        b.send(self.there(0), [own]);
        b.end_round();
    }

    fn reduce_scatter(&self, b: &mut Builder, blocks: Blocks<'_>) {
        let count = blocks.elements(0..self.me.size).end;
        let result = self.reduce(b, count);
        let vector = b.scratch(count);
        if let Some(result) = result {
            self.exchange(b, result.span(0..count), vector.span(0..count));
        }
        let layout = Layout::new(vector, blocks);
        self.tree().scatter_within(b, layout);
        b.copy(
            layout.block(self.me.rank),
            Buffer::OUTPUT.span(0..blocks.count(self.me.rank)),
        );
    }
}
