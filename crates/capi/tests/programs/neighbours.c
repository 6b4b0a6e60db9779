/* Neighbours in grids: what is sent downwards arrives from above, also where both are one rank. */
#include "check.h"

enum { SIDES = 6 };

static MPI_Comm grid;
static int rank, from[SIDES];
static int sent[2 * SIDES], received[2 * SIDES];

static void prepare(void)
{
    for (int i = 0; i < 2 * SIDES; i++) {
        sent[i] = 100 * rank + i;
        received[i] = -1;
    }
}

/* Each side has got the two numbers that the rank there has sent to the opposite side. */
static void crossed(const char *what)
{
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < 2; i++) {
            int right = from[side] == MPI_PROC_NULL ? -1 : 100 * from[side] + 2 * (side ^ 1) + i;
            check(received[2 * side + i] == right, what);
        }
}

static void in_grid(const int *sizes, const int *periods)
{
    int counts[SIDES], places[SIDES];
    MPI_Aint addresses[SIDES];
    MPI_Datatype types[SIDES];
    MPI_Request request;

    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    for (int i = 0; i < 3; i++)
        MPI_Cart_shift(grid, i, 1, &from[2 * i], &from[2 * i + 1]);
    for (int i = 0; i < SIDES; i++) {
        counts[i] = 2;
        places[i] = 2 * i;
        addresses[i] = 2 * i * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    prepare();
    MPI_Neighbor_alltoall(sent, 2, MPI_INT, received, 2, MPI_INT, grid);
    crossed("alltoall");
    prepare();
    MPI_Neighbor_alltoallv(sent, counts, places, MPI_INT, received, counts, places, MPI_INT, grid);
    crossed("alltoallv");
    prepare();
    MPI_Ineighbor_alltoallw(sent, counts, addresses, types, received, counts, addresses, types, grid, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    crossed("alltoallw with a request");
    MPI_Neighbor_alltoall_init(sent, 2, MPI_INT, received, 2, MPI_INT, grid, MPI_INFO_NULL, &request);
    for (int round = 0; round < 3; round++) {
        prepare();
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        crossed("a persistent alltoall");
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&grid);
}

/* In a graph they match in the order of its edges. */
static void in_graph(void)
{
    int here, size, near[3], into[3] = {-1, -1, -1};
    MPI_Comm graph;

    MPI_Comm_rank(MPI_COMM_WORLD, &here);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    near[0] = near[1] = size - 1 - here;
    near[2] = here;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, near, MPI_UNWEIGHTED, 3, near, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph);
    int numbers[] = {10 * here, 10 * here + 1, 10 * here + 2};
    MPI_Neighbor_alltoall(numbers, 1, MPI_INT, into, 1, MPI_INT, graph);
    for (int i = 0; i < 3; i++)
        check(into[i] == 10 * near[i] + i, "edges in their order");
    MPI_Comm_free(&graph);
}

int main(int argc, char **argv)
{
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int which = 0; which < 8; which++) {
        const int periods[] = {which & 1, which >> 1 & 1, which >> 2};
        in_grid((int[]){size, 1, 1}, periods);
        in_grid((int[]){1, size, 1}, periods);
        in_grid((int[]){1, 1, size}, periods);
    }
    in_graph();
    MPI_Finalize();
    return 0;
}
