#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Collectives in which one process has a part of its own, the root.

use std::{borrow::Borrow, process::Command};

use hikyaku::mpi::{
    Rank,
    collectives::Collective,
    error::{Detail, Error, ErrorClass},
    job::Program,
};

use super::{
    Operation, Persistent,
    begin::Ready,
    methods::{either, methods},
};
use crate::{
    datatype::{Blocks, Buffer, BufferMut, PartitionedBuffer, PartitionedBufferMut, Place},
    environment::{self, SpawnError},
    request::{Found, Request, Scope},
    topology::{AsCommunicator, InterCommunicator, Process, handle},
};

/// A collective with this process as the root.
fn rooted<'a, P: Root + ?Sized>(process: &'a P, call: &'static str, collective: Collective) -> Ready<'a> {
    Ready::of(handle(process), call, collective).rooted(process.root_rank() as usize)
}

/// Collectives with this process as the root: it sends to all others or receives from them. The root calls the methods
/// whose names end in `_root`, all others call those without it.
///
/// Errors: a process is lost, the communicator is revoked, buffers do not fit, a process calls the method of the other
/// side, or the operation is not defined for the elements.
pub trait Root: AsCommunicator {
    /// The rank of the root.
    fn root_rank(&self) -> Rank;

    methods! {
        /// Sends the root's values to all (`MPI_Bcast`).
        broadcast_into, immediate_broadcast_into, persistent_broadcast_into: "MPI_Bcast", "MPI_Ibcast";
        receive buffer: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Bcast).into(&buffer);

        /// Sends the values of all to the root (`MPI_Gather`). For the others.
        gather_into, immediate_gather_into, persistent_gather_into: "MPI_Gather", "MPI_Igather";
        send sendbuf: Buffer as Place;
        |this, call| rooted(this, call, Collective::Gather).from(&sendbuf);

        /// Receives the values of all at the root, in the order of ranks. For the root.
        gather_into_root, immediate_gather_into_root, persistent_gather_into_root: "MPI_Gather", "MPI_Igather";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Gather).from(&sendbuf).into(&recvbuf);

        /// Sends the values of all, in different numbers, to the root (`MPI_Gatherv`). For the others.
        gather_varcount_into, immediate_gather_varcount_into, persistent_gather_varcount_into: "MPI_Gatherv", "MPI_Igatherv";
        send sendbuf: Buffer as Place;
        |this, call| rooted(this, call, Collective::Gatherv).from(&sendbuf);

        /// Receives the values of all, in different numbers, at the root. For the root.
        gather_varcount_into_root, immediate_gather_varcount_into_root, persistent_gather_varcount_into_root: "MPI_Gatherv", "MPI_Igatherv";
        send sendbuf: Buffer as Place;
        receive recvbuf: PartitionedBufferMut as Blocks;
        |this, call| rooted(this, call, Collective::Gatherv).from(&sendbuf).into(&recvbuf);

        /// Receives a part of the root's values (`MPI_Scatter`). For the others.
        scatter_into, immediate_scatter_into, persistent_scatter_into: "MPI_Scatter", "MPI_Iscatter";
        receive recvbuf: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Scatter).into(&recvbuf);

        /// Sends each process a part of the root's values, in the order of ranks. For the root.
        scatter_into_root, immediate_scatter_into_root, persistent_scatter_into_root: "MPI_Scatter", "MPI_Iscatter";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Scatter).from(&sendbuf).into(&recvbuf);

        /// Receives a part of the root's values, where parts have different sizes (`MPI_Scatterv`). For the others.
        scatter_varcount_into, immediate_scatter_varcount_into, persistent_scatter_varcount_into: "MPI_Scatterv", "MPI_Iscatterv";
        receive recvbuf: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Scatterv).into(&recvbuf);

        /// Sends each process a part of the root's values, in parts of different sizes. For the root.
        scatter_varcount_into_root, immediate_scatter_varcount_into_root, persistent_scatter_varcount_into_root: "MPI_Scatterv", "MPI_Iscatterv";
        send sendbuf: PartitionedBuffer as Blocks;
        receive recvbuf: BufferMut as Place;
        |this, call| rooted(this, call, Collective::Scatterv).from(&sendbuf).into(&recvbuf);

        /// Reduces the values of all into the root's buffer (`MPI_Reduce`). For the others.
        reduce_into, immediate_reduce_into, persistent_reduce_into: "MPI_Reduce", "MPI_Ireduce";
        send sendbuf: Buffer as Place;
        operation op: Operation;
        |this, call| rooted(this, call, Collective::Reduce).from(&sendbuf).by(op);

        /// Reduces the values of all into the root's buffer. For the root.
        reduce_into_root, immediate_reduce_into_root, persistent_reduce_into_root: "MPI_Reduce", "MPI_Ireduce";
        send sendbuf: Buffer as Place;
        receive recvbuf: BufferMut as Place;
        operation op: Operation;
        |this, call| rooted(this, call, Collective::Reduce).from(&sendbuf).into(&recvbuf).by(op);
    }

    /// Starts `num_procs` processes of `command` as a world of their own, and gives the communicator between it and this
    /// one (`MPI_Comm_spawn`). Collective; only the arguments of the root count. See
    /// [`spawn_multiple`](Self::spawn_multiple).
    ///
    /// # Errors
    /// As [`spawn_multiple`](Self::spawn_multiple).
    fn spawn(&self, command: &Command, num_procs: Rank) -> Result<InterCommunicator, SpawnError>
    where
        Self: Sized,
    {
        self.spawn_multiple([command], &[num_procs])
    }

    /// Starts processes of several programs, `num_procs[i]` of the `i`-th, as one world of their own, and gives the
    /// communicator between it and this one (`MPI_Comm_spawn_multiple`). Collective; only the arguments of the root
    /// count. The processes get the program and the arguments of a command, which must be UTF-8, and run on the hosts of
    /// the job in turn. They find the other end by [`Communicator::parent`](crate::traits::Communicator::parent).
    ///
    /// # Errors
    /// At the root: the launcher cannot start more processes (`hikyaku run` can, and those with PMI or PMIx), or has no
    /// place for them; the job is simulated; a program cannot be started, or its processes do not begin MPI. The others
    /// then get an error of class [`Spawn`](crate::ErrorClass::Spawn). A process is lost.
    fn spawn_multiple(
        &self,
        commands: impl IntoIterator<Item = impl Borrow<Command>>,
        num_procs: &[Rank],
    ) -> Result<InterCommunicator, SpawnError>
    where
        Self: Sized,
    {
        let words = |command: &Command| -> Vec<String> {
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let programs = commands.into_iter().zip(num_procs).map(|(command, count)| Program {
            command: words(command.borrow()),
            processes: u32::try_from(*count).unwrap_or(0),
        });
        let programs: Vec<Program> = programs.collect();
        let Some(job) = environment::job() else {
            let detail = Detail::Text("simulated ranks cannot start processes");
            return Err(Error::new(ErrorClass::Spawn, "MPI_Comm_spawn")
                .with_detail(detail)
                .into());
        };
        let handle = handle(self);
        let between = job.spawn(&handle.comm, self.root_rank(), &programs)?;
        Ok(InterCommunicator::new(handle.sibling(between)))
    }
}

impl Root for Process<'_> {
    fn root_rank(&self) -> Rank {
        self.rank()
    }
}
