// An error handler throws, and the program goes on. It is a job of one process.
#include "check.h"

static void throws(MPI_Comm *, int *code, ...)
{
    throw *code;
}

// What a call throws.
template <typename Call> static int thrown(Call call)
{
    try {
        call();
    } catch (int code) {
        int found;
        MPI_Error_class(code, &found);
        return found;
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(throws, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    int out[] = {1, 2}, into = 0;
    MPI_Request requests[2];
    auto fails = [&] { MPI_Send(out, 1, MPI_INT, -5, 0, MPI_COMM_SELF); };
    check(thrown(fails) == MPI_ERR_RANK, "a rank that there is not");
    MPI_Isend(out, 2, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(&into, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[1]);
    check(thrown([&] { MPI_Wait(&requests[1], MPI_STATUS_IGNORE); }) == MPI_ERR_TRUNCATE, "a message that is too long");
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    // It goes on.
    MPI_Irecv(&into, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[1]);
    MPI_Send(out, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    check(thrown([&] { MPI_Wait(&requests[1], MPI_STATUS_IGNORE); }) == MPI_SUCCESS && into == 1, "a message");
    MPI_Finalize();
    return 0;
}
