/* What every library of MPI must do: a ring, a sum, and a put into the neighbour's memory; with an argument, two
   processes more in the middle of the job. Rank 0 prints a line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* A process that was spawned tells the others its rank. */
static int spawned(MPI_Comm parent, int argc, char **argv)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(argc == 2 && strcmp(argv[1], "two words") == 0, "arguments");
    MPI_Send(&rank, 1, MPI_INT, 0, 9, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Starts two more of this program, and gives the sum of their ranks, plus one each. */
static int spawn(const char *own, int rank)
{
    char words[] = "two words", *args[] = {words, NULL};
    MPI_Comm children;
    int errors[2] = {-1, -1}, size, heard, sum = 0, i;
    MPI_Comm_spawn(own, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, rank == 0 ? errors : MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(children, &size);
    check(size == 2 && (rank > 0 || (errors[0] == MPI_SUCCESS && errors[1] == MPI_SUCCESS)), "spawn");
    for (i = 0; rank == 0 && i < size; i++) {
        MPI_Recv(&heard, 1, MPI_INT, i, 9, children, MPI_STATUS_IGNORE);
        check(heard == i, "child");
        sum += heard + 1;
    }
    MPI_Comm_disconnect(&children);
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size, token, sum = 0, i;
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return spawned(parent, argc, argv);
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
    int started = argc > 1 ? spawn(argv[0], rank) : 0;
    if (rank == 0)
        printf("%d ranks, sum %d, spawned %d\n", size, sum, started);
    free(from);
    free(into);
    MPI_Finalize();
    return 0;
}
