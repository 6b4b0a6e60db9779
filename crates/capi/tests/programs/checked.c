/* With HIKYAKU_CHECK=on, calls that do not match are errors that say what was called. It is a job of two processes. */
#include "check.h"

/* A call fails with this class, and its text has these words. */
static void refused(int code, int class, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int found, length;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    if (found != class || strstr(text, words) == NULL)
        fprintf(stderr, "class %d, %s\n", found, text);
    check(found == class && strstr(text, words) != NULL, words);
}

int main(int argc, char **argv)
{
    int rank, numbers[4] = {0};
    double other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    refused(MPI_Bcast(numbers, 4 - 2 * rank, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_NOT_SAME,
            "MPI_Bcast (root 0, 2 MPI_INT32_T)");
    if (rank == 0)
        MPI_Send(numbers, 2, MPI_INT, 1, 0, MPI_COMM_WORLD);
    else
        refused(MPI_Recv(&other, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE, "MPI_DOUBLE");
    check(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS, "what matches is no error");
    MPI_Finalize();
    return 0;
}
