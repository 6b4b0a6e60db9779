/* Receives of many kinds of ends, between two ranks: in order and not, alone and together, cancelled, freed, truncated, asked
   for by calls of all kinds; sends that end at once; and messages that are probed for. */
#include "check.h"

enum { MANY = 200 };

static int rank;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Both ranks are here. */
static void meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 sends the numbers below `count`, each with its number as tag, or with the same. */
static void send_numbers(int count, int same)
{
    MPI_Request requests[MANY];
    static int numbers[MANY];
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        check(MPI_Isend(&numbers[i], 1, MPI_INT, 1, same ? 7 : i, MPI_COMM_WORLD, &requests[i]) == MPI_SUCCESS, "isend");
    }
    check(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "sends end");
    for (int i = 0; i < count; i++)
        check(requests[i] == MPI_REQUEST_NULL, "the handle of a send is null");
}

static void check_status(const MPI_Status *status, int tag)
{
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    check(status->MPI_SOURCE == 0 && status->MPI_TAG == tag && count == 1, "a status");
}

/* The receives of `MANY` numbers are posted early or late, and ended by Waitall in the order `step` gives. */
static void in_order(int step, int early, int same)
{
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    int numbers[MANY];
    if (rank == 0) {
        if (early)
            meet();
        send_numbers(MANY, same);
        if (!early)
            meet();
    } else {
        if (!early)
            meet();
        for (int i = 0; i < MANY; i++)
            MPI_Irecv(&numbers[i], 1, MPI_INT, 0, same ? 7 : i, MPI_COMM_WORLD, &requests[i * step % MANY]);
        if (early)
            meet();
        check(MPI_Waitall(MANY, requests, statuses) == MPI_SUCCESS, "receives end");
        for (int i = 0; i < MANY; i++) {
            check(requests[i] == MPI_REQUEST_NULL, "the handle of a receive is null");
            check(numbers[i] == i, "a number");
            check_status(&statuses[i * step % MANY], same ? 7 : i);
        }
    }
    meet();
}

/* One receive at a time, by each of the calls that end one. */
static void alone(void)
{
    if (rank == 0) {
        for (int i = 0; i < 8; i++) {
            meet();
            send_numbers(1, 1);
        }
    } else {
        for (int i = 0; i < 8; i++) {
            int number = -1, flag = 0, index = -1, indices[2], count = 0;
            MPI_Request request, copy, two[2];
            MPI_Status status;
            MPI_Irecv(&number, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);
            copy = request;
            check(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && !flag && request == copy, "nothing has come");
            two[0] = MPI_REQUEST_NULL;
            two[1] = request;
            meet();
            switch (i) {
            case 0:
                MPI_Wait(&request, &status);
                break;
            case 1:
                while (!flag)
                    MPI_Test(&request, &flag, &status);
                break;
            case 2:
                MPI_Waitany(2, two, &index, &status);
                check(index == 1, "the place of the receive");
                break;
            case 3:
                while (!flag)
                    MPI_Testany(2, two, &index, &flag, &status);
                check(index == 1, "the place of the receive");
                break;
            case 4:
                MPI_Waitsome(2, two, &count, indices, &status);
                check(count == 1 && indices[0] == 1, "the places of those that have ended");
                break;
            case 5:
                while (count == 0)
                    MPI_Testsome(2, two, &count, indices, &status);
                break;
            case 6:
                while (!flag)
                    MPI_Request_get_status(request, &flag, &status);
                check_status(&status, 7);
                MPI_Wait(&request, &status);
                break;
            case 7:
                while (!flag)
                    MPI_Testall(1, &request, &flag, &status);
                break;
            }
            if (i >= 2 && i <= 5)
                request = two[1];
            check(request == MPI_REQUEST_NULL && number == 0, "it has ended");
            check_status(&status, 7);
            check(class_of(MPI_Wait(&copy, &status)) == MPI_ERR_REQUEST, "its handle is of no request any more");
        }
    }
    meet();
}

/* A message that has been probed for, to be received by one of several calls; the next one is probed for meanwhile. */
static void probed(int length)
{
    static char out[MANY * 400], next[MANY * 400], into[MANY * 400];
    MPI_Message messages[2], copy;
    MPI_Status status;
    MPI_Request request;
    int count;
    if (rank == 0) {
        for (int i = 0; i < 8; i += 2) {
            memset(out, 'a' + i, sizeof out);
            memset(next, 'a' + i + 1, sizeof next);
            /* (Both are probed for before one is received, and a long one waits for that.) */
            MPI_Isend(out, length, MPI_CHAR, 1, 20 + i, MPI_COMM_WORLD, &request);
            MPI_Send(next, length, MPI_CHAR, 1, 21 + i, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < 8; i += 2) {
            for (int j = 0; j < 2; j++) {
                MPI_Mprobe(0, j ? MPI_ANY_TAG : 20 + i, MPI_COMM_WORLD, &messages[j], &status);
                MPI_Get_count(&status, MPI_CHAR, &count);
                check(status.MPI_SOURCE == 0 && status.MPI_TAG == 20 + i + j && count == length, "what a probe says");
            }
            check(messages[0] != messages[1], "two messages have two handles");
            for (int j = 1; j >= 0; j--) {
                copy = messages[j];
                memset(into, 0, sizeof into);
                memset(&status, 0, sizeof status);
                if (i < 4)
                    MPI_Mrecv(into, i ? (int)sizeof into : length, MPI_CHAR, &messages[j], &status);
                else if (i < 6) {
                    MPI_Imrecv(into, length, MPI_CHAR, &messages[j], &request);
                    MPI_Wait(&request, &status);
                } else if (length > 0)
                    check(class_of(MPI_Mrecv(into, length - 1, MPI_CHAR, &messages[j], &status)) == MPI_ERR_TRUNCATE,
                          "the message is too long");
                else
                    MPI_Mrecv(NULL, 0, MPI_CHAR, &messages[j], MPI_STATUS_IGNORE);
                check(messages[j] == MPI_MESSAGE_NULL, "the handle is null");
                check(class_of(MPI_Mrecv(into, length, MPI_CHAR, &copy, &status)) == MPI_ERR_REQUEST,
                      "its handle is of no message any more");
                if (i < 6) {
                    memset(out, 'a' + i + j, sizeof out);
                    check(memcmp(into, out, length) == 0 && into[length] == 0, "the bytes");
                    check(status.MPI_SOURCE == 0 && status.MPI_TAG == 20 + i + j, "the status");
                }
            }
        }
    }
    meet();
}

/* A message that was probed for on a communicator that is freed before it is received. */
static void probed_before_it_is_freed(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) {
        MPI_Send(&rank, 1, MPI_INT, 1, 3, comm);
        MPI_Send(&rank, 1, MPI_INT, 1, 4, comm);
        MPI_Comm_free(&comm);
    } else {
        MPI_Message messages[2];
        MPI_Request request;
        int numbers[2] = {-1, -1};
        for (int i = 0; i < 2; i++)
            MPI_Mprobe(0, 3 + i, comm, &messages[i], MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
        MPI_Imrecv(&numbers[1], 1, MPI_INT, &messages[1], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Mrecv(&numbers[0], 1, MPI_INT, &messages[0], MPI_STATUS_IGNORE);
        check(numbers[0] == 0 && numbers[1] == 0, "both are received");
    }
    meet();
}

/* The text of an error says which function of which rank has failed, on which communicator, and why. */
static void say(int code, const char *function, const char *argument, int own)
{
    char text[MPI_MAX_ERROR_STRING], place[32];
    int length;
    MPI_Error_string(code, text, &length);
    snprintf(place, sizeof place, " at rank %d: ", own);
    if (strncmp(text, function, strlen(function)) || !strstr(text, argument) || !strstr(text, place)
        || !strstr(text, " on communicator ")) {
        fprintf(stderr, "%s\n", text);
        check(0, "the text of an error");
    }
}

static void texts(void)
{
    MPI_Comm turned;
    int number = 0;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_set_errhandler(turned, MPI_ERRORS_RETURN);
    say(MPI_Send(&number, 1, MPI_INT, 7, 0, MPI_COMM_WORLD), "MPI_Send", "rank 7", rank);
    say(MPI_Send(&number, 1, MPI_INT, 7, 0, turned), "MPI_Send", "rank 7", 1 - rank);
    say(MPI_Send(&number, -1, MPI_INT, 0, 0, turned), "MPI_Send", "count", 1 - rank);
    if (rank == 0) {
        MPI_Message message;
        short small;
        MPI_Mprobe(0, 0, turned, &message, MPI_STATUS_IGNORE);
        say(MPI_Mrecv(&small, 1, MPI_SHORT, &message, MPI_STATUS_IGNORE), "MPI_Mrecv", "there is room for 2", 1);
    } else
        MPI_Send(&number, 1, MPI_INT, 1, 0, turned);
    MPI_Comm_free(&turned);
    meet();
}

/* What ends in other ways. */
static void otherwise(void)
{
    int number = -1, other = -1, flag = 0;
    MPI_Request request, persistent, mixed[4];
    MPI_Status status, statuses[4];
    MPI_Comm comm;
    if (rank == 1) {
        MPI_Irecv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        check(flag && request == MPI_REQUEST_NULL, "it is cancelled");

        short small;
        MPI_Irecv(&small, 1, MPI_SHORT, 0, 7, MPI_COMM_WORLD, &request);
        meet();
        check(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE, "the message is too long");
        check(request == MPI_REQUEST_NULL, "it has ended");

        MPI_Irecv(&small, 1, MPI_SHORT, 0, 7, MPI_COMM_WORLD, &mixed[0]);
        MPI_Irecv(&number, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &mixed[1]);
        mixed[2] = MPI_REQUEST_NULL;
        MPI_Recv_init(&number, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &persistent);
        mixed[3] = persistent;
        meet();
        check(class_of(MPI_Waitall(4, mixed, statuses)) == MPI_ERR_IN_STATUS, "one of them is too long");
        check(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE, "it is the first");
        check(statuses[1].MPI_ERROR == MPI_SUCCESS && statuses[3].MPI_ERROR == MPI_SUCCESS, "the others ended well");
        check(mixed[3] == persistent, "a persistent one stays");
        MPI_Request_free(&persistent);

        static int late;
        MPI_Irecv(&late, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        check(request == MPI_REQUEST_NULL, "it is freed");
        meet();
        MPI_Recv(&number, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(late == 0, "it went on");
    } else {
        meet();
        send_numbers(1, 1);
        meet();
        send_numbers(2, 1);
        meet();
        send_numbers(1, 1);
        MPI_Send(&rank, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
    }
    /* Its communicator is freed before it ends. */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank == 1) {
        number = -1;
        MPI_Irecv(&number, 1, MPI_INT, 0, 5, comm, &request);
        MPI_Irecv(&other, 1, MPI_INT, 0, 6, comm, &mixed[0]);
        MPI_Comm_free(&comm);
        meet();
        check(MPI_Wait(&request, &status) == MPI_SUCCESS && number == 5, "it ends all the same");
        for (flag = 0; !flag;)
            MPI_Test(&mixed[0], &flag, &status);
        check(status.MPI_TAG == 6 && other == 6, "and so does the other one");
    } else {
        meet();
        for (number = 5; number < 7; number++)
            MPI_Send(&number, 1, MPI_INT, 1, number, comm);
        MPI_Comm_free(&comm);
    }
    meet();
}

/* Messages in partitions: what their statuses say. */
static void in_partitions(void)
{
    int numbers[6] = {0}, count = -1;
    MPI_Request request;
    MPI_Status status;

    if (rank == 1)
        MPI_Precv_init(numbers, 3, 2, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Psend_init(numbers, 2, 3, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 1; round < 4; round++) {
        numbers[5] = rank == 1 ? -1 : round;
        MPI_Start(&request);
        if (rank == 0)
            MPI_Pready_range(0, 1, request);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        check(numbers[5] == round, "what was sent in partitions");
        check(rank == 0 || (status.MPI_SOURCE == 0 && status.MPI_TAG == 9 && count == 6), "the status of partitions");
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size == 2, "two ranks");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int round = 0; round < 20; round++) {
        for (int early = 0; early < 2; early++) {
            for (int same = 0; same < 2; same++) {
                in_order(1, early, same);
                in_order(MANY - 1, early, same);
                in_order(7, early, same);
            }
        }
        alone();
        otherwise();
        static const int lengths[] = {0, 1, 8, 44, 45, 104, 105, 1062, 20000, 70000};
        for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
            probed(lengths[i]);
        probed_before_it_is_freed();
        in_partitions();
        texts();
    }
    MPI_Finalize();
    return 0;
}
