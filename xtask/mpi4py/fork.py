"""A child of a fork may end in any way; the parent goes on."""

import os
import subprocess
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
for leave in (os._exit, sys.exit):
    child = os.fork()
    if child == 0:
        leave(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert subprocess.run(["true"], check=False).returncode == 0
assert comm.allreduce(1) == comm.size
