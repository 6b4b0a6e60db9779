/* What the programs of this folder use, by MPICH's ABI. */
typedef int MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session, MPI_Win;
typedef long MPI_Aint;
typedef struct {
    int count_low, count_high, MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;
typedef struct enumeration *MPI_T_enum;
typedef struct setting *MPI_T_cvar_handle;
typedef struct counter *MPI_T_pvar_handle;
typedef struct counters *MPI_T_pvar_session;
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
typedef void MPI_Session_errhandler_function(MPI_Session *, int *, ...);
typedef void MPI_Win_errhandler_function(MPI_Win *, int *, ...);

#define MPI_SUCCESS 0
#define MPI_COMM_SELF 0x44000001
#define MPI_INT 0x4c000405
#define MPI_CHAR 0x4c000101
#define MPI_UNSIGNED_LONG_LONG 0x4c000819
#define MPI_INFO_NULL 0x1c000000
#define MPI_STATUS_IGNORE ((MPI_Status *)1)
#define MPI_ERRHANDLER_NULL 0x14000000
#define MPI_ERRORS_ARE_FATAL 0x54000000
#define MPI_ERRORS_RETURN 0x54000001
#define MPI_ERR_OTHER 15
#define MPI_ERR_ERRHANDLER 80
#define MPI_MAX_ERROR_STRING 512
#define MPI_THREAD_SINGLE 0
#define MPI_THREAD_MULTIPLE 3
#define MPI_T_ENUM_NULL ((MPI_T_enum)0)
#define MPI_T_CVAR_HANDLE_NULL ((MPI_T_cvar_handle)0)
#define MPI_T_PVAR_HANDLE_NULL ((MPI_T_pvar_handle)0)
#define MPI_T_PVAR_SESSION_NULL ((MPI_T_pvar_session)0)
#define MPI_T_VERBOSITY_USER_BASIC 221
#define MPI_T_BIND_NO_OBJECT 9700
#define MPI_T_SCOPE_READONLY 60439
#define MPI_T_PVAR_CLASS_LEVEL 241
#define MPI_T_PVAR_CLASS_HIGHWATERMARK 244
#define MPI_T_PVAR_CLASS_COUNTER 246
#define MPI_T_PVAR_CLASS_TIMER 248
#define MPI_T_ERR_NOT_INITIALIZED 60
#define MPI_T_ERR_INVALID_INDEX 62
#define MPI_T_ERR_INVALID_HANDLE 64
#define MPI_T_ERR_INVALID_SESSION 67
#define MPI_T_ERR_CVAR_SET_NEVER 69
#define MPI_T_ERR_PVAR_NO_STARTSTOP 70
#define MPI_T_ERR_PVAR_NO_WRITE 71
#define MPI_T_ERR_INVALID_NAME 73

extern MPI_T_pvar_handle const MPI_T_PVAR_ALL_HANDLES;

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Buffer_attach(void *, int);
int MPI_Buffer_detach(void *, int *);
int MPI_Bsend(const void *, int, MPI_Datatype, int, int, MPI_Comm);
int MPI_Recv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int MPI_Error_string(int, char *, int *);
int MPI_Error_class(int, int *);
int MPI_Comm_dup(MPI_Comm, MPI_Comm *);
int MPI_Comm_free(MPI_Comm *);
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *, MPI_Errhandler *);
int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler);
int MPI_Comm_get_errhandler(MPI_Comm, MPI_Errhandler *);
int MPI_Comm_call_errhandler(MPI_Comm, int);
int MPI_Session_init(MPI_Info, MPI_Errhandler, MPI_Session *);
int MPI_Session_finalize(MPI_Session *);
int MPI_Session_create_errhandler(MPI_Session_errhandler_function *, MPI_Errhandler *);
int MPI_Session_set_errhandler(MPI_Session, MPI_Errhandler);
int MPI_Session_get_errhandler(MPI_Session, MPI_Errhandler *);
int MPI_Session_call_errhandler(MPI_Session, int);
int MPI_Win_allocate(MPI_Aint, int, MPI_Info, MPI_Comm, void *, MPI_Win *);
int MPI_Win_free(MPI_Win *);
int MPI_Win_create_errhandler(MPI_Win_errhandler_function *, MPI_Errhandler *);
int MPI_Win_set_errhandler(MPI_Win, MPI_Errhandler);
int MPI_Win_get_errhandler(MPI_Win, MPI_Errhandler *);
int MPI_Win_call_errhandler(MPI_Win, int);
int MPI_Errhandler_free(MPI_Errhandler *);
int MPI_T_init_thread(int, int *);
int MPI_T_finalize(void);
int MPI_T_cvar_get_num(int *);
int MPI_T_cvar_get_info(int, char *, int *, int *, MPI_Datatype *, MPI_T_enum *, char *, int *, int *, int *);
int MPI_T_cvar_get_index(const char *, int *);
int MPI_T_cvar_handle_alloc(int, void *, MPI_T_cvar_handle *, int *);
int MPI_T_cvar_handle_free(MPI_T_cvar_handle *);
int MPI_T_cvar_read(MPI_T_cvar_handle, void *);
int MPI_T_cvar_write(MPI_T_cvar_handle, const void *);
int MPI_T_category_get_num(int *);
int MPI_T_category_get_index(const char *, int *);
int MPI_T_category_get_info(int, char *, int *, char *, int *, int *, int *, int *);
int MPI_T_pvar_get_num(int *);
int MPI_T_pvar_get_info(
    int, char *, int *, int *, int *, MPI_Datatype *, MPI_T_enum *, char *, int *, int *, int *, int *, int *);
int MPI_T_pvar_get_index(const char *, int, int *);
int MPI_T_pvar_session_create(MPI_T_pvar_session *);
int MPI_T_pvar_session_free(MPI_T_pvar_session *);
int MPI_T_pvar_handle_alloc(MPI_T_pvar_session, int, void *, MPI_T_pvar_handle *, int *);
int MPI_T_pvar_handle_free(MPI_T_pvar_session, MPI_T_pvar_handle *);
int MPI_T_pvar_start(MPI_T_pvar_session, MPI_T_pvar_handle);
int MPI_T_pvar_stop(MPI_T_pvar_session, MPI_T_pvar_handle);
int MPI_T_pvar_read(MPI_T_pvar_session, MPI_T_pvar_handle, void *);
int MPI_T_pvar_write(MPI_T_pvar_session, MPI_T_pvar_handle, const void *);
int MPI_T_pvar_reset(MPI_T_pvar_session, MPI_T_pvar_handle);
int MPI_T_pvar_readreset(MPI_T_pvar_session, MPI_T_pvar_handle, void *);
int MPI_T_event_get_num(int *);
int MPI_Comm_group(MPI_Comm, MPI_Group *);
int MPI_Group_free(MPI_Group *);
int MPI_Comm_create_from_group(MPI_Group, const char *, MPI_Info, MPI_Errhandler, MPI_Comm *);
