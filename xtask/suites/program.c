/* What every library of MPI must do: a ring, a sum, and a put into the neighbour's memory. Prints one line a rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int rank, size, token, sum = 0, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;

    MPI_Status status;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 7, &token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    check(token == before && status.MPI_SOURCE == before && status.MPI_TAG == 7, "ring");

    const int len = 100000;
    double *from = (double *)malloc(len * sizeof *from), *into = (double *)malloc(len * sizeof *into);
    for (i = 0; i < len; i++)
        from[i] = rank + i;
    MPI_Allreduce(from, into, len, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < len; i++)
        check(into[i] == (double)size * i + size * (size - 1) / 2, "sum");

    MPI_Win window;
    int *memory;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    *memory = -1;
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check(*memory == before, "put");
    MPI_Win_free(&window);

    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, sum %d\n", size, sum);
    free(from);
    free(into);
    MPI_Finalize();
    return 0;
}
