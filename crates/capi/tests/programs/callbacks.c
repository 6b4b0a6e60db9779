/* Functions of the program that the library calls: only in threads that are inside a call. It is a job of two processes. */
#include "check.h"
#include <pthread.h>

static pthread_t own;
static volatile int inside, calls;

/* Each function of this program says that it is called. */
static void called(void)
{
    check(inside && pthread_equal(pthread_self(), own), "a call by a thread that is inside a call");
    calls++;
}

static void at_work(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

/* The type is one of the program's, whose handle may be freed already. */
static void add(void *given, void *result, int *count, MPI_Datatype *type)
{
    int i, size;
    called();
    MPI_Type_size(*type, &size);
    check(size == 2 * sizeof(int), "the type of a reduction");
    for (i = 0; i < 2 * *count; i++)
        ((int *)result)[i] += ((int *)given)[i];
}

/* Sums by the program's operation, while the program is at work. */
static void sums(int count)
{
    MPI_Datatype pair, kept;
    MPI_Op op;
    MPI_Request request;
    int i, rank, *from = malloc(2 * count * sizeof *from), *into = calloc(2 * count, sizeof *into);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 0; i < 2 * count; i++)
        from[i] = i + rank;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    kept = pair;
    MPI_Op_create(add, 1, &op);
    inside = 1;
    MPI_Iallreduce(from, into, count, pair, op, MPI_COMM_WORLD, &request);
    inside = 0;
    /* What a call uses stays until its end. */
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    check(pair == MPI_DATATYPE_NULL && op == MPI_OP_NULL, "they are freed");
    at_work(0.05);
    inside = 1;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    inside = 0;
    for (i = 0; i < 2 * count; i++)
        check(into[i] == 2 * i + 1, "a sum");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Allreduce(from, into, count, kept, MPI_SUM, MPI_COMM_WORLD), &i);
    check(i == MPI_ERR_TYPE, "a type that was freed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(from);
    free(into);
}

static int query(void *state, MPI_Status *status)
{
    called();
    MPI_Status_set_elements(status, MPI_INT, *(int *)state);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 3;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    called();
    *(int *)state = 0;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    called();
    return MPI_SUCCESS;
}

static void *complete(void *request)
{
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

/* A request that another thread completes. */
static void general_requests(void)
{
    MPI_Request request, copy;
    MPI_Status status;
    pthread_t other;
    int state = 5, count;
    MPI_Grequest_start(query, release, cancel, &state, &request);
    copy = request;
    pthread_create(&other, NULL, complete, &copy);
    inside = 1;
    MPI_Wait(&request, &status);
    inside = 0;
    pthread_join(other, NULL);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 5 && status.MPI_TAG == 3 && state == 0, "a request of the program's own");
}

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    called();
    *(int *)value += *(int *)extra;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    MPI_Comm comm;
    int key, value = 1, extra = 10;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, &extra);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, key, &value);
    at_work(0.01);
    inside = 1;
    MPI_Comm_free(&comm);
    inside = 0;
    check(value == 11, "an attribute");
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv)
{
    int level;
    own = pthread_self();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check(level == MPI_THREAD_MULTIPLE, "all threads may call");
    sums(1);
    sums(1000);
    sums(200000);
    general_requests();
    attributes();
    check(calls >= 3 + 2 + 1, "all functions were called");
    MPI_Finalize();
    return 0;
}
