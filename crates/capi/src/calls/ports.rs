#![expect(unsafe_code, reason = "reads strings of the program")]
//! Ports, and names by which they are found (MPI 11.9).

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write},
    mem::ManuallyDrop,
    net::TcpStream,
    os::fd::FromRawFd,
    str::from_utf8,
    sync::Mutex,
};

use hikyaku::{
    bootstrap::{BootstrapError, Cause, World},
    mpi::{
        engine::{self, Port},
        error::ErrorClass,
    },
};

use super::{
    Done,
    communicators::{engine, hand_out},
    spawn::word,
};
use crate::{
    border::{Call, Failure, InOut, Int, NewString, Pointer, Rank, Text},
    objects::{Comm, Communicator, Info, Topology, lock},
    process,
};

/// `MPI_MAX_PORT_NAME`, of both ABIs the smaller one.
const ROOM: usize = 256;

/// What each side says in `MPI_Comm_join`, in bytes: the name of a port, a number that all processes of a job have in
/// common, and blanks.
const GREETING: usize = 64;

/// The ports of this process that are open.
static OPEN: Mutex<BTreeSet<Port>> = Mutex::new(BTreeSet::new());

#[doc(hidden)]
#[macro_export]
macro_rules! ports {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::functions! { $abi;
                "Open_port" => ports::open_port(info: Info, port_name: NewString);
                "Close_port" => ports::close_port(port_name: Text);
                "Comm_accept" => ports::comm_accept(
                    port_name: Pointer, info: Info, root: Rank, comm: Comm, newcomm: InOut<Communicator>);
                "Comm_connect" => ports::comm_connect(
                    port_name: Pointer, info: Info, root: Rank, comm: Comm, newcomm: InOut<Communicator>);
                "Comm_join" => ports::comm_join(fd: Int, intercomm: InOut<Communicator>);
                "Publish_name" => ports::publish_name(service_name: Text, info: Info, port_name: Text);
                "Lookup_name" => ports::lookup_name(service_name: Text, info: Info, port_name: NewString);
                "Unpublish_name" => ports::unpublish_name(service_name: Text, info: Info, port_name: Text);
            }
        };
    };
}

pub fn open_port(_call: Call, _info: Info, port_name: NewString) -> Done {
    let port = engine()?.open_port();
    lock(&OPEN).insert(port);
    port_name.set(port.to_string().as_bytes(), ROOM);
    Ok(())
}

pub fn close_port(_call: Call, port_name: Text) -> Done {
    let port = port_name.text().parse().ok();
    match port.filter(|port| lock(&OPEN).remove(port)) {
        Some(_) => Ok(()),
        None => Err(Failure::text(
            ErrorClass::Port,
            "this process has not opened such a port",
        )),
    }
}

/// The port that the root names; `None` if it names none, and for the others.
fn named(comm: &Communicator, root: Rank, name: Pointer) -> Option<Port> {
    if comm.comm.rank() != root.0 || name.0 == 0 {
        return None;
    }
    // SAFETY: at the root it is a string (MPI 11.9.2).
    unsafe { word(name.0) }.parse().ok()
}

pub fn comm_accept(
    _call: Call,
    port_name: Pointer,
    _info: Info,
    root: Rank,
    comm: Comm,
    newcomm: InOut<Communicator>,
) -> Done {
    let comm = comm.get()?;
    let port = named(&comm, root, port_name).filter(|port| lock(&OPEN).contains(port));
    let made = comm.comm.accept(port, root.0)?;
    hand_out(newcomm, Some(made), Topology::None, Some(&comm));
    Ok(())
}

pub fn comm_connect(
    _call: Call,
    port_name: Pointer,
    _info: Info,
    root: Rank,
    comm: Comm,
    newcomm: InOut<Communicator>,
) -> Done {
    let comm = comm.get()?;
    let made = comm.comm.connect(named(&comm, root, port_name), root.0)?;
    hand_out(newcomm, Some(made), Topology::None, Some(&comm));
    Ok(())
}

/// Tells the other end of a socket of this process's port, and hears of that one's; `None`: it belongs to another job.
fn greet(fd: i32, port: Port, job: u64) -> io::Result<Option<Port>> {
    // As a stream of TCP whatever it is: those are written without SIGPIPE if the other end is closed.
    // SAFETY: the program lends the descriptor, which is not closed here.
    let mut socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
    let (name, job) = (port.to_string(), format!("{job:016x}"));
    socket.write_all(format!("{:GREETING$}", format!("{name} {job}")).as_bytes())?;
    let mut heard = [0; GREETING];
    socket.read_exact(&mut heard)?;
    let mut words = from_utf8(&heard).unwrap_or_default().split_whitespace();
    let theirs = words.next().and_then(|name| name.parse().ok());
    Ok(theirs.filter(|_| words.next() == Some(&job)))
}

pub fn comm_join(_call: Call, fd: Int, intercomm: InOut<Communicator>) -> Done {
    let engine = engine()?;
    let job = process::job().ok_or_else(|| Failure::text(ErrorClass::Other, "this process has left its job"))?;
    let mut common = DefaultHasher::new();
    job.launched().job_key().bytes().hash(&mut common);
    let port = engine.open_port();
    let theirs = match fd.0 {
        0.. => greet(fd.0, port, common.finish()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    let theirs =
        theirs.map_err(|_| Failure::text(ErrorClass::Arg, "fd is no socket with a process at its other end"))?;
    let own = engine::Communicator::own(&engine);
    let made = match theirs {
        Some(theirs) if port < theirs => Some(own.accept(Some(port), 0)?),
        Some(theirs) if port > theirs => Some(own.connect(Some(theirs), 0)?),
        _ => None,
    };
    hand_out(intercomm, made, Topology::None, None);
    Ok(())
}

/// Asks the launcher about a name. A refusal is an error of this class, if the launcher has names at all.
fn ask<R>(class: ErrorClass, ask: impl FnOnce(&World) -> Result<R, BootstrapError>) -> Result<R, Failure> {
    let job = process::job().ok_or_else(|| Failure::text(class, "this process has left its job"))?;
    ask(job.launched()).map_err(|error| match error.cause() {
        Cause::Refused(_) => Failure::text(class, "the name is taken, or there is none"),
        _ => {
            eprintln!("hikyaku: {error}");
            Failure::text(class, "the launcher has no names, as printed")
        }
    })
}

pub fn publish_name(_call: Call, service_name: Text, _info: Info, port_name: Text) -> Done {
    ask(ErrorClass::Service, |world| {
        world.publish(&service_name.text(), &port_name.text())
    })
}

pub fn lookup_name(_call: Call, service_name: Text, _info: Info, port_name: NewString) -> Done {
    let name = ask(ErrorClass::Name, |world| world.look_up(&service_name.text()))?;
    port_name.set(name.as_bytes(), ROOM);
    Ok(())
}

pub fn unpublish_name(_call: Call, service_name: Text, _info: Info, _port_name: Text) -> Done {
    ask(ErrorClass::Service, |world| world.unpublish(&service_name.text()))
}
