/* What `hikyaku bench … --backend shm` does, for another MPI: the same loops, counts and buffers.
 *
 * within_host OPERATION SIZE…
 *
 * prints a line "SIZE NANOSECONDS" for each size: of a message one way (latency; with "latency, strided", of pieces of 16
 * bytes with gaps of as many, at both ends), of a message of a window (bandwidth; with
 * "bandwidth-apart", each message of a window has memory of its own), of "lock + unlock" of a window of the other rank,
 * which nobody else wants, or of a collective, of that the mean over ranks; or of "init + finalize" of this process. A
 * figure is a mean: the clock is read before the first operation and after the last. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 64, LARGE_WINDOW = 16, LARGE = 1 << 20 };

static int rank, size;
static char *out, *in;

static int by_size(int bytes, int small, int medium, int large, int huge) {
    return bytes <= 8192 ? small : bytes <= 65536 ? medium : bytes <= LARGE ? large : huge;
}

/* Messages of so many elements, which are that many bytes. */
static double latency(int bytes, int elements, MPI_Datatype type) {
    int count = by_size(bytes, 6000, 1500, 200, 60), warmup = (count + 4) / 5;
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + count; i++) {
        if (i == warmup)
            start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(out, elements, type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, elements, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, elements, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, elements, type, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) * 1e9 / (2.0 * count);
}

static double strided(int bytes) {
    MPI_Datatype type;
    MPI_Type_vector(bytes / 16, 16, 32, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    double nanos = latency(bytes, 1, type);
    MPI_Type_free(&type);
    return nanos;
}

/* A message of a window lies `apart` bytes behind the one before. */
static double bandwidth(int bytes, size_t apart) {
    int count = by_size(bytes, 500, 60, 8, 3), warmup = count / 5 + 1;
    int window = bytes >= LARGE ? LARGE_WINDOW : WINDOW;
    MPI_Request requests[WINDOW];
    double start = 0;
    char answer = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + count; i++) {
        if (i == warmup)
            start = MPI_Wtime();
        if (rank == 0) {
            for (int w = 0; w < window; w++)
                MPI_Isend(out + w * apart, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int w = 0; w < window; w++)
                MPI_Irecv(in + w * apart, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[w]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) * 1e9 / ((double)window * count);
}

static double lock(void) {
    int count = 4000, warmup = 800;
    double start = 0;
    void *base;
    MPI_Win window;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    for (int i = 0; rank == 0 && i < warmup + count; i++) {
        if (i == warmup)
            start = MPI_Wtime();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        MPI_Win_unlock(1, window);
    }
    double nanos = (MPI_Wtime() - start) * 1e9 / count;
    MPI_Win_free(&window);
    return nanos;
}

static double collective(const char *name, int bytes) {
    int crowded = size > sysconf(_SC_NPROCESSORS_ONLN);
    int count = (crowded ? 400 : 4000) / (bytes < 65536 ? 1 : 4), warmup = count / 5 + 1;
    double start = 0, own, sum;
    for (int i = 0; i < warmup + count; i++) {
        if (i == warmup) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        if (strcmp(name, "barrier") == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        else if (strcmp(name, "allreduce") == 0)
            MPI_Allreduce(out, in, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else if (strcmp(name, "bcast") == 0)
            MPI_Bcast(in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        else
            MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
    }
    own = (MPI_Wtime() - start) * 1e9 / count;
    MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum / size;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int life(int argc, char **argv) {
    double start = now();
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    printf("0 %.0f\n", now() - start);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "init + finalize") == 0)
        return life(argc, argv);
    int is_apart = argc > 1 && strcmp(argv[1], "bandwidth-apart") == 0;
    size_t room = is_apart ? 64 << 20 : 8 << 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = aligned_alloc(4096, room);
    in = aligned_alloc(4096, room);
    memset(out, 1, room);
    memset(in, 2, room);
    for (int a = 2; a < argc; a++) {
        const char *name = argv[1];
        int bytes = atoi(argv[a]);
        double nanos = strcmp(name, "latency") == 0            ? latency(bytes, bytes, MPI_CHAR)
                       : strcmp(name, "latency, strided") == 0 ? strided(bytes)
                       : strcmp(name, "bandwidth") == 0        ? bandwidth(bytes, 0)
                       : is_apart                              ? bandwidth(bytes, bytes)
                       : strncmp(name, "lock", 4) == 0         ? lock()
                                                               : collective(name, bytes);
        if (rank == 0)
            printf("%d %.2f\n", bytes, nanos);
    }
    MPI_Finalize();
    return 0;
}
