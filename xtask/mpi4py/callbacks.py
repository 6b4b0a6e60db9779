"""An operation in Python runs only in a thread that is inside an MPI call."""

import threading
import time

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
threads, outside, inside = set(), 0, False


def add(given, result, _datatype):
    global outside
    threads.add(threading.get_ident())
    outside += not inside
    numpy.frombuffer(result, dtype="i8")[:] += numpy.frombuffer(given, dtype="i8")


operation = MPI.Op.Create(add, commute=True)
for count in (1, 1000, 200_000):
    own = numpy.full(count, comm.rank + 1, dtype="i8")
    result = numpy.zeros(count, dtype="i8")
    inside = True
    request = comm.Iallreduce(own, result, operation)
    inside = False
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        sum(range(1000))
    inside = True
    request.Wait()
    inside = False
    assert (result == sum(range(1, comm.size + 1))).all()
operation.Free()
assert outside == 0 and threads == {threading.get_ident()}, (outside, threads)
