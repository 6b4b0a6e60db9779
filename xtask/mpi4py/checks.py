"""With HIKYAKU_CHECK=on, calls that do not match are errors that say what was called. For two ranks."""

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
data = numpy.zeros(4, "i4")
try:
    comm.Bcast([data, 4 - 2 * comm.rank, MPI.INT], root=0)
    raise AssertionError("two counts match")
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_NOT_SAME, error
    assert "MPI_Bcast (root 0, 2 MPI_INT32_T)" in str(error), error

if comm.rank == 0:
    comm.Send([data, 2, MPI.INT], 1)
else:
    try:
        comm.Recv([numpy.zeros(1), 1, MPI.DOUBLE], 0)
        raise AssertionError("two datatypes match")
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TYPE, error
