//! MPI's error classes (MPI 9.4).

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $text:literal,)*) => {
        /// The classes into which MPI sorts errors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorClass {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)*
        }

        impl ErrorClass {
            /// All classes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

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
    Success "MPI_SUCCESS" "no error",
    Buffer "MPI_ERR_BUFFER" "invalid buffer",
    Count "MPI_ERR_COUNT" "invalid count",
    Type "MPI_ERR_TYPE" "invalid datatype",
    Tag "MPI_ERR_TAG" "invalid tag",
    Comm "MPI_ERR_COMM" "invalid communicator",
    Rank "MPI_ERR_RANK" "rank out of range",
    Request "MPI_ERR_REQUEST" "invalid request",
    Root "MPI_ERR_ROOT" "invalid root",
    Group "MPI_ERR_GROUP" "invalid group",
    Op "MPI_ERR_OP" "invalid reduction operation",
    Topology "MPI_ERR_TOPOLOGY" "invalid topology",
    Dims "MPI_ERR_DIMS" "invalid dimensions",
    Arg "MPI_ERR_ARG" "invalid argument",
    Unknown "MPI_ERR_UNKNOWN" "unknown error",
    Truncate "MPI_ERR_TRUNCATE" "message longer than its receive, or not as long as a collective needs it",
    Other "MPI_ERR_OTHER" "an error of no other class",
    Intern "MPI_ERR_INTERN" "internal error",
    InStatus "MPI_ERR_IN_STATUS" "the error is in the status",
    Pending "MPI_ERR_PENDING" "the request is pending",
    Access "MPI_ERR_ACCESS" "permission denied",
    Amode "MPI_ERR_AMODE" "invalid access mode",
    Assert "MPI_ERR_ASSERT" "invalid assertion",
    BadFile "MPI_ERR_BAD_FILE" "invalid file name",
    Base "MPI_ERR_BASE" "invalid base address",
    Conversion "MPI_ERR_CONVERSION" "data conversion failed",
    Disp "MPI_ERR_DISP" "invalid displacement",
    DupDatarep "MPI_ERR_DUP_DATAREP" "data representation already defined",
    Errhandler "MPI_ERR_ERRHANDLER" "invalid error handler",
    FileExists "MPI_ERR_FILE_EXISTS" "the file exists",
    FileInUse "MPI_ERR_FILE_IN_USE" "the file is open",
    File "MPI_ERR_FILE" "invalid file handle",
    InfoKey "MPI_ERR_INFO_KEY" "info key too long",
    InfoNokey "MPI_ERR_INFO_NOKEY" "no such info key",
    InfoValue "MPI_ERR_INFO_VALUE" "info value too long",
    Info "MPI_ERR_INFO" "invalid info object",
    Io "MPI_ERR_IO" "input or output failed",
    Keyval "MPI_ERR_KEYVAL" "invalid attribute key",
    Locktype "MPI_ERR_LOCKTYPE" "invalid kind of lock",
    Name "MPI_ERR_NAME" "no such service name",
    NoMem "MPI_ERR_NO_MEM" "out of memory",
    NotSame "MPI_ERR_NOT_SAME" "not the same on all processes",
    NoSpace "MPI_ERR_NO_SPACE" "not enough space",
    NoSuchFile "MPI_ERR_NO_SUCH_FILE" "no such file",
    Port "MPI_ERR_PORT" "invalid port",
    ProcAborted "MPI_ERR_PROC_ABORTED" "a peer has aborted",
    ProcFailed "MPI_ERR_PROC_FAILED" "a process has failed",
    ProcFailedPending "MPI_ERR_PROC_FAILED_PENDING" "a process that could match has failed, the request is pending",
    Quota "MPI_ERR_QUOTA" "quota exceeded",
    ReadOnly "MPI_ERR_READ_ONLY" "read-only file or file system",
    Revoked "MPI_ERR_REVOKED" "the communicator was revoked",
    RmaAttach "MPI_ERR_RMA_ATTACH" "memory cannot be attached",
    RmaConflict "MPI_ERR_RMA_CONFLICT" "conflicting accesses to a window",
    RmaFlavor "MPI_ERR_RMA_FLAVOR" "window of the wrong flavour",
    RmaRange "MPI_ERR_RMA_RANGE" "target memory is not in the window",
    RmaShared "MPI_ERR_RMA_SHARED" "memory cannot be shared",
    RmaSync "MPI_ERR_RMA_SYNC" "wrong synchronisation of a window",
    Service "MPI_ERR_SERVICE" "invalid service name",
    Session "MPI_ERR_SESSION" "invalid session",
    Size "MPI_ERR_SIZE" "invalid size",
    Spawn "MPI_ERR_SPAWN" "processes could not be started",
    UnsupportedDatarep "MPI_ERR_UNSUPPORTED_DATAREP" "data representation not supported",
    UnsupportedOperation "MPI_ERR_UNSUPPORTED_OPERATION" "operation not supported",
    ValueTooLarge "MPI_ERR_VALUE_TOO_LARGE" "a value does not fit",
    Win "MPI_ERR_WIN" "invalid window",
}

impl core::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.name(), self.description())
    }
}
