"""A thread gets partitions ready, or asks for them, while another one waits for the request. For two ranks."""

import threading
import time

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
data = numpy.zeros(4, "i8")
if comm.rank == 0:
    request = comm.Psend_init(data, 4, 1, 7)
    request.Start()
    waiting = threading.Thread(target=request.Wait)
    waiting.start()
    for index in range(4):
        data[index] = index + 1
        request.Pready(index)
else:
    request = comm.Precv_init(data, 4, 0, 7)
    request.Start()
    waiting = threading.Thread(target=request.Wait)
    waiting.start()
    while not request.Parrived(3):
        time.sleep(0)
waiting.join()
request.Free()
assert list(data) == [1, 2, 3, 4]
