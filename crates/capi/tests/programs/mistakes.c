/* Wrong arguments, each of which ends in an error with a text that says what is wrong. It is a job of one process. */
#include "check.h"
#include <sys/socket.h>
#include <unistd.h>

/* A call fails with this class, and its text has these words. */
static void refused(int code, int class, const char *words, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int found, length;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    if (found != class || strstr(text, words) == NULL)
        fprintf(stderr, "%s: class %d, %s\n", what, found, text);
    check(found == class && strstr(text, words) != NULL, what);
}

/* Null pointers in the places of arrays. */
static void null_arrays(void)
{
    MPI_Group group, made;
    MPI_Comm grid;
    MPI_Datatype type;
    int sizes[] = {1}, periods[] = {0}, ranks[] = {0}, out;
    refused(MPI_Waitall(3, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "null pointer", "no requests");
    refused(MPI_Startall(1, NULL), MPI_ERR_ARG, "null pointer", "no requests to start");
    check(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "none is needed for no requests");
    MPI_Comm_group(MPI_COMM_SELF, &group);
    refused(MPI_Group_incl(group, 3, NULL, &made), MPI_ERR_ARG, "null pointer", "no ranks");
    refused(MPI_Group_translate_ranks(group, 1, NULL, group, &out), MPI_ERR_ARG, "null pointer", "no ranks of a group");
    refused(MPI_Group_translate_ranks(group, 1, ranks, group, NULL), MPI_ERR_ARG, "null pointer", "no room for ranks");
    check(MPI_Group_incl(group, 0, NULL, &made) == MPI_SUCCESS && made == MPI_GROUP_EMPTY, "none is needed for none");
    MPI_Group_free(&group);
    refused(MPI_Cart_create(MPI_COMM_SELF, 1, NULL, periods, 0, &grid), MPI_ERR_ARG, "null pointer", "no sizes");
    check(MPI_Cart_create(MPI_COMM_SELF, 1, sizes, periods, 0, &grid) == MPI_SUCCESS, "a grid");
    refused(MPI_Cart_coords(grid, 0, 1, NULL), MPI_ERR_ARG, "null pointer", "no room for coordinates");
    refused(MPI_Cart_rank(grid, NULL, &out), MPI_ERR_ARG, "null pointer", "no coordinates");
    MPI_Comm_free(&grid);
    refused(MPI_Type_create_struct(1, NULL, NULL, NULL, &type), MPI_ERR_ARG, "null pointer", "no blocks");
}

/* Ranks and tags that there are not; the text has the number as the program gave it. */
static void numbers(void)
{
    int number = 0;
    refused(MPI_Send(&number, 1, MPI_INT, -55, 0, MPI_COMM_SELF), MPI_ERR_RANK, "-55", "a negative rank");
    refused(MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_SELF), MPI_ERR_RANK, "1", "a rank that there is not");
    refused(MPI_Send(&number, 1, MPI_INT, 0, -77, MPI_COMM_SELF), MPI_ERR_TAG, "-77", "a negative tag");
    refused(MPI_Bcast(&number, 1, MPI_INT, 3, MPI_COMM_SELF), MPI_ERR_ROOT, "3", "a root that there is not");
    refused(MPI_Send(&number, -1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT, "-1", "a negative count");
    refused(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, "null pointer", "no buffer");
}

/* Programs to start, without what says which ones. Where it may be absent, the launcher is asked, and there is none. */
static void spawned(void)
{
    char command[] = "program", *commands[] = {command, NULL};
    int processes[] = {1, 1}, none[] = {0, 0};
    MPI_Comm made;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL}, freed[2];
    MPI_Info_create(&freed[0]);
    freed[1] = freed[0];
    MPI_Info_free(&freed[1]);
#define START(count, commands, processes, infos)                                                                      \
    MPI_Comm_spawn_multiple(count, commands, MPI_ARGVS_NULL, processes, infos, 0, MPI_COMM_SELF, &made,                \
                            MPI_ERRCODES_IGNORE)
    refused(START(1, NULL, processes, infos), MPI_ERR_ARG, "array_of_commands", "no array of commands");
    refused(START(1, commands, NULL, infos), MPI_ERR_ARG, "null pointer", "no array of numbers");
    refused(START(1, commands, processes, NULL), MPI_ERR_ARG, "null pointer", "no array of infos");
    refused(START(2, commands, processes, infos), MPI_ERR_ARG, "the command", "a null pointer for a command");
    refused(START(2, commands, processes, freed), MPI_ERR_INFO, "", "an info that was freed");
    refused(START(1, commands, none, infos), MPI_ERR_SPAWN, "at least 1", "no process");
    refused(START(-1, commands, processes, infos), MPI_ERR_COUNT, "-1", "a negative number of commands");
    refused(START(1, commands, processes, infos), MPI_ERR_SPAWN, "could not be started", "nobody starts them");
    refused(MPI_Comm_spawn(NULL, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made, MPI_ERRCODES_IGNORE),
            MPI_ERR_ARG, "the command", "no command");
}

/* Sockets with nobody at the other end: the process lives to see the error. */
static void joined(void)
{
    MPI_Comm made;
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && close(ends[1]) == 0, "a socket whose other end is closed");
    refused(MPI_Comm_join(ends[0], &made), MPI_ERR_ARG, "fd", "a peer that has gone");
    close(ends[0]);
    refused(MPI_Comm_join(ends[0], &made), MPI_ERR_ARG, "fd", "a descriptor that is closed");
    refused(MPI_Comm_join(-1, &made), MPI_ERR_ARG, "fd", "no descriptor");
}

/* Of the message that did not fit. */
static void is_of_message(const MPI_Status *status)
{
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    check(status->MPI_SOURCE == 0 && status->MPI_TAG == 5 && count == 1, "the status is that of what was received");
}

/* Asks for the ends of receives of which one has failed: it goes on being asked for. */
static void truncated(void)
{
    MPI_Request requests[2];
    int out[] = {1, 2}, into = 0, flag = 0, code = MPI_SUCCESS;
    MPI_Irecv(&into, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(out, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[1]);
    while (code == MPI_SUCCESS && !flag)
        code = MPI_Request_get_status_all(2, requests, &flag, MPI_STATUSES_IGNORE);
    refused(code, MPI_ERR_TRUNCATE, "", "the ends of all");
    flag = 0;
    code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !flag)
        code = MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
    refused(code, MPI_ERR_TRUNCATE, "", "the end of one");
    MPI_Status status;
    refused(MPI_Wait(&requests[0], &status), MPI_ERR_TRUNCATE, "tag 5", "the receive");
    check(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS, "the send");
    is_of_message(&status);

    MPI_Isend(out, 2, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[1]);
    refused(MPI_Recv(&into, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &status), MPI_ERR_TRUNCATE, "tag 5",
            "a receive of any message");
    check(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS, "its send");
    is_of_message(&status);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    refused(MPI_Init(&argc, &argv), MPI_ERR_OTHER, "MPI_Init", "a second MPI_Init");
    null_arrays();
    numbers();
    truncated();
    spawned();
    joined();
    MPI_Finalize();
    return 0;
}
