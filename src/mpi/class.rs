//! MPI's error classes (MPI 9.4).

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident $number:literal $name:literal $text:literal,)*) => {
        /// The classes into which MPI sorts errors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorClass {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)*
        }

        impl ErrorClass {
            /// All classes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its number in the standard ABI (MPI 5.0, 20.4). The classes of lost processes are not in there; here they
            /// are 101 to 103.
            #[must_use]
            pub const fn number(self) -> i32 {
                match self { $(Self::$variant => $number,)* }
            }

            /// Its name in the standard.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its meaning in words.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

classes! {
    Success 0 "MPI_SUCCESS" "no error",
    Buffer 1 "MPI_ERR_BUFFER" "invalid buffer",
    Count 2 "MPI_ERR_COUNT" "invalid count",
    Type 3 "MPI_ERR_TYPE" "invalid datatype",
    Tag 4 "MPI_ERR_TAG" "invalid tag",
    Comm 5 "MPI_ERR_COMM" "invalid communicator",
    Rank 6 "MPI_ERR_RANK" "rank out of range",
    Request 7 "MPI_ERR_REQUEST" "invalid request",
    Root 8 "MPI_ERR_ROOT" "invalid root",
    Group 9 "MPI_ERR_GROUP" "invalid group",
    Op 10 "MPI_ERR_OP" "invalid reduction operation",
    Topology 11 "MPI_ERR_TOPOLOGY" "invalid topology",
    Dims 12 "MPI_ERR_DIMS" "invalid dimensions",
    Arg 13 "MPI_ERR_ARG" "invalid argument",
    Unknown 14 "MPI_ERR_UNKNOWN" "unknown error",
    Truncate 15 "MPI_ERR_TRUNCATE" "message longer than its receive, or not as long as a collective needs it",
    Other 16 "MPI_ERR_OTHER" "an error of no other class",
    Intern 17 "MPI_ERR_INTERN" "internal error",
    InStatus 19 "MPI_ERR_IN_STATUS" "the error is in the status",
    Pending 18 "MPI_ERR_PENDING" "the request is pending",
    Abi 62 "MPI_ERR_ABI" "no such ABI, or something that it does not have",
    Access 20 "MPI_ERR_ACCESS" "permission denied",
    Amode 21 "MPI_ERR_AMODE" "invalid access mode",
    Assert 22 "MPI_ERR_ASSERT" "invalid assertion",
    BadFile 23 "MPI_ERR_BAD_FILE" "invalid file name",
    Base 24 "MPI_ERR_BASE" "invalid base address",
    Conversion 25 "MPI_ERR_CONVERSION" "data conversion failed",
    Disp 26 "MPI_ERR_DISP" "invalid displacement",
    DupDatarep 27 "MPI_ERR_DUP_DATAREP" "data representation already defined",
    Errhandler 61 "MPI_ERR_ERRHANDLER" "invalid error handler",
    FileExists 28 "MPI_ERR_FILE_EXISTS" "the file exists",
    FileInUse 29 "MPI_ERR_FILE_IN_USE" "the file is open",
    File 30 "MPI_ERR_FILE" "invalid file handle",
    InfoKey 31 "MPI_ERR_INFO_KEY" "info key too long",
    InfoNokey 32 "MPI_ERR_INFO_NOKEY" "no such info key",
    InfoValue 33 "MPI_ERR_INFO_VALUE" "info value too long",
    Info 34 "MPI_ERR_INFO" "invalid info object",
    Io 35 "MPI_ERR_IO" "input or output failed",
    Keyval 36 "MPI_ERR_KEYVAL" "invalid attribute key",
    Locktype 37 "MPI_ERR_LOCKTYPE" "invalid kind of lock",
    Name 38 "MPI_ERR_NAME" "no such service name",
    NoMem 39 "MPI_ERR_NO_MEM" "out of memory",
    NotSame 40 "MPI_ERR_NOT_SAME" "not the same on all processes",
    NoSpace 41 "MPI_ERR_NO_SPACE" "not enough space",
    NoSuchFile 42 "MPI_ERR_NO_SUCH_FILE" "no such file",
    Port 43 "MPI_ERR_PORT" "invalid port",
    ProcAborted 58 "MPI_ERR_PROC_ABORTED" "a peer has aborted",
    ProcFailed 101 "MPI_ERR_PROC_FAILED" "a process has failed",
    ProcFailedPending 102 "MPI_ERR_PROC_FAILED_PENDING" "a process that could match has failed, the request is pending",
    Quota 44 "MPI_ERR_QUOTA" "quota exceeded",
    ReadOnly 45 "MPI_ERR_READ_ONLY" "read-only file or file system",
    Revoked 103 "MPI_ERR_REVOKED" "the communicator was revoked",
    RmaAttach 46 "MPI_ERR_RMA_ATTACH" "memory cannot be attached",
    RmaConflict 47 "MPI_ERR_RMA_CONFLICT" "conflicting accesses to a window",
    RmaFlavor 57 "MPI_ERR_RMA_FLAVOR" "window of the wrong flavour",
    RmaRange 48 "MPI_ERR_RMA_RANGE" "target memory is not in the window",
    RmaShared 49 "MPI_ERR_RMA_SHARED" "memory cannot be shared",
    RmaSync 50 "MPI_ERR_RMA_SYNC" "wrong synchronisation of a window",
    Service 51 "MPI_ERR_SERVICE" "invalid service name",
    Session 60 "MPI_ERR_SESSION" "invalid session",
    Size 52 "MPI_ERR_SIZE" "invalid size",
    Spawn 53 "MPI_ERR_SPAWN" "processes could not be started",
    UnsupportedDatarep 54 "MPI_ERR_UNSUPPORTED_DATAREP" "data representation not supported",
    UnsupportedOperation 55 "MPI_ERR_UNSUPPORTED_OPERATION" "operation not supported",
    ValueTooLarge 59 "MPI_ERR_VALUE_TOO_LARGE" "a value does not fit",
    Win 56 "MPI_ERR_WIN" "invalid window",
}

impl core::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.name(), self.description())
    }
}
