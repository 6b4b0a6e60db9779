#![expect(unsafe_code, reason = "reads the command lines of the program")]
//! Processes that start others (MPI 11.8).

use std::{
    ffi::{CStr, c_char},
    ptr,
    sync::OnceLock,
};

use hikyaku::mpi::{
    error::ErrorClass,
    job::{Program, SpawnError},
};

use super::{Done, communicators::hand_out};
use crate::{
    border::{Call, Failure, Handles, InOut, Int, Ints, OutInts, Pointer, Rank},
    objects::{Comm, Communicator, Info, InfoObject, Topology},
    process,
};

#[doc(hidden)]
#[macro_export]
macro_rules! spawning {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Comm_get_parent" => spawn::comm_get_parent(parent: InOut<Communicator>);
                "Comm_spawn" => spawn::comm_spawn(
                    command: Pointer, argv: Pointer, maxprocs: Int, info: Info, root: Rank, comm: Comm,
                    intercomm: InOut<Communicator>, array_of_errcodes: OutInts);
                "Comm_spawn_multiple" => spawn::comm_spawn_multiple(
                    count: Int, array_of_commands: Pointer, array_of_argv: Pointer, array_of_maxprocs: Ints,
                    array_of_info: Handles<InfoObject>, root: Rank, comm: Comm, intercomm: InOut<Communicator>,
                    array_of_errcodes: OutInts);
            }
        };
    };
}

/// The communicator that the launcher's processes, and those that have left their parents, do not have.
pub fn comm_get_parent(_call: Call, parent: InOut<Communicator>) -> Done {
    static PARENT: OnceLock<Option<Comm>> = OnceLock::new();
    let known = PARENT.get_or_init(|| {
        let made = process::job()?.parent()?.clone();
        Some(Comm::insert(Communicator::new(made, Topology::None, None)))
    });
    parent.set(known.filter(|known| known.find().is_some()).unwrap_or(Comm::NULL));
    Ok(())
}

pub fn comm_spawn(
    _call: Call,
    command: Pointer,
    argv: Pointer,
    maxprocs: Int,
    _info: Info,
    root: Rank,
    comm: Comm,
    intercomm: InOut<Communicator>,
    array_of_errcodes: OutInts,
) -> Done {
    let programs = |is_root: bool| match is_root {
        // SAFETY: at the root they are a string and strings up to a null pointer, or a null pointer (MPI 11.8.2).
        true => Ok(vec![unsafe { program(command.0, argv.0, maxprocs.0) }?]),
        false => Ok(Vec::new()),
    };
    spawn(programs, root, comm, intercomm, array_of_errcodes)
}

pub fn comm_spawn_multiple(
    _call: Call,
    count: Int,
    array_of_commands: Pointer,
    array_of_argv: Pointer,
    array_of_maxprocs: Ints,
    array_of_info: Handles<InfoObject>,
    root: Rank,
    comm: Comm,
    intercomm: InOut<Communicator>,
    array_of_errcodes: OutInts,
) -> Done {
    let programs = |is_root: bool| {
        if !is_root {
            return Ok(Vec::new());
        }
        let count = usize::try_from(count.0)
            .map_err(|_| Failure::value(ErrorClass::Count, "count", count.0.into(), 1, i32::MAX.into()))?;
        if count > 0 && array_of_commands.0 == 0 {
            return Err(Failure::text(ErrorClass::Arg, "array_of_commands is a null pointer"));
        }
        // Their contents are not read: the launcher has no settings for single programs.
        let infos = array_of_info.iter(count)?;
        infos
            .filter(|info| !info.is_null())
            .try_for_each(|info| info.get().map(drop))?;
        let processes = array_of_maxprocs.list(count)?;
        let program = |(index, processes)| {
            // SAFETY: at the root the arrays have `count` elements; that of arguments may be a null pointer.
            unsafe {
                let command = element(array_of_commands.0, index);
                let argv = if array_of_argv.0 == 0 {
                    0
                } else {
                    element(array_of_argv.0, index)
                };
                program(command, argv, processes)
            }
        };
        processes.into_iter().enumerate().map(program).collect()
    };
    spawn(programs, root, comm, intercomm, array_of_errcodes)
}

/// Has the programs started that the root names. All processes are started, or none. The others hear of a mistake of the
/// root's as of any other reason why it has started none.
fn spawn(
    programs: impl FnOnce(bool) -> Result<Vec<Program>, Failure>,
    root: Rank,
    comm: Comm,
    intercomm: InOut<Communicator>,
    errcodes: OutInts,
) -> Done {
    let comm = comm.get()?;
    // The launcher refuses to start no program.
    let (programs, mistake) = match programs(comm.comm.rank() == root.0) {
        Ok(programs) => (programs, None),
        Err(mistake) => (Vec::new(), Some(mistake)),
    };
    let job = process::job().ok_or_else(|| Failure::text(ErrorClass::Spawn, "this process has left its job"))?;
    let made = job
        .spawn(&comm.comm, root.0, &programs)
        .map_err(|error| match (error, mistake) {
            (SpawnError::Mpi(error), _) => Failure::Engine(error),
            (_, Some(mistake)) => mistake,
            (error, None) => {
                eprintln!("hikyaku: {error}");
                Failure::text(ErrorClass::Spawn, "the processes could not be started, as printed")
            }
        })?;
    if errcodes.address() != 0 {
        // All of them run.
        let started = made.remote_size().unwrap_or(0);
        errcodes.fill((0..started).map(|_| 0))?;
    }
    hand_out(intercomm, Some(made), Topology::None, Some(&comm));
    Ok(())
}

/// A program by its command line.
///
/// # Safety
/// `command` is the address of a string, and `argv` of strings up to a null pointer, or 0.
unsafe fn program(command: usize, argv: usize, processes: i32) -> Result<Program, Failure> {
    let processes = u32::try_from(processes).ok().filter(|processes| *processes > 0);
    let processes =
        processes.ok_or_else(|| Failure::text(ErrorClass::Spawn, "the number of processes is not at least 1"))?;
    if command == 0 {
        return Err(Failure::text(ErrorClass::Arg, "the command is a null pointer"));
    }
    // SAFETY: the caller's contract.
    let mut words = vec![unsafe { word(command) }];
    for index in 0.. {
        // SAFETY: as above; there are elements up to the null pointer.
        let argument = if argv == 0 { 0 } else { unsafe { element(argv, index) } };
        if argument == 0 {
            break;
        }
        // SAFETY: as above.
        words.push(unsafe { word(argument) });
    }
    Ok(Program {
        command: words,
        processes,
    })
}

/// Element `index` of an array of pointers.
///
/// # Safety
/// The array has it.
unsafe fn element(array: usize, index: usize) -> usize {
    let array = ptr::with_exposed_provenance::<*const c_char>(array);
    // SAFETY: the caller's contract.
    unsafe { array.add(index).read_unaligned() }.expose_provenance()
}

/// A string of the program.
///
/// # Safety
/// It is the address of a string.
pub(super) unsafe fn word(text: usize) -> String {
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(text)) };
    text.to_string_lossy().into_owned()
}
