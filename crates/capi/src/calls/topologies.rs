//! Grids and graphs of processes (MPI 8).

use hikyaku::mpi::{
    collectives::{self, Collective},
    datatype,
    engine::{self, Buffers, Region},
    error::ErrorClass,
    topology::{Adjacency, Cartesian, Edges, Graph, dims_create as dims},
};

use super::{
    Done,
    communicators::hand_out,
    conversions::{UNWEIGHTED, WEIGHTS_EMPTY},
};
use crate::{
    abi,
    border::{Call, Failure, Flag, Flags, InOut, Int, Ints, Out, OutConstant, OutInts, UNDEFINED},
    objects::{Comm, Communicator, Held, Info, Topology},
};

#[doc(hidden)]
#[macro_export]
macro_rules! topologies {
    ($abi:ty) => {
        const _: () = {
            use $crate::{
                abi::{self, Abi as _},
                border::*,
                objects::*,
            };
            $crate::functions! { $abi;
                "Topo_test" => topologies::topo_test(comm: Comm, status: OutConstant<abi::Topology>);
                "Dims_create" => topologies::dims_create(nnodes: Int, ndims: Int, dims: OutInts);
                "Cart_create" => topologies::cart_create(
                    comm: Comm, ndims: Int, dims: Ints, periods: Flags, reorder: Flag,
                    newcomm: InOut<Communicator>);
                "Cartdim_get" => topologies::cartdim_get(comm: Comm, ndims: Out<i32>);
                "Cart_get" => topologies::cart_get(
                    comm: Comm, maxdims: Int, dims: OutInts, periods: OutInts, coords: OutInts);
                "Cart_rank" => topologies::cart_rank(comm: Comm, coords: Ints, rank: Out<i32>);
                "Cart_coords" => topologies::cart_coords(comm: Comm, rank: Int, maxdims: Int, coords: OutInts);
                "Cart_shift" => topologies::cart_shift(
                    comm: Comm, direction: Int, disp: Int, source: Out<i32>, dest: Out<i32>);
                "Cart_sub" => topologies::cart_sub(comm: Comm, remain: Ints, newcomm: InOut<Communicator>);
                "Cart_map" => topologies::cart_map(
                    comm: Comm, ndims: Int, dims: Ints, periods: Flags, newrank: Out<i32>);
                "Graph_create" => topologies::graph_create(
                    comm: Comm, nnodes: Int, index: Ints, edges: Ints, reorder: Flag, newcomm: InOut<Communicator>);
                "Graphdims_get" => topologies::graphdims_get(comm: Comm, nnodes: Out<i32>, nedges: Out<i32>);
                "Graph_get" => topologies::graph_get(
                    comm: Comm, maxindex: Int, maxedges: Int, index: OutInts, edges: OutInts);
                "Graph_neighbors_count" => topologies::graph_neighbors_count(
                    comm: Comm, rank: Int, number: Out<i32>);
                "Graph_neighbors" => topologies::graph_neighbors(
                    comm: Comm, rank: Int, maxneighbors: Int, neighbors: OutInts);
                "Graph_map" => topologies::graph_map(
                    comm: Comm, nnodes: Int, index: Ints, edges: Ints, newrank: Out<i32>);
                "Dist_graph_create_adjacent" => topologies::dist_graph_create_adjacent(
                    comm: Comm, indegree: Int, sources: Ints, sourceweights: Ints, outdegree: Int,
                    destinations: Ints, destweights: Ints, info: Info, reorder: Flag, newcomm: InOut<Communicator>);
                "Dist_graph_create" => topologies::dist_graph_create(
                    comm: Comm, n: Int, sources: Ints, degrees: Ints, destinations: Ints, weights: Ints, info: Info,
                    reorder: Flag, newcomm: InOut<Communicator>);
                "Dist_graph_neighbors_count" => topologies::dist_graph_neighbors_count(
                    comm: Comm, indegree: Out<i32>, outdegree: Out<i32>, weighted: Out<i32>);
                "Dist_graph_neighbors" => topologies::dist_graph_neighbors(
                    comm: Comm, maxindegree: Int, sources: OutInts, sourceweights: OutInts, maxoutdegree: Int,
                    destinations: OutInts, destweights: OutInts);
            }
        };
    };
}

type New = InOut<Communicator>;

fn length(argument: &'static str, number: Int) -> Result<usize, Failure> {
    let wrong = |_| Failure::value(ErrorClass::Arg, argument, number.0.into(), 0, i32::MAX.into());
    usize::try_from(number.0).map_err(wrong)
}

fn other_topology() -> Failure {
    Failure::text(ErrorClass::Topology, "the communicator has no such topology")
}

/// A communicator of one group.
fn one_group(comm: Comm) -> Result<Held<Communicator>, Failure> {
    let object = comm.get()?;
    if object.comm.is_inter() {
        return Err(Failure::text(
            ErrorClass::Comm,
            "the communicator is between two groups",
        ));
    }
    Ok(object)
}

fn with_grid<R>(comm: Comm, look: impl FnOnce(&Communicator, &Cartesian) -> Result<R, Failure>) -> Result<R, Failure> {
    let object = comm.get()?;
    match &object.topology {
        Topology::Cartesian(grid) => look(&object, grid),
        _ => Err(other_topology()),
    }
}

fn with_graph<R>(comm: Comm, look: impl FnOnce(&Graph) -> Result<R, Failure>) -> Result<R, Failure> {
    match &comm.get()?.topology {
        Topology::Graph(graph) => look(graph),
        _ => Err(other_topology()),
    }
}

pub fn topo_test(_call: Call, comm: Comm, status: OutConstant<abi::Topology>) -> Done {
    status.set(match comm.get()?.topology {
        Topology::None => UNDEFINED,
        Topology::Cartesian(_) => abi::Topology::CART,
        Topology::Graph(_) => abi::Topology::GRAPH,
        Topology::Adjacent(..) => abi::Topology::DIST_GRAPH,
    });
    Ok(())
}

pub fn dims_create(_call: Call, nnodes: Int, ndims: Int, all: OutInts) -> Done {
    let len = length("ndims", ndims)?;
    let mut found = all.list(len)?;
    dims(nnodes.0, &mut found)?;
    all.fill(found)
}

/// The first ranks of a communicator, with a topology of them.
fn create(call: Call, comm: &Communicator, size: i32, topology: Topology, newcomm: New) -> Done {
    let rank = comm.comm.rank();
    let made = comm.comm.split_for(call.name, (rank < size).then_some(0), rank)?;
    hand_out(newcomm, made, topology, Some(comm));
    Ok(())
}

pub fn cart_create(
    call: Call,
    comm: Comm,
    ndims: Int,
    sizes: Ints,
    periods: Flags,
    _reorder: Flag,
    newcomm: New,
) -> Done {
    let (object, len) = (one_group(comm)?, length("ndims", ndims)?);
    let grid = Cartesian::new(object.comm.size(), &sizes.list(len)?, &periods.list(len)?)?;
    create(call, &object, grid.size(), Topology::Cartesian(grid), newcomm)
}

pub fn cartdim_get(_call: Call, comm: Comm, ndims: Out<i32>) -> Done {
    with_grid(comm, |_, grid| {
        ndims.set(grid.dimensions().len() as i32);
        Ok(())
    })
}

pub fn cart_get(_call: Call, comm: Comm, maxdims: Int, sizes: OutInts, periods: OutInts, coords: OutInts) -> Done {
    let max = length("maxdims", maxdims)?;
    with_grid(comm, |object, grid| {
        sizes.fill(grid.dimensions().map(|(size, _)| size).take(max))?;
        periods.fill(grid.dimensions().map(|(_, is_periodic)| is_periodic.into()).take(max))?;
        coords.fill(grid.coordinates(object.comm.rank())?.take(max))?;
        Ok(())
    })
}

pub fn cart_rank(_call: Call, comm: Comm, coords: Ints, rank: Out<i32>) -> Done {
    with_grid(comm, |_, grid| {
        rank.set(grid.rank(&coords.list(grid.dimensions().len())?)?);
        Ok(())
    })
}

pub fn cart_coords(_call: Call, comm: Comm, rank: Int, maxdims: Int, coords: OutInts) -> Done {
    let max = length("maxdims", maxdims)?;
    with_grid(comm, |_, grid| {
        coords.fill(grid.coordinates(rank.0)?.take(max))?;
        Ok(())
    })
}

pub fn cart_shift(call: Call, comm: Comm, direction: Int, disp: Int, source: Out<i32>, dest: Out<i32>) -> Done {
    let direction = length("direction", direction)?;
    with_grid(comm, |object, grid| {
        let shift = grid.shift(object.comm.rank(), direction, disp.0)?;
        let rank = |rank: Option<i32>| rank.unwrap_or(call.encoding.proc_null);
        source.set(rank(shift.source));
        dest.set(rank(shift.destination));
        Ok(())
    })
}

pub fn cart_sub(call: Call, comm: Comm, remain: Ints, newcomm: New) -> Done {
    with_grid(comm, |object, grid| {
        let remain: Vec<bool> = remain
            .list(grid.dimensions().len())?
            .iter()
            .map(|one| *one != 0)
            .collect();
        let sub = grid.sub(object.comm.rank(), &remain)?;
        let made = object.comm.split_for(call.name, Some(sub.color), sub.rank)?;
        hand_out(newcomm, made, Topology::Cartesian(sub.grid), Some(object));
        Ok(())
    })
}

fn map(comm: Comm, size: impl FnOnce(i32) -> Result<i32, Failure>, newrank: Out<i32>) -> Done {
    let object = one_group(comm)?;
    let (rank, size) = (object.comm.rank(), size(object.comm.size())?);
    newrank.set(if rank < size { rank } else { UNDEFINED });
    Ok(())
}

pub fn cart_map(_call: Call, comm: Comm, ndims: Int, sizes: Ints, periods: Flags, newrank: Out<i32>) -> Done {
    let len = length("ndims", ndims)?;
    let sizes = sizes.list(len)?;
    let size = |all| match sizes.iter().min() {
        // A grid without places, as other libraries take it here: no process has one.
        Some(0) => Ok(0),
        _ => Ok(Cartesian::new(all, &sizes, &periods.list(len)?)?.size()),
    };
    map(comm, size, newrank)
}

/// A graph by its lists of C.
fn graph(all: i32, nnodes: Int, index: Ints, edges: Ints) -> Result<Graph, Failure> {
    let index = index.list(length("nnodes", nnodes)?)?;
    let edges = edges.list(index.last().map_or(0, |last| (*last).max(0) as usize))?;
    Ok(Graph::new(all, &index, &edges)?)
}

pub fn graph_create(
    call: Call,
    comm: Comm,
    nnodes: Int,
    index: Ints,
    edges: Ints,
    _reorder: Flag,
    newcomm: New,
) -> Done {
    let object = one_group(comm)?;
    let graph = graph(object.comm.size(), nnodes, index, edges)?;
    create(call, &object, graph.size(), Topology::Graph(graph), newcomm)
}

pub fn graphdims_get(_call: Call, comm: Comm, nnodes: Out<i32>, nedges: Out<i32>) -> Done {
    with_graph(comm, |graph| {
        nnodes.set(graph.size());
        nedges.set(graph.as_arrays().1.len() as i32);
        Ok(())
    })
}

pub fn graph_get(_call: Call, comm: Comm, maxindex: Int, maxedges: Int, index: OutInts, edges: OutInts) -> Done {
    let (most, most_edges) = (length("maxindex", maxindex)?, length("maxedges", maxedges)?);
    with_graph(comm, |graph| {
        let (nodes, ends) = graph.as_arrays();
        index.fill(nodes.iter().copied().take(most))?;
        edges.fill(ends.iter().copied().take(most_edges))?;
        Ok(())
    })
}

pub fn graph_neighbors_count(_call: Call, comm: Comm, rank: Int, number: Out<i32>) -> Done {
    with_graph(comm, |graph| {
        number.set(graph.neighbors(rank.0)?.len() as i32);
        Ok(())
    })
}

pub fn graph_neighbors(_call: Call, comm: Comm, rank: Int, maxneighbors: Int, neighbors: OutInts) -> Done {
    let most = length("maxneighbors", maxneighbors)?;
    with_graph(comm, |graph| {
        neighbors.fill(graph.neighbors(rank.0)?.iter().copied().take(most))?;
        Ok(())
    })
}

pub fn graph_map(_call: Call, comm: Comm, nnodes: Int, index: Ints, edges: Ints, newrank: Out<i32>) -> Done {
    map(comm, |all| Ok(graph(all, nnodes, index, edges)?.size()), newrank)
}

/// The weights of so many edges; none if the graph has none.
fn weights(list: Ints, len: usize) -> Result<Vec<i32>, Failure> {
    match list.address() {
        0 | UNWEIGHTED | WEIGHTS_EMPTY => Ok(Vec::new()),
        _ => list.list(len),
    }
}

pub fn dist_graph_create_adjacent(
    call: Call,
    comm: Comm,
    indegree: Int,
    sources: Ints,
    sourceweights: Ints,
    outdegree: Int,
    destinations: Ints,
    destweights: Ints,
    _info: Info,
    _reorder: Flag,
    newcomm: New,
) -> Done {
    let object = one_group(comm)?;
    let (inward, outward) = (length("indegree", indegree)?, length("outdegree", outdegree)?);
    let is_weighted = sourceweights.address() != UNWEIGHTED;
    let near = Adjacency::new(
        object.comm.size(),
        (&sources.list(inward)?, &weights(sourceweights, inward)?),
        (&destinations.list(outward)?, &weights(destweights, outward)?),
    )?;
    let made = object.comm.duplicate_for(call.name)?;
    hand_out(
        newcomm,
        Some(made),
        Topology::Adjacent(near, is_weighted),
        Some(&object),
    );
    Ok(())
}

pub fn dist_graph_create(
    call: Call,
    comm: Comm,
    n: Int,
    sources: Ints,
    degrees: Ints,
    destinations: Ints,
    edge_weights: Ints,
    _info: Info,
    _reorder: Flag,
    newcomm: New,
) -> Done {
    let (object, len) = (one_group(comm)?, length("n", n)?);
    let (sources, degrees) = (sources.list(len)?, degrees.list(len)?);
    let edges = degrees.iter().map(|degree| (*degree).max(0) as usize).sum();
    let destinations = destinations.list(edges)?;
    let is_weighted = edge_weights.address() != UNWEIGHTED;
    let edge_weights = weights(edge_weights, edges)?;
    // Lengths first, then the numbers themselves.
    let lens = [sources.len(), destinations.len(), edge_weights.len()].map(|len| len as i32);
    let numbers = [&sources[..], &degrees, &destinations, &edge_weights].concat();
    let all = gather(call, &object.comm, &lens)?;
    let sizes = all
        .chunks_exact(3)
        .map(|lens| (2 * lens[0] + lens[1] + lens[2]) as usize);
    let most = sizes.max().unwrap_or(0);
    let mut padded = numbers;
    padded.resize(most, 0);
    let everything = gather(call, &object.comm, &padded)?;
    let contributions = all.chunks_exact(3).enumerate().map(|(rank, lens)| {
        let [sources, destinations, weights] = [lens[0], lens[1], lens[2]].map(|len| len as usize);
        let own = &everything[rank * most..];
        let (from, own) = own.split_at(sources);
        let (degrees, own) = own.split_at(sources);
        let (to, own) = own.split_at(destinations);
        Edges {
            sources: from,
            degrees,
            destinations: to,
            weights: &own[..weights],
        }
    });
    let near = Adjacency::collect(object.comm.rank(), object.comm.size(), contributions)?;
    let made = object.comm.duplicate_for(call.name)?;
    hand_out(
        newcomm,
        Some(made),
        Topology::Adjacent(near, is_weighted),
        Some(&object),
    );
    Ok(())
}

/// The numbers of all ranks, of which each has as many.
fn gather(call: Call, comm: &engine::Communicator, own: &[i32]) -> Result<Vec<i32>, Failure> {
    let datatype = datatype::Datatype::predefined(datatype::Kind::I32);
    let mut all = vec![0; own.len() * comm.size() as usize];
    let buffers = Buffers {
        input: Region::Plain(own.as_ptr().cast_mut().cast(), &datatype),
        output: Region::Plain(all.as_mut_ptr().cast(), &datatype),
    };
    let what = collectives::Call::of(Collective::Allgather).with_count(own.len());
    super::collectives::complete(call, comm, &what, &buffers)?;
    Ok(all)
}

fn with_near<R>(comm: Comm, look: impl FnOnce(&Adjacency, bool) -> R) -> Result<R, Failure> {
    match &comm.get()?.topology {
        Topology::Adjacent(near, is_weighted) => Ok(look(near, *is_weighted)),
        _ => Err(other_topology()),
    }
}

pub fn dist_graph_neighbors_count(
    _call: Call,
    comm: Comm,
    indegree: Out<i32>,
    outdegree: Out<i32>,
    weighted: Out<i32>,
) -> Done {
    with_near(comm, |near, is_weighted| {
        indegree.set(near.sources().len() as i32);
        outdegree.set(near.destinations().len() as i32);
        weighted.set_flag(is_weighted);
    })
}

pub fn dist_graph_neighbors(
    _call: Call,
    comm: Comm,
    maxindegree: Int,
    sources: OutInts,
    sourceweights: OutInts,
    maxoutdegree: Int,
    destinations: OutInts,
    destweights: OutInts,
) -> Done {
    let (inward, outward) = (
        length("maxindegree", maxindegree)?,
        length("maxoutdegree", maxoutdegree)?,
    );
    let fill = |list: OutInts, values: &[i32], most: usize| match list.address() {
        0 | UNWEIGHTED | WEIGHTS_EMPTY => Ok(()),
        _ => list.fill(values.iter().copied().take(most)),
    };
    with_near(comm, |near, _| {
        fill(sources, near.sources(), inward)?;
        fill(sourceweights, near.source_weights(), inward)?;
        fill(destinations, near.destinations(), outward)?;
        fill(destweights, near.destination_weights(), outward)
    })?
}
