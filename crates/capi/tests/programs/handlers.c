/* Error handlers live as long as the program or an object has them, and no longer. An object takes none for objects of
   another sort. It is a job of one process. */
#include "check.h"

/* Handles of a sort that there can be at a time are fewer. */
#define MANY ((1 << 22) + 1)

static int called;

static void of_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    called++;
}

static void of_win(MPI_Win *win, int *code, ...)
{
    (void)win;
    (void)code;
    called++;
}

static void of_session(MPI_Session *session, int *code, ...)
{
    (void)session;
    (void)code;
    called++;
}

/* The program frees its handle while `object` has the handler, frees what it gets from there, and sees what it has freed
   refused. */
#define CHECK_LIFE(Sort, object, function)                                                                            \
    do {                                                                                                               \
        MPI_Errhandler made, kept, got, again;                                                                         \
        int class, result;                                                                                             \
        check(MPI_##Sort##_create_errhandler(function, &made) == MPI_SUCCESS, #Sort ": a handler");                    \
        check(MPI_##Sort##_set_errhandler(object, made) == MPI_SUCCESS, #Sort ": it is set");                          \
        check(MPI_##Sort##_get_errhandler(object, &got) == MPI_SUCCESS && got == made, #Sort ": the same");            \
        kept = made;                                                                                                   \
        check(MPI_Errhandler_free(&made) == MPI_SUCCESS && made == MPI_ERRHANDLER_NULL, #Sort ": it is freed");        \
        check(MPI_##Sort##_set_errhandler(object, got) == MPI_SUCCESS, #Sort ": the other handle is still there");     \
        check(MPI_Errhandler_free(&got) == MPI_SUCCESS, #Sort ": the other handle is freed");                          \
        called = 0;                                                                                                    \
        check(MPI_##Sort##_call_errhandler(object, MPI_ERR_OTHER) == MPI_SUCCESS && called == 1, #Sort ": alive");     \
        result = MPI_##Sort##_set_errhandler(object, kept);                                                            \
        MPI_Error_class(result, &class);                                                                               \
        check(class == MPI_ERR_ERRHANDLER && called == 2, #Sort ": a handle that was freed");                          \
        check(MPI_Errhandler_free(&kept) != MPI_SUCCESS, #Sort ": it is freed once only");                             \
        check(MPI_##Sort##_get_errhandler(object, &again) == MPI_SUCCESS, #Sort ": a new handle");                     \
        check(MPI_##Sort##_set_errhandler(object, MPI_ERRORS_RETURN) == MPI_SUCCESS, #Sort ": another handler");       \
        check(MPI_##Sort##_set_errhandler(object, again) == MPI_SUCCESS, #Sort ": the first one, by its new handle");  \
        check(MPI_Errhandler_free(&again) == MPI_SUCCESS, #Sort ": the new handle is freed");                          \
        called = 0;                                                                                                    \
        check(MPI_##Sort##_call_errhandler(object, MPI_ERR_OTHER) == MPI_SUCCESS && called == 1, #Sort ": alive");     \
    } while (0)

/* `object` has a handler that returns, and refuses one for objects of another sort. */
#define CHECK_REFUSED(Sort, object, other)                                                                             \
    do {                                                                                                               \
        MPI_Errhandler got;                                                                                            \
        int class;                                                                                                     \
        check(MPI_##Sort##_set_errhandler(object, MPI_ERRORS_RETURN) == MPI_SUCCESS, #Sort ": errors return");         \
        MPI_Error_class(MPI_##Sort##_set_errhandler(object, other), &class);                                           \
        check(class == MPI_ERR_ERRHANDLER, #Sort ": a handler of another sort");                                       \
        check(MPI_##Sort##_get_errhandler(object, &got) == MPI_SUCCESS && got == MPI_ERRORS_RETURN, #Sort ": as before"); \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Comm first, second;
    MPI_Errhandler handler, got, for_comm, for_win, for_session;
    MPI_Group group;
    MPI_Session session;
    MPI_Win win;
    void *memory;
    int i, class;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(of_comm, &for_comm);
    MPI_Win_create_errhandler(of_win, &for_win);
    MPI_Session_create_errhandler(of_session, &for_session);
    MPI_Comm_dup(MPI_COMM_SELF, &first);
    CHECK_REFUSED(Comm, first, for_win);
    CHECK_LIFE(Comm, first, of_comm);
    /* A communicator has the handler of the one that it was made of, and keeps it. */
    MPI_Comm_dup(first, &second);
    MPI_Comm_free(&first);
    called = 0;
    check(MPI_Comm_call_errhandler(second, MPI_ERR_OTHER) == MPI_SUCCESS && called == 1, "the handler of a duplicate");
    MPI_Comm_free(&second);

    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    CHECK_REFUSED(Win, win, for_session);
    CHECK_LIFE(Win, win, of_win);
    MPI_Win_free(&win);

    MPI_Error_class(MPI_Session_init(MPI_INFO_NULL, for_comm, &session), &class);
    check(class == MPI_ERR_ERRHANDLER, "a session with a handler of another sort");
    MPI_Comm_group(MPI_COMM_SELF, &group);
    MPI_Error_class(MPI_Comm_create_from_group(group, "handlers", MPI_INFO_NULL, for_win, &first), &class);
    check(class == MPI_ERR_ERRHANDLER, "a communicator of a group with a handler of another sort");
    MPI_Group_free(&group);
    MPI_Session_create_errhandler(of_session, &handler);
    check(MPI_Session_init(MPI_INFO_NULL, handler, &session) == MPI_SUCCESS, "a session with a handler");
    MPI_Errhandler_free(&handler);
    called = 0;
    check(MPI_Session_call_errhandler(session, MPI_ERR_OTHER) == MPI_SUCCESS && called == 1, "the session's handler");
    CHECK_REFUSED(Session, session, for_comm);
    CHECK_LIFE(Session, session, of_session);
    MPI_Session_finalize(&session);

    /* Handles of predefined ones can be freed, which the standard wants for those that objects give. */
    check(MPI_Comm_get_errhandler(MPI_COMM_SELF, &got) == MPI_SUCCESS && got == MPI_ERRORS_RETURN, "a predefined one");
    check(MPI_Errhandler_free(&got) == MPI_SUCCESS && got == MPI_ERRHANDLER_NULL, "freeing a predefined one");

    MPI_Errhandler_free(&for_comm);
    MPI_Errhandler_free(&for_win);
    MPI_Errhandler_free(&for_session);

    for (i = 0; i < MANY; i++) {
        MPI_Comm_create_errhandler(of_comm, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
        MPI_Errhandler_free(&handler);
        MPI_Comm_get_errhandler(MPI_COMM_SELF, &got);
        MPI_Errhandler_free(&got);
    }
    MPI_Finalize();
    return 0;
}
