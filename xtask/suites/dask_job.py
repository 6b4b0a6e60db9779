"""Rank 0 is dask's scheduler, rank 1 the client, the others work."""

from dask_mpi import initialize
from distributed import Client

initialize(interface="lo", worker_class="distributed.Worker", dashboard=False)
with Client() as client:
    squares = client.map(lambda number: number * number, range(100))
    print("sum of squares", sum(client.gather(squares)), flush=True)
