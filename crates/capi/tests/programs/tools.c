/* A tool: it looks at all settings and counters, and sees a counter grow. It is a job of one process. */
#include "check.h"

static char room[4096];

/* A setting that is set when the program starts. */
static void settings(void)
{
    int count, i, length, kind, bind, scope, verbosity, index = -1, categories, of_settings = -1;
    MPI_Datatype datatype;
    MPI_T_enum values;
    MPI_T_cvar_handle handle, freed;
    check(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count > 20, "the number of settings");
    for (i = 0; i < count; i++) {
        char name[128], meaning[1024];
        int name_length = sizeof name, meaning_length = sizeof meaning;
        kind = MPI_T_cvar_get_info(
            i, name, &name_length, &verbosity, &datatype, &values, meaning, &meaning_length, &bind, &scope);
        check(kind == MPI_SUCCESS && strncmp(name, "HIKYAKU_", 8) == 0, "the name of a setting");
        check(name_length == (int)strlen(name) + 1 && meaning_length == (int)strlen(meaning) + 1, "lengths");
        check(datatype == MPI_CHAR && values == MPI_T_ENUM_NULL, "the type of a setting");
        check(verbosity == MPI_T_VERBOSITY_USER_BASIC && bind == MPI_T_BIND_NO_OBJECT, "constants of a setting");
        check(scope == MPI_T_SCOPE_READONLY, "the scope of a setting");
        check(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS && index == i, "the index of a setting");
        check(MPI_T_cvar_handle_alloc(i, NULL, &handle, &length) == MPI_SUCCESS, "a handle of a setting");
        check(length <= (int)sizeof room && MPI_T_cvar_read(handle, room) == MPI_SUCCESS, "the value of a setting");
        check((int)strlen(room) + 1 == length, "the length of a value");
        if (strcmp(name, "HIKYAKU_EAGER_LIMIT") == 0)
            check(strcmp(room, "777") == 0, "the value that is set");
        check(MPI_T_cvar_write(handle, room) == MPI_T_ERR_CVAR_SET_NEVER, "no setting can be written");
        freed = handle;
        check(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL, "freeing");
        check(MPI_T_cvar_read(freed, room) == MPI_T_ERR_INVALID_HANDLE, "a handle that was freed");
    }
    length = 8;
    check(MPI_T_cvar_get_info(0, room, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS, "no results");
    check(strlen(room) == 7 && length > 8, "a name that is cut, and its length");
    check(MPI_T_cvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX,
          "an index too large");
    check(MPI_T_cvar_get_index("nothing", &index) == MPI_T_ERR_INVALID_NAME, "a name of nothing");
    check(MPI_T_category_get_num(&categories) == MPI_SUCCESS && categories == 2, "categories");
    check(MPI_T_category_get_index("settings", &index) == MPI_SUCCESS, "a category by its name");
    check(MPI_T_category_get_info(index, NULL, NULL, NULL, NULL, &of_settings, NULL, NULL) == MPI_SUCCESS
              && of_settings == count,
          "all settings are in a category");
}

/* The index of a counter, found by looking at all. */
static int find(const char *wanted)
{
    int count, i, class, verbosity, bind, fixed, continuous, atomic, found = -1, index;
    MPI_Datatype datatype;
    MPI_T_enum values;
    check(MPI_T_pvar_get_num(&count) == MPI_SUCCESS && count > 5, "the number of counters");
    for (i = 0; i < count; i++) {
        char name[128], meaning[1024];
        int name_length = sizeof name, meaning_length = sizeof meaning;
        int result = MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &datatype, &values, meaning,
            &meaning_length, &bind, &fixed, &continuous, &atomic);
        check(result == MPI_SUCCESS && strlen(name) > 0 && strlen(meaning) > 0, "a counter in words");
        check(class == MPI_T_PVAR_CLASS_COUNTER || class == MPI_T_PVAR_CLASS_LEVEL
                  || class == MPI_T_PVAR_CLASS_HIGHWATERMARK,
              "the class of a counter");
        check(datatype == MPI_UNSIGNED_LONG_LONG && bind == MPI_T_BIND_NO_OBJECT, "the type of a counter");
        check(fixed && continuous && !atomic, "a counter runs always and is not written");
        check(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS && index == i, "the index of a counter");
        check(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_TIMER, &index) == MPI_T_ERR_INVALID_NAME, "of another class");
        if (strcmp(name, wanted) == 0)
            found = i;
    }
    check(found >= 0, wanted);
    return found;
}

static unsigned long long value_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;
    check(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS, "reading");
    return value;
}

/* Messages that come before their receive are counted. */
static void grows(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    int i, sent = 5, received = 0;
    unsigned long long before = value_of(session, handle), after;
    for (i = 0; i < 3; i++)
        MPI_Bsend(&sent, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
    for (i = 0; i < 3; i++)
        MPI_Recv(&received, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    after = value_of(session, handle);
    check(received == 5 && after == before + 3, "three messages more");
}

int main(int argc, char **argv)
{
    static char buffer[16384];
    int provided, index, count, length, class;
    unsigned long long value;
    char text[MPI_MAX_ERROR_STRING];
    MPI_T_pvar_session session, other, ended;
    MPI_T_pvar_handle handle, freed;

    check(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED, "before the beginning");
    check(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED, "no end before the beginning");
    check(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS, "the beginning");
    check(provided == MPI_THREAD_MULTIPLE, "the level of threads");
    check(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS, "the beginning, once more");
    settings();
    index = find("unexpected");
    check(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "a session");
    check(MPI_T_pvar_session_create(&other) == MPI_SUCCESS && other != session, "a second session");
    check(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1, "a handle");
    check(value_of(session, handle) == 0, "no messages before MPI begins");

    MPI_Init(&argc, &argv);
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    grows(session, handle);
    check(MPI_T_pvar_read(other, handle, &value) == MPI_T_ERR_INVALID_HANDLE, "a handle of another session");
    check(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP, "it cannot be started");
    check(MPI_T_pvar_stop(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP, "it cannot be stopped");
    check(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS, "starting all");
    check(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS, "stopping all");
    check(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS, "resetting all");
    check(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &value) == MPI_T_ERR_INVALID_HANDLE, "reading all");
    check(MPI_T_pvar_write(session, handle, &value) == MPI_T_ERR_PVAR_NO_WRITE, "it cannot be written");
    check(MPI_T_pvar_readreset(session, handle, &value) == MPI_T_ERR_PVAR_NO_WRITE, "nor reset when it is read");
    check(MPI_Error_string(MPI_T_ERR_PVAR_NO_WRITE, text, &length) == MPI_SUCCESS && strstr(text, "PVAR_NO_WRITE"),
          "an error in words");
    check(MPI_Error_class(MPI_T_ERR_PVAR_NO_WRITE, &class) == MPI_SUCCESS && class == MPI_T_ERR_PVAR_NO_WRITE,
          "the class of an error");
    grows(session, handle);

    /* The last end takes handles and sessions along; then there can be a new beginning. */
    check(MPI_T_finalize() == MPI_SUCCESS, "the end of the second beginning");
    grows(session, handle);
    check(MPI_T_finalize() == MPI_SUCCESS, "the end");
    check(MPI_T_pvar_read(session, handle, &value) == MPI_T_ERR_NOT_INITIALIZED, "after the end");
    check(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS, "a new beginning");
    check(MPI_T_pvar_read(session, handle, &value) == MPI_T_ERR_INVALID_SESSION, "a session that has ended");
    check(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "a new session");
    check(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS, "a new handle");
    grows(session, handle);
    freed = handle;
    check(MPI_T_pvar_handle_free(session, &handle) == MPI_SUCCESS && handle == MPI_T_PVAR_HANDLE_NULL, "freeing");
    check(MPI_T_pvar_read(session, freed, &value) == MPI_T_ERR_INVALID_HANDLE, "a handle that was freed");
    check(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS, "a third handle");
    MPI_Buffer_detach(buffer, &length);
    MPI_Finalize();
    check(value_of(session, handle) == 12, "the counter is there after the end of MPI");
    ended = session;
    check(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL, "ending a session");
    check(MPI_T_pvar_start(ended, MPI_T_PVAR_ALL_HANDLES) == MPI_T_ERR_INVALID_SESSION, "the session is over");
    check(MPI_T_event_get_num(&count) == MPI_SUCCESS && count == 0, "there are no events");
    check(MPI_T_finalize() == MPI_SUCCESS, "the last end");
    return 0;
}
