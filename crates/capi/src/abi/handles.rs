//! Handles of MPICH's ABI: their predefined numbers, and room for those of objects.
//!
//! MPICH's two highest bits say what a handle is: 0 nothing, 1 and 2 predefined. Objects of ours have both.

use super::{Handle, Sort};

/// Objects have these bits.
const OBJECT: u32 = 0xC000_0000;

/// Predefined datatypes: the number of the standard ABI, and MPICH's.
const TYPES: &[(u32, u32)] = &[
    (0x200, 0x0c000000), // MPI_DATATYPE_NULL
    (0x201, 0x4c000843), // MPI_AINT
    (0x202, 0x4c000845), // MPI_COUNT
    (0x203, 0x4c000844), // MPI_OFFSET
    (0x207, 0x4c00010f), // MPI_PACKED
    (0x208, 0x4c000203), // MPI_SHORT
    (0x209, 0x4c000405), // MPI_INT
    (0x20a, 0x4c000807), // MPI_LONG
    (0x20c, 0x4c000204), // MPI_UNSIGNED_SHORT
    (0x20d, 0x4c000406), // MPI_UNSIGNED
    (0x20e, 0x4c000808), // MPI_UNSIGNED_LONG
    (0x20f, 0x4c000819), // MPI_UNSIGNED_LONG_LONG
    (0x210, 0x4c00040a), // MPI_FLOAT
    (0x212, 0x4c000840), // MPI_C_FLOAT_COMPLEX
    (0x213, 0x4c000834), // MPI_CXX_FLOAT_COMPLEX
    (0x214, 0x4c00080b), // MPI_DOUBLE
    (0x216, 0x4c001041), // MPI_C_DOUBLE_COMPLEX
    (0x217, 0x4c001035), // MPI_CXX_DOUBLE_COMPLEX
    (0x218, 0x4c00041d), // MPI_LOGICAL
    (0x219, 0x4c00041b), // MPI_INTEGER
    (0x21a, 0x4c00041c), // MPI_REAL
    (0x21b, 0x4c00081e), // MPI_COMPLEX
    (0x21c, 0x4c00081f), // MPI_DOUBLE_PRECISION
    (0x21d, 0x4c001022), // MPI_DOUBLE_COMPLEX
    (0x21e, 0x4c00011a), // MPI_CHARACTER
    (0x220, 0x4c00100c), // MPI_LONG_DOUBLE
    (0x224, 0x4c002042), // MPI_C_LONG_DOUBLE_COMPLEX
    (0x225, 0x4c002036), // MPI_CXX_LONG_DOUBLE_COMPLEX
    (0x228, 0x8c000000), // MPI_FLOAT_INT
    (0x229, 0x8c000001), // MPI_DOUBLE_INT
    (0x22a, 0x8c000002), // MPI_LONG_INT
    (0x22b, 0x4c000816), // MPI_2INT
    (0x22c, 0x8c000003), // MPI_SHORT_INT
    (0x22d, 0x8c000004), // MPI_LONG_DOUBLE_INT
    (0x230, 0x4c000821), // MPI_2REAL
    (0x231, 0x4c001023), // MPI_2DOUBLE_PRECISION
    (0x232, 0x4c000820), // MPI_2INTEGER
    (0x238, 0x4c00013f), // MPI_C_BOOL
    (0x239, 0x4c000133), // MPI_CXX_BOOL
    (0x23c, 0x4c00040e), // MPI_WCHAR
    (0x240, 0x4c000137), // MPI_INT8_T
    (0x241, 0x4c00013b), // MPI_UINT8_T
    (0x243, 0x4c000101), // MPI_CHAR
    (0x244, 0x4c000118), // MPI_SIGNED_CHAR
    (0x245, 0x4c000102), // MPI_UNSIGNED_CHAR
    (0x247, 0x4c00010d), // MPI_BYTE
    (0x248, 0x4c000238), // MPI_INT16_T
    (0x249, 0x4c00023c), // MPI_UINT16_T
    (0x2ff, 0x4c000246), // MPIX_C_FLOAT16
    (0x250, 0x4c000439), // MPI_INT32_T
    (0x251, 0x4c00043d), // MPI_UINT32_T
    (0x258, 0x4c00083a), // MPI_INT64_T
    (0x259, 0x4c00083e), // MPI_UINT64_T
    (0x2c0, 0x4c000147), // MPI_LOGICAL1
    (0x2c1, 0x4c00012d), // MPI_INTEGER1
    (0x2c8, 0x4c000248), // MPI_LOGICAL2
    (0x2c9, 0x4c00022f), // MPI_INTEGER2
    (0x2ca, 0x4c000226), // MPI_REAL2
    (0x2d0, 0x4c000449), // MPI_LOGICAL4
    (0x2d1, 0x4c000430), // MPI_INTEGER4
    (0x2d2, 0x4c000427), // MPI_REAL4
    (0x2d3, 0x4c00042e), // MPI_COMPLEX4
    (0x2d8, 0x4c00084a), // MPI_LOGICAL8
    (0x2d9, 0x4c000831), // MPI_INTEGER8
    (0x2da, 0x4c000829), // MPI_REAL8
    (0x2db, 0x4c000828), // MPI_COMPLEX8
    (0x2e0, 0x4c00104b), // MPI_LOGICAL16
    (0x2e1, 0x4c001032), // MPI_INTEGER16
    (0x2e2, 0x4c00102b), // MPI_REAL16
    (0x2e3, 0x4c00102a), // MPI_COMPLEX16
    (0x2eb, 0x4c00202c), // MPI_COMPLEX32
    (0x20b, 0x4c000809), // MPI_LONG_LONG
];

/// All other predefined handles. Those that programs use most stand first.
const OTHERS: &[(Sort, u32, u32)] = &[
    (Sort::Comm, 0x101, 0x44000000),       // MPI_COMM_WORLD
    (Sort::Request, 0x180, 0x2c000000),    // MPI_REQUEST_NULL
    (Sort::Request, 0x181, 0x6c000001),    // ours: a send that ended when it began
    (Sort::Op, 0x020, 0x18000000),         // MPI_OP_NULL
    (Sort::Op, 0x021, 0x58000003),         // MPI_SUM
    (Sort::Op, 0x022, 0x58000002),         // MPI_MIN
    (Sort::Op, 0x023, 0x58000001),         // MPI_MAX
    (Sort::Op, 0x024, 0x58000004),         // MPI_PROD
    (Sort::Op, 0x028, 0x58000006),         // MPI_BAND
    (Sort::Op, 0x029, 0x58000008),         // MPI_BOR
    (Sort::Op, 0x02a, 0x5800000a),         // MPI_BXOR
    (Sort::Op, 0x030, 0x58000005),         // MPI_LAND
    (Sort::Op, 0x031, 0x58000007),         // MPI_LOR
    (Sort::Op, 0x032, 0x58000009),         // MPI_LXOR
    (Sort::Op, 0x038, 0x5800000b),         // MPI_MINLOC
    (Sort::Op, 0x039, 0x5800000c),         // MPI_MAXLOC
    (Sort::Op, 0x03c, 0x5800000d),         // MPI_REPLACE
    (Sort::Op, 0x03d, 0x5800000e),         // MPI_NO_OP
    (Sort::Comm, 0x100, 0x04000000),       // MPI_COMM_NULL
    (Sort::Comm, 0x102, 0x44000001),       // MPI_COMM_SELF
    (Sort::Group, 0x108, 0x08000000),      // MPI_GROUP_NULL
    (Sort::Group, 0x109, 0x48000000),      // MPI_GROUP_EMPTY
    (Sort::Win, 0x110, 0x20000000),        // MPI_WIN_NULL
    (Sort::Session, 0x120, 0x38000000),    // MPI_SESSION_NULL
    (Sort::Message, 0x128, 0x2c000000),    // MPI_MESSAGE_NULL
    (Sort::Message, 0x129, 0x6c000000),    // MPI_MESSAGE_NO_PROC
    (Sort::Info, 0x130, 0x1c000000),       // MPI_INFO_NULL
    (Sort::Info, 0x131, 0x5c000001),       // MPI_INFO_ENV
    (Sort::Errhandler, 0x140, 0x14000000), // MPI_ERRHANDLER_NULL
    (Sort::Errhandler, 0x141, 0x54000000), // MPI_ERRORS_ARE_FATAL
    (Sort::Errhandler, 0x142, 0x54000003), // MPI_ERRORS_ABORT
    (Sort::Errhandler, 0x143, 0x54000001), // MPI_ERRORS_RETURN
    (Sort::File, 0x118, 0),                // MPI_FILE_NULL
];

/// The number of a standard datatype, by the low byte of MPICH's, and the other way round.
const fn tables() -> ([u16; 256], [u32; 256]) {
    let (mut standard, mut mpich, mut row) = ([0; 256], [0; 256], 0);
    while row < TYPES.len() {
        let (number, other) = TYPES[row];
        standard[place(other)] = number as u16;
        mpich[number as usize - 0x200] = other;
        row += 1;
    }
    (standard, mpich)
}

/// The low byte of MPICH's number of a datatype; that of a pair is moved to where none is.
const fn place(other: u32) -> usize {
    let low = other as usize & 0xff;
    if other >> 30 == 2 { low | 0x80 } else { low }
}

static BY_MPICH: [u16; 256] = tables().0;
static BY_STANDARD: [u32; 256] = tables().1;

#[inline]
pub(super) fn decode(sort: Sort, value: i32) -> Handle {
    let value = value as u32;
    if value & OBJECT == OBJECT {
        return Handle(value & !OBJECT);
    }
    if sort == Sort::Type {
        let number = u32::from(BY_MPICH[place(value)]);
        let is_it = number != 0 && BY_STANDARD[number as usize - 0x200] == value;
        return if is_it { Handle(number) } else { Handle::INVALID };
    }
    let row = OTHERS.iter().find(|row| row.0 == sort && row.2 == value);
    row.map_or(Handle::INVALID, |row| Handle(row.1))
}

#[inline]
pub(super) fn encode(sort: Sort, Handle(number): Handle) -> i32 {
    if number >= Handle::FIRST {
        return (number | OBJECT) as i32;
    }
    let value = match sort {
        Sort::Type => number
            .checked_sub(0x200)
            .and_then(|place| BY_STANDARD.get(place as usize))
            .copied(),
        _ => OTHERS
            .iter()
            .find(|row| row.0 == sort && row.1 == number)
            .map(|row| row.2),
    };
    value.unwrap_or(0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_handles_round_trip() {
        for (number, _) in TYPES {
            assert_eq!(decode(Sort::Type, encode(Sort::Type, Handle(*number))), Handle(*number));
        }
        for (sort, number, _) in OTHERS {
            assert_eq!(decode(*sort, encode(*sort, Handle(*number))), Handle(*number));
        }
    }

    #[test]
    fn objects_round_trip() {
        for number in [Handle::FIRST, 1 << 22, (1 << 30) - 1] {
            for sort in [Sort::Comm, Sort::Type, Sort::Request] {
                assert_eq!(decode(sort, encode(sort, Handle(number))), Handle(number));
            }
        }
    }
}
