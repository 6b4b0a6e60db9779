/* One of two ranks under Open MPI, which `bench figure11` compares with: it does what it is told through a socket, and
 * sleeps there in between, so that other transports have the cores in their turns.
 *
 * openmpi SOCKET CPU SOCKET CPU    the socket to connect to and the CPU to stay on, of each rank
 *
 * A command is three numbers of 64 bits: bytes, ping-pongs before the clock starts, ping-pongs. Rank 0 answers with its
 * wall time and the CPU time of both ranks, then with the time of each ping-pong, all in ns; rank 1 with a number. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static uint64_t nanos(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int whole(int fd, void *data, size_t len, int reads) {
    for (char *at = data; len > 0;) {
        ssize_t done = reads ? read(fd, at, len) : write(fd, at, len);
        if (done <= 0)
            return 0;
        at += done;
        len -= (size_t)done;
    }
    return 1;
}

static void stop(const char *why) {
    fprintf(stderr, "openmpi: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int reach(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof address.sun_path)
        stop("the socket's name is too long");
    strcpy(address.sun_path, path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        stop("cannot reach the benchmark");
    return fd;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5 || rank > 1)
        stop("two ranks, with a socket and a CPU each");
    int cpu = atoi(argv[2 + 2 * rank]);
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    int fd = reach(argv[1 + 2 * rank]);
    uint64_t job[3];
    while (whole(fd, job, sizeof job, 1)) {
        int bytes = (int)job[0];
        uint64_t warmup = job[1], count = job[2], start = 0, cpu_start = 0, before = 0, far = 0;
        char *out = malloc((size_t)bytes + 1), *in = malloc((size_t)bytes + 1);
        uint64_t *answer = calloc(count + 2, sizeof *answer);
        if (!out || !in || !answer)
            stop("no memory");
        for (int i = 0; i < bytes; i++)
            out[i] = (char)(i * 31 + 7);
        memset(in, 0, (size_t)bytes + 1);
        for (uint64_t i = 0; i < warmup + count; i++) {
            if (i == warmup) {
                cpu_start = nanos(CLOCK_PROCESS_CPUTIME_ID);
                start = before = nanos(CLOCK_MONOTONIC);
            }
            if (rank == 1) {
                MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
                continue;
            }
            MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (i >= warmup) {
                uint64_t now = nanos(CLOCK_MONOTONIC);
                answer[2 + i - warmup] = now - before;
                before = now;
            } else if (memcmp(in, out, (size_t)bytes) != 0) {
                stop("the echo differs from what was sent");
            }
        }
        uint64_t used = nanos(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
        if (rank == 1) {
            MPI_Send(&used, 1, MPI_UINT64_T, 0, 2, MPI_COMM_WORLD);
            whole(fd, &used, sizeof used, 0);
        } else {
            answer[0] = before - start;
            MPI_Recv(&far, 1, MPI_UINT64_T, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            answer[1] = used + far * count / (warmup + count);
            whole(fd, answer, (count + 2) * sizeof *answer, 0);
        }
        free(out);
        free(in);
        free(answer);
    }
    MPI_Finalize();
    return 0;
}
