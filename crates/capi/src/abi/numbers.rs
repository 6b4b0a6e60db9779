//! Constants: the number of the standard ABI, by which this crate knows each, and MPICH's.

use hikyaku::mpi::error::ErrorClass;

/// A set of constants that are arguments or results of functions.
pub trait Numbers {
    /// Standard number, MPICH's number.
    const TABLE: &'static [[i32; 2]];
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $($constant:ident $standard:literal $mpich:literal),+;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            #[expect(missing_docs, reason = "the names are MPI's")]
            impl $name {
                $(pub const $constant: i32 = $standard;)+
            }

            impl Numbers for $name {
                const TABLE: &'static [[i32; 2]] = &[$([$standard, $mpich]),+];
            }
        )*
    };
}

numbers! {
    /// `MPI_THREAD_…`.
    ThreadLevel: SINGLE 0 0, FUNNELED 1024 1, SERIALIZED 2048 2, MULTIPLE 4096 3;
    /// `MPI_ORDER_…`.
    Order: C 12 56, FORTRAN 15 57;
    /// `MPI_DISTRIBUTE_…`, and the argument that stands for none.
    Distribution: NONE 16 123, BLOCK 17 121, CYCLIC 18 122, DEFAULT_ARGUMENT 19 -49767;
    /// `MPI_COMBINER_…`.
    Combiner: NAMED 101 1, DUP 102 2, CONTIGUOUS 103 3, VECTOR 104 4, HVECTOR 105 6, INDEXED 106 7, HINDEXED 107 9,
        INDEXED_BLOCK 108 10, HINDEXED_BLOCK 109 19, STRUCT 110 12, SUBARRAY 111 13, DARRAY 112 14, F90_REAL 113 15,
        F90_COMPLEX 114 16, F90_INTEGER 115 17, RESIZED 116 18, VALUE_INDEX 117 20;
    /// `MPI_TYPECLASS_…`.
    TypeClass: INTEGER 192 2, REAL 193 1, COMPLEX 194 3;
    /// Results of comparisons.
    Comparison: IDENT 201 0, CONGRUENT 202 1, SIMILAR 203 2, UNEQUAL 204 3;
    /// Kinds of topologies.
    Topology: CART 211 2, GRAPH 212 1, DIST_GRAPH 213 3;
    /// `MPI_COMM_TYPE_…`.
    SplitType: SHARED 221 1, HW_UNGUIDED 222 3, HW_GUIDED 223 2, RESOURCE_GUIDED 224 4;
    /// `MPI_LOCK_…`.
    Lock: EXCLUSIVE 301 234, SHARED 302 235;
    /// `MPI_WIN_FLAVOR_…`.
    Flavor: CREATE 311 1, ALLOCATE 312 2, DYNAMIC 313 3, SHARED 314 4;
    /// Memory models of windows.
    Model: UNIFIED 321 2, SEPARATE 322 1;
    /// `MPI_T_VERBOSITY_…`.
    Verbosity: USER_BASIC 0x09 221, USER_DETAIL 0x0a 222, USER_ALL 0x0c 223, TUNER_BASIC 0x11 224, TUNER_DETAIL 0x12
        225, TUNER_ALL 0x14 226, MPIDEV_BASIC 0x21 227, MPIDEV_DETAIL 0x22 228, MPIDEV_ALL 0x24 229;
    /// `MPI_T_BIND_…`.
    Bind: NO_OBJECT 1 9700, MPI_COMM 2 9701, MPI_DATATYPE 3 9702, MPI_ERRHANDLER 4 9703, MPI_FILE 5 9704, MPI_GROUP
        6 9705, MPI_OP 7 9706, MPI_REQUEST 8 9707, MPI_WIN 9 9708, MPI_MESSAGE 10 9709, MPI_INFO 11 9710,
        MPI_SESSION 12 9711;
    /// `MPI_T_SCOPE_…`.
    SettingScope: CONSTANT 1 60438, READONLY 2 60439, LOCAL 3 60440, GROUP 4 60441, GROUP_EQ 5 60442, ALL 6 60443,
        ALL_EQ 7 60444;
    /// `MPI_T_PVAR_CLASS_…`.
    PvarClass: STATE 1 240, LEVEL 2 241, SIZE 3 242, PERCENTAGE 4 243, HIGHWATERMARK 5 244, LOWWATERMARK 6 245,
        COUNTER 7 246, AGGREGATE 8 247, TIMER 9 248, GENERIC 10 249;
    /// Predefined attribute keys, and none. Keys that programs create are the same in both.
    Keyval: INVALID 0 0x24000000, TAG_UB 501 0x64400001, IO 502 0x64400005, HOST 503 0x64400003,
        WTIME_IS_GLOBAL 504 0x64400007, APPNUM 505 0x6440000d, LASTUSEDCODE 506 0x6440000b,
        UNIVERSE_SIZE 507 0x64400009, WIN_BASE 601 0x66000001, WIN_DISP_UNIT 602 0x66000005, WIN_SIZE 603 0x66000003,
        WIN_CREATE_FLAVOR 604 0x66000007, WIN_MODEL 605 0x66000009;
}

/// Numbers of error classes. Those of the two ABIs that only one has are not here.
const CLASSES: &[(ErrorClass, [i32; 2])] = &[
    (ErrorClass::Success, [0, 0]),
    (ErrorClass::Buffer, [1, 1]),
    (ErrorClass::Count, [2, 2]),
    (ErrorClass::Type, [3, 3]),
    (ErrorClass::Tag, [4, 4]),
    (ErrorClass::Comm, [5, 5]),
    (ErrorClass::Rank, [6, 6]),
    (ErrorClass::Request, [7, 19]),
    (ErrorClass::Root, [8, 7]),
    (ErrorClass::Group, [9, 8]),
    (ErrorClass::Op, [10, 9]),
    (ErrorClass::Topology, [11, 10]),
    (ErrorClass::Dims, [12, 11]),
    (ErrorClass::Arg, [13, 12]),
    (ErrorClass::Unknown, [14, 13]),
    (ErrorClass::Truncate, [15, 14]),
    (ErrorClass::Other, [16, 15]),
    (ErrorClass::Intern, [17, 16]),
    (ErrorClass::Pending, [18, 18]),
    (ErrorClass::InStatus, [19, 17]),
    (ErrorClass::Access, [20, 20]),
    (ErrorClass::Amode, [21, 21]),
    (ErrorClass::Assert, [22, 53]),
    (ErrorClass::BadFile, [23, 22]),
    (ErrorClass::Base, [24, 46]),
    (ErrorClass::Conversion, [25, 23]),
    (ErrorClass::Disp, [26, 52]),
    (ErrorClass::DupDatarep, [27, 24]),
    (ErrorClass::FileExists, [28, 25]),
    (ErrorClass::FileInUse, [29, 26]),
    (ErrorClass::File, [30, 27]),
    (ErrorClass::InfoKey, [31, 29]),
    (ErrorClass::InfoNokey, [32, 31]),
    (ErrorClass::InfoValue, [33, 30]),
    (ErrorClass::Info, [34, 28]),
    (ErrorClass::Io, [35, 32]),
    (ErrorClass::Keyval, [36, 48]),
    (ErrorClass::Locktype, [37, 47]),
    (ErrorClass::Name, [38, 33]),
    (ErrorClass::NoMem, [39, 34]),
    (ErrorClass::NotSame, [40, 35]),
    (ErrorClass::NoSpace, [41, 36]),
    (ErrorClass::NoSuchFile, [42, 37]),
    (ErrorClass::Port, [43, 38]),
    (ErrorClass::Quota, [44, 39]),
    (ErrorClass::ReadOnly, [45, 40]),
    (ErrorClass::RmaAttach, [46, 56]),
    (ErrorClass::RmaConflict, [47, 49]),
    (ErrorClass::RmaRange, [48, 55]),
    (ErrorClass::RmaShared, [49, 57]),
    (ErrorClass::RmaSync, [50, 50]),
    (ErrorClass::Service, [51, 41]),
    (ErrorClass::Size, [52, 51]),
    (ErrorClass::Spawn, [53, 42]),
    (ErrorClass::UnsupportedDatarep, [54, 43]),
    (ErrorClass::UnsupportedOperation, [55, 44]),
    (ErrorClass::Win, [56, 45]),
    (ErrorClass::RmaFlavor, [57, 58]),
    (ErrorClass::ProcAborted, [58, 76]),
    (ErrorClass::ValueTooLarge, [59, 77]),
    (ErrorClass::Session, [60, 75]),
    (ErrorClass::Errhandler, [61, 80]),
    (ErrorClass::Abi, [62, 81]),
    // The standard ABI has no number for the classes of fault tolerance; these are between its own and its last code.
    (ErrorClass::ProcFailed, [101, 101]),
    (ErrorClass::ProcFailedPending, [102, 102]),
    (ErrorClass::Revoked, [103, 103]),
];

/// The number of a class in the ABI of this column.
pub(crate) fn class_number(column: usize, class: ErrorClass) -> i32 {
    let row = CLASSES.iter().find(|row| row.0 == class);
    row.map_or_else(|| class_number_other(column), |row| row.1[column])
}

/// `MPI_ERR_OTHER`, for a class that has no number.
const fn class_number_other(column: usize) -> i32 {
    [16, 15][column]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_class_has_a_number_of_its_own() {
        for column in [0, 1] {
            let numbers: BTreeSet<i32> = CLASSES.iter().map(|row| row.1[column]).collect();
            assert_eq!(numbers.len(), CLASSES.len());
            assert_eq!(CLASSES.len(), ErrorClass::ALL.len());
            // Codes have room for so many classes.
            assert!(numbers.into_iter().all(|number| (0..128).contains(&number)));
        }
    }
}
