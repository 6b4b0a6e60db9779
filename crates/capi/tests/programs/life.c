/* Life of MPI in a process that has a life of its own: sessions before MPI, forks, and ends of all kinds. It is a job of
   two processes or more. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static int begun(void)
{
    int flag;
    MPI_Initialized(&flag);
    return flag;
}

static int over(void)
{
    int flag;
    MPI_Finalized(&flag);
    return flag;
}

/* A session that begins before MPI and ends after its beginning, and one that ends before. */
static MPI_Session sessions_first(void)
{
    MPI_Session brief, lasting;
    MPI_Group group;
    int size, number;
    check(!begun() && !over(), "nothing has begun");
    check(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &brief) == MPI_SUCCESS, "a session before MPI_Init");
    check(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &lasting) == MPI_SUCCESS, "two sessions at a time");
    MPI_Session_get_num_psets(brief, MPI_INFO_NULL, &number);
    check(number >= 2, "there are process sets");
    check(MPI_Group_from_session_pset(brief, "mpi://WORLD", &group) == MPI_SUCCESS, "the processes of the job");
    MPI_Group_size(group, &size);
    check(size >= 2, "their number");
    MPI_Group_free(&group);
    check(MPI_Session_finalize(&brief) == MPI_SUCCESS && !begun(), "a session is no beginning of MPI");
    return lasting;
}

/* How a child ends is nothing to the job. */
static void forks(const char *own)
{
    int end;
    for (end = 0; end < 3; end++) {
        int status;
        pid_t child;
        fflush(NULL);
        child = fork();
        if (child == 0) {
            if (!begun() || !over())
                _exit(1);
            if (end == 0)
                _exit(5);
            if (end == 1)
                exit(5);
            execl(own, own, "child", (char *)NULL);
            _exit(1);
        }
        check(child > 0 && waitpid(child, &status, 0) == child, "a child");
        check(WIFEXITED(status) && WEXITSTATUS(status) == 5, "the end of a child");
    }
}

/* All processes of one host share memory. */
static void shared_memory(int rank, int size)
{
    MPI_Comm host;
    MPI_Win win;
    MPI_Aint bytes;
    int *own, *next, here, unit;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &here);
    check(here == size, "all are on this host");
    MPI_Comm_rank(host, &here);
    check(here == size - 1 - rank, "in the order of keys");
    MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, host, &own, &win);
    MPI_Win_fence(0, win);
    *own = 100 + here;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, (here + 1) % size, &bytes, &unit, &next);
    check(bytes == sizeof *next && unit == sizeof *next && *next == 100 + (here + 1) % size, "the neighbour's memory");
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
}

/* All hear of a mistake that the root has made. */
static void spawns_nobody(int rank)
{
    MPI_Comm made;
    int class;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Comm_spawn_multiple(1, NULL, MPI_ARGVS_NULL, NULL, NULL, 1, MPI_COMM_WORLD, &made,
                                            MPI_ERRCODES_IGNORE), &class);
    check(class == (rank == 1 ? MPI_ERR_ARG : MPI_ERR_SPAWN), "programs without a name");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The end of the process is the end of MPI, after a last call of all. */
static void at_exit(void)
{
    int one = 1, sum = 0, size;
    if (over())
        return;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == size, "a last sum");
    check(MPI_Finalize() == MPI_SUCCESS, "the end");
    puts("ended at exit");
}

int main(int argc, char **argv)
{
    int rank, size, number;
    const char *end = argc > 1 ? argv[1] : "";
    MPI_Session session;
    if (strcmp(end, "child") == 0)
        return 5;
    session = sessions_first();
    check(MPI_Init(&argc, &argv) == MPI_SUCCESS && begun(), "MPI_Init after sessions");
    check(MPI_Session_finalize(&session) == MPI_SUCCESS && begun() && !over(), "a session ends within");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(end, "handler") == 0) {
        atexit(at_exit);
        return 0;
    }
    if (rank == 1 && strcmp(end, "exit") == 0)
        exit(0);
    if (rank == 1 && strcmp(end, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (*end != '\0') {
        /* Without an end of the job, for ever. */
        MPI_Recv(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return 0;
    }
    forks(argv[0]);
    shared_memory(rank, size);
    spawns_nobody(rank);
    MPI_Finalize();
    check(begun() && over(), "MPI is over");
    forks(argv[0]);
    return 0;
}
