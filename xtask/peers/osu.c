/* What crates/mpi/examples/osu.rs does, for another MPI: the same operations, the same loops, the same output.
 *
 * osu OPERATION ITERATIONS SIZE…
 *
 * prints a line "SIZE NANOSECONDS" for each size: of a one-way message (latency), of a message in a window of 64
 * (bandwidth), or of one collective; the median of ten batches. Of collectives it is the mean over ranks, and before each
 * there is a barrier that does not count. Beyond 16 KiB there are fewer iterations, in proportion. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, BATCHES = 10, LARGE = 16384 };

static int rank, size;
static char *out, *in;

static void latency(int bytes, int iterations) {
    for (int i = 0; i < iterations; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static void bandwidth(int bytes, int iterations) {
    MPI_Request requests[WINDOW];
    for (int i = 0; i < iterations; i++) {
        if (rank == 0) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Isend(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(in, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Irecv(in + (size_t)w * bytes, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(out, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        }
    }
}

static void barrier(int bytes, int iterations) {
    (void)bytes;
    for (int i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes, int iterations) {
    for (int i = 0; i < iterations; i++)
        MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(int bytes, int iterations) {
    for (int i = 0; i < iterations; i++)
        MPI_Bcast(out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void alltoall(int bytes, int iterations) {
    for (int i = 0; i < iterations; i++)
        MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static double loop_of(void (*run)(int, int), int bytes, int iterations) {
    double start = MPI_Wtime();
    run(bytes, iterations);
    return MPI_Wtime() - start;
}

static double in_step(void (*run)(int, int), int bytes, int iterations) {
    double seconds = 0;
    for (int i = 0; i < iterations; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        seconds += loop_of(run, bytes, 1);
    }
    return seconds;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int, int);
        int per_iteration, alone, in_step;
    } operations[] = {
        {"latency", latency, 2, 1, 0},     {"bandwidth", bandwidth, WINDOW, 1, 0}, {"barrier", barrier, 1, 0, 0},
        {"allreduce", allreduce, 1, 0, 1}, {"bcast", bcast, 1, 0, 1},              {"alltoall", alltoall, 1, 0, 1},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t o = 0; argc > 3 && o < sizeof operations / sizeof *operations; o++) {
        if (strcmp(argv[1], operations[o].name) != 0)
            continue;
        for (int a = 3; a < argc; a++) {
            int bytes = atoi(argv[a]);
            int iterations = atoi(argv[2]) / BATCHES / (bytes > LARGE ? bytes / LARGE : 1);
            if (iterations < 1)
                iterations = 1;
            /* A window of receives has a place for each message, so nothing is received into memory in use. */
            size_t places = operations[o].run == bandwidth ? WINDOW : (size_t)size;
            size_t room = (size_t)(bytes > 8 ? bytes : 8) * places;
            out = calloc(room, 1);
            in = calloc(room, 1);
            memset(in, 0, room);
            double times[BATCHES + 1];
            /* The first batch warms up. */
            for (int b = 0; b <= BATCHES; b++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double seconds = (operations[o].in_step ? in_step : loop_of)(operations[o].run, bytes, iterations);
                if (!operations[o].alone) {
                    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                    seconds /= size;
                }
                times[b] = seconds * 1e9 / iterations / operations[o].per_iteration;
            }
            qsort(times + 1, BATCHES, sizeof *times, ascending);
            if (rank == 0)
                printf("%d %.1f\n", bytes, (times[BATCHES / 2] + times[BATCHES / 2 + 1]) / 2);
            free(out);
            free(in);
        }
    }
    MPI_Finalize();
    return 0;
}
