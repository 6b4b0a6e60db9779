/* A program with functions of its own in the places of two of MPI's. They are called as often as the program calls them, and
   never by the library. It is a job of two processes. */
#include "check.h"

static int sends, barriers;

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    return PMPI_Barrier(comm);
}

int main(int argc, char **argv)
{
    int rank, number = 7, other;
    MPI_Comm made;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        number = 0;
        MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    check(number == 7 && sends == (rank == 0), "a send of the program's");
    MPI_Barrier(MPI_COMM_WORLD);
    /* Functions that send, or wait for all. */
    MPI_Sendrecv(&number, 1, MPI_INT, 1 - rank, 1, &other, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&number, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Win_create(&other, sizeof other, 1, MPI_INFO_NULL, made, &win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_disconnect(&made);
    MPI_Finalize();
    check(sends == (rank == 0) && barriers == 1, "the library calls none of the program's");
    return 0;
}
