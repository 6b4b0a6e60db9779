//! Predefined datatypes, of which all type maps consist (MPI 3.2.2, 6.9.4).

/// A predefined datatype. All others are made of these.
///
/// Sizes and alignments are those of the C types on platforms where Rust's `f64` and `i64` are aligned to eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// `MPI_INT8_T`.
    I8,
    /// `MPI_INT16_T`.
    I16,
    /// `MPI_INT32_T`.
    I32,
    /// `MPI_INT64_T`; also `MPI_AINT`, `MPI_OFFSET` and `MPI_COUNT`.
    I64,
    /// `MPI_UINT8_T`.
    U8,
    /// `MPI_UINT16_T`.
    U16,
    /// `MPI_UINT32_T`.
    U32,
    /// `MPI_UINT64_T`.
    U64,
    /// `MPI_FLOAT`.
    F32,
    /// `MPI_DOUBLE`.
    F64,
    /// `MPI_C_FLOAT_COMPLEX`: two `f32`.
    Complex32,
    /// `MPI_C_DOUBLE_COMPLEX`: two `f64`.
    Complex64,
    /// `MPI_C_BOOL`: one byte, zero is false.
    Bool,
    /// `MPI_BYTE`: uninterpreted.
    Byte,
    /// `MPI_PACKED`: packed bytes; matches every signature.
    Packed,
    /// `MPI_SHORT_INT`: a value and its index.
    I16I32,
    /// `MPI_2INT`: a value and its index.
    I32I32,
    /// `MPI_LONG_INT`: a value and its index.
    I64I32,
    /// `MPI_FLOAT_INT`: a value and its index.
    F32I32,
    /// `MPI_DOUBLE_INT`: a value and its index.
    F64I32,
    /// `MPI_CHAR`, `MPI_CHARACTER`: a printable character, which is not reduced.
    Char,
    /// `MPI_WCHAR`: a wide character of four bytes, which is not reduced.
    WideChar,
    /// `MPI_INTEGER16`.
    I128,
    /// `MPI_REAL2`: half precision.
    F16,
    /// `MPI_LONG_DOUBLE` as on x86-64: extended precision of 80 bits, in 16 bytes.
    F80,
    /// `MPI_REAL16`: quadruple precision; also `MPI_LONG_DOUBLE` where that is C's.
    F128,
    /// `MPI_COMPLEX4`: two [`F16`](Self::F16).
    Complex16,
    /// `MPI_C_LONG_DOUBLE_COMPLEX`: two [`F80`](Self::F80).
    Complex80,
    /// `MPI_COMPLEX32`: two [`F128`](Self::F128).
    Complex128,
    /// `MPI_LOGICAL2`: zero is false.
    L16,
    /// `MPI_LOGICAL4`, `MPI_LOGICAL`: zero is false.
    L32,
    /// `MPI_LOGICAL8`: zero is false.
    L64,
    /// `MPI_LOGICAL16`: zero is false.
    L128,
    /// `MPI_LONG_DOUBLE_INT`: a value and its index.
    F80I32,
    /// `MPI_2REAL`: a value and its index.
    F32F32,
    /// `MPI_2DOUBLE_PRECISION`: a value and its index.
    F64F64,
}

/// The sorts of kinds (MPI 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// Integers.
    Integer,
    /// Floating-point numbers.
    Float,
    /// Complex numbers.
    Complex,
    /// Logicals.
    Logical,
    /// Uninterpreted bytes, with bit-wise operations.
    Byte,
    /// A value and its index.
    Pair,
    /// Characters and packed data, which are moved but not computed with.
    Opaque,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 36] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::Complex32,
        Self::Complex64,
        Self::Bool,
        Self::Byte,
        Self::Packed,
        Self::I16I32,
        Self::I32I32,
        Self::I64I32,
        Self::F32I32,
        Self::F64I32,
        Self::Char,
        Self::WideChar,
        Self::I128,
        Self::F16,
        Self::F80,
        Self::F128,
        Self::Complex16,
        Self::Complex80,
        Self::Complex128,
        Self::L16,
        Self::L32,
        Self::L64,
        Self::L128,
        Self::F80I32,
        Self::F32F32,
        Self::F64F64,
    ];

    /// Its name in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "MPI_INT8_T",
            Self::I16 => "MPI_INT16_T",
            Self::I32 => "MPI_INT32_T",
            Self::I64 => "MPI_INT64_T",
            Self::U8 => "MPI_UINT8_T",
            Self::U16 => "MPI_UINT16_T",
            Self::U32 => "MPI_UINT32_T",
            Self::U64 => "MPI_UINT64_T",
            Self::F32 => "MPI_FLOAT",
            Self::F64 => "MPI_DOUBLE",
            Self::Complex32 => "MPI_C_FLOAT_COMPLEX",
            Self::Complex64 => "MPI_C_DOUBLE_COMPLEX",
            Self::Bool => "MPI_C_BOOL",
            Self::Byte => "MPI_BYTE",
            Self::Packed => "MPI_PACKED",
            Self::I16I32 => "MPI_SHORT_INT",
            Self::I32I32 => "MPI_2INT",
            Self::I64I32 => "MPI_LONG_INT",
            Self::F32I32 => "MPI_FLOAT_INT",
            Self::F64I32 => "MPI_DOUBLE_INT",
            Self::Char => "MPI_CHAR",
            Self::WideChar => "MPI_WCHAR",
            Self::I128 => "MPI_INTEGER16",
            Self::F16 => "MPI_REAL2",
            Self::F80 => "MPI_LONG_DOUBLE",
            Self::F128 => "MPI_REAL16",
            Self::Complex16 => "MPI_COMPLEX4",
            Self::Complex80 => "MPI_C_LONG_DOUBLE_COMPLEX",
            Self::Complex128 => "MPI_COMPLEX32",
            Self::L16 => "MPI_LOGICAL2",
            Self::L32 => "MPI_LOGICAL4",
            Self::L64 => "MPI_LOGICAL8",
            Self::L128 => "MPI_LOGICAL16",
            Self::F80I32 => "MPI_LONG_DOUBLE_INT",
            Self::F32F32 => "MPI_2REAL",
            Self::F64F64 => "MPI_2DOUBLE_PRECISION",
        }
    }

    /// Bytes of data in an element, without padding.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self.pair() {
            Some((value, index)) => value.size() + index.size(),
            None => match self {
                Self::I16 | Self::U16 | Self::F16 | Self::L16 => 2,
                Self::I32 | Self::U32 | Self::F32 | Self::L32 | Self::WideChar | Self::Complex16 => 4,
                Self::I64 | Self::U64 | Self::F64 | Self::L64 | Self::Complex32 => 8,
                Self::I128 | Self::F80 | Self::F128 | Self::L128 | Self::Complex64 => 16,
                Self::Complex80 | Self::Complex128 => 32,
                _ => 1,
            },
        }
    }

    /// Alignment in bytes.
    #[must_use]
    pub const fn alignment(self) -> u64 {
        match (self.pair(), self) {
            (Some((value, index)), _) => {
                if value.size() > index.size() {
                    value.size()
                } else {
                    index.size()
                }
            }
            (None, _) if matches!(self.sort(), Sort::Complex) => self.size() / 2,
            (None, _) => self.size(),
        }
    }

    /// Bytes from one element of an array to the next.
    #[must_use]
    pub const fn extent(self) -> u64 {
        match self.pair() {
            Some(_) => self.alignment() * 2,
            None => self.size(),
        }
    }

    /// Its sort, on which depend the operations that take it.
    #[must_use]
    pub const fn sort(self) -> Sort {
        match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::I128 => Sort::Integer,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Sort::Integer,
            Self::F16 | Self::F32 | Self::F64 | Self::F80 | Self::F128 => Sort::Float,
            Self::Complex16 | Self::Complex32 | Self::Complex64 | Self::Complex80 | Self::Complex128 => Sort::Complex,
            Self::Bool | Self::L16 | Self::L32 | Self::L64 | Self::L128 => Sort::Logical,
            Self::Byte => Sort::Byte,
            Self::Packed | Self::Char | Self::WideChar => Sort::Opaque,
            Self::I16I32 | Self::I32I32 | Self::I64I32 | Self::F32I32 | Self::F64I32 => Sort::Pair,
            Self::F80I32 | Self::F32F32 | Self::F64F64 => Sort::Pair,
        }
    }

    /// The value and index of a pair (for `MPI_MINLOC` and `MPI_MAXLOC`). The index is at offset
    /// [`alignment`](Self::alignment).
    #[must_use]
    pub const fn pair(self) -> Option<(Self, Self)> {
        match self {
            Self::I16I32 => Some((Self::I16, Self::I32)),
            Self::I32I32 => Some((Self::I32, Self::I32)),
            Self::I64I32 => Some((Self::I64, Self::I32)),
            Self::F32I32 => Some((Self::F32, Self::I32)),
            Self::F64I32 => Some((Self::F64, Self::I32)),
            Self::F80I32 => Some((Self::F80, Self::I32)),
            Self::F32F32 => Some((Self::F32, Self::F32)),
            Self::F64F64 => Some((Self::F64, Self::F64)),
            _ => None,
        }
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use core::mem::{align_of, size_of};

    use super::*;

    #[test]
    fn pairs_lie_as_in_c() {
        #[repr(C)]
        struct Pair<V>(V, i32);
        let laid = |kind: Kind| (kind.extent() as usize, kind.alignment() as usize);
        assert_eq!(
            laid(Kind::I16I32),
            (size_of::<Pair<i16>>(), align_of::<Pair<i16>>().max(4))
        );
        assert_eq!(laid(Kind::I32I32), (size_of::<Pair<i32>>(), 4));
        assert_eq!(laid(Kind::F32I32), (size_of::<Pair<f32>>(), 4));
        if align_of::<f64>() == 8 {
            assert_eq!(laid(Kind::I64I32), (size_of::<Pair<i64>>(), 8));
            assert_eq!(laid(Kind::F64I32), (size_of::<Pair<f64>>(), 8));
        }
        assert_eq!(Kind::F64I32.size(), 12);
    }

    #[test]
    fn all_is_in_the_order_of_declaration() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
