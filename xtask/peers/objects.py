"""What programs in Python do, by mpi4py over any library.

objects.py "send, object" SIZE…        a dictionary with so many bytes, from rank 0 to rank 1 and back, one way
objects.py "allreduce, array" SIZE…    the sum of NumPy's arrays of so many bytes, the mean over ranks

prints a line "SIZE NANOSECONDS" for each size."""

import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD


def ping_pong(size):
    thing = {"step": 7, "data": bytes(size)}
    if comm.rank == 0:
        comm.send(thing, 1)
        comm.recv(source=1)
    else:
        comm.send(comm.recv(source=0), 0)


def timed(run, count):
    for _ in range(count // 5 + 1):
        run()
    comm.Barrier()
    start = MPI.Wtime()
    for _ in range(count):
        run()
    own = (MPI.Wtime() - start) * 1e9 / count
    return comm.allreduce(own) / comm.size


def main():
    operation, *sizes = sys.argv[1:]
    for size in map(int, sizes):
        if operation.startswith("send"):
            nanos = timed(lambda: ping_pong(size), 4000) / 2
        else:
            out, into = numpy.ones(size // 8), numpy.zeros(size // 8)
            count = 400 if size <= 8 << 10 else 100 if size <= 64 << 10 else 20
            nanos = timed(lambda: comm.Allreduce(out, into), count)
            assert (into == comm.size).all()
        if comm.rank == 0:
            print(size, f"{nanos:.1f}", flush=True)


main()
