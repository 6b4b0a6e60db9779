#![expect(unsafe_code, reason = "operands are memory of the caller")]
//! The predefined operations over the kinds that MPI allows for them.

use super::{
    Kind,
    soft::{F16, F80, F128},
};
use crate::mpi::datatype::Sort;

/// A predefined operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predefined {
    /// `MPI_MAX`: the maximum of integers or floating-point numbers.
    Max,
    /// `MPI_MIN`: the minimum.
    Min,
    /// `MPI_SUM`: the sum of integers, floating-point or complex numbers.
    Sum,
    /// `MPI_PROD`: the product.
    Prod,
    /// `MPI_LAND`: logical and of integers or logicals.
    Land,
    /// `MPI_BAND`: bit-wise and of integers or bytes.
    Band,
    /// `MPI_LOR`: logical or.
    Lor,
    /// `MPI_BOR`: bit-wise or.
    Bor,
    /// `MPI_LXOR`: logical exclusive or.
    Lxor,
    /// `MPI_BXOR`: bit-wise exclusive or.
    Bxor,
    /// `MPI_MINLOC`: the minimum of pairs and its location.
    Minloc,
    /// `MPI_MAXLOC`: the maximum of pairs and its location.
    Maxloc,
    /// `MPI_REPLACE`: the input, of any predefined kind (MPI 12.3.4).
    Replace,
    /// `MPI_NO_OP`: the old value, of any predefined kind.
    NoOp,
}

impl Predefined {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Prod,
        Self::Land,
        Self::Band,
        Self::Lor,
        Self::Bor,
        Self::Lxor,
        Self::Bxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// Its name in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "MPI_MAX",
            Self::Min => "MPI_MIN",
            Self::Sum => "MPI_SUM",
            Self::Prod => "MPI_PROD",
            Self::Land => "MPI_LAND",
            Self::Band => "MPI_BAND",
            Self::Lor => "MPI_LOR",
            Self::Bor => "MPI_BOR",
            Self::Lxor => "MPI_LXOR",
            Self::Bxor => "MPI_BXOR",
            Self::Minloc => "MPI_MINLOC",
            Self::Maxloc => "MPI_MAXLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether operands commute.
    #[must_use]
    pub const fn is_commutative(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    /// Whether MPI defines it for `kind` (MPI 6.9.2, 6.9.4).
    #[must_use]
    pub const fn is_defined_for(self, kind: Kind) -> bool {
        use Sort::{Byte, Complex, Float, Integer, Logical, Pair};
        let sort = kind.sort();
        match self {
            Self::Replace | Self::NoOp => true,
            Self::Max | Self::Min => matches!(sort, Integer | Float),
            Self::Sum | Self::Prod => matches!(sort, Integer | Float | Complex),
            Self::Land | Self::Lor | Self::Lxor => matches!(sort, Integer | Logical),
            Self::Band | Self::Bor | Self::Bxor => matches!(sort, Integer | Byte),
            Self::Minloc | Self::Maxloc => matches!(sort, Pair),
        }
    }

    /// `inout[i] = input[i] ∘ inout[i]`; does nothing where it is not defined.
    ///
    /// # Safety
    /// As [`Operation::apply_at`](super::Operation::apply_at), for elements of `kind`.
    pub(super) unsafe fn apply(self, kind: Kind, input: *const u8, inout: *mut u8, count: usize) {
        let operands = Operands { input, inout, count };
        // SAFETY: the types are those of the kinds; the rest is the caller's contract.
        unsafe {
            match (self, kind) {
                (Self::NoOp, _) => {}
                (Self::Replace, _) => operands.replace(kind),
                (_, Kind::I8) => operands.integers::<i8>(self),
                (_, Kind::I16) => operands.integers::<i16>(self),
                (_, Kind::I32) => operands.integers::<i32>(self),
                (_, Kind::I64) => operands.integers::<i64>(self),
                (_, Kind::I128) => operands.integers::<i128>(self),
                (_, Kind::U8 | Kind::Bool | Kind::Byte) => operands.integers::<u8>(self),
                (_, Kind::U16 | Kind::L16) => operands.integers::<u16>(self),
                (_, Kind::U32 | Kind::L32) => operands.integers::<u32>(self),
                (_, Kind::U64 | Kind::L64) => operands.integers::<u64>(self),
                (_, Kind::L128) => operands.integers::<u128>(self),
                (_, Kind::F16) => operands.floats::<F16>(self),
                (_, Kind::F80) => operands.floats::<F80>(self),
                (_, Kind::F128) => operands.floats::<F128>(self),
                (_, Kind::F32) => operands.floats::<f32>(self),
                (_, Kind::F64) => operands.floats::<f64>(self),
                (_, Kind::Complex32) => operands.complex::<f32>(self),
                (_, Kind::Complex64) => operands.complex::<f64>(self),
                (_, Kind::Complex16) => operands.complex::<F16>(self),
                (_, Kind::Complex80) => operands.complex::<F80>(self),
                (_, Kind::Complex128) => operands.complex::<F128>(self),
                (_, Kind::I16I32) => operands.pairs::<i16, i32>(self, kind),
                (_, Kind::I32I32) => operands.pairs::<i32, i32>(self, kind),
                (_, Kind::I64I32) => operands.pairs::<i64, i32>(self, kind),
                (_, Kind::F32I32) => operands.pairs::<f32, i32>(self, kind),
                (_, Kind::F64I32) => operands.pairs::<f64, i32>(self, kind),
                (_, Kind::F80I32) => operands.pairs::<F80, i32>(self, kind),
                (_, Kind::F32F32) => operands.pairs::<f32, f32>(self, kind),
                (_, Kind::F64F64) => operands.pairs::<f64, f64>(self, kind),
                // Bytes and characters are only replaced.
                (_, Kind::Packed | Kind::Char | Kind::WideChar) => {}
            }
        }
    }
}

impl core::fmt::Display for Predefined {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Operations of all numbers. Sums and products of integers wrap.
trait Number: Copy + PartialOrd {
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

trait Integer: Number + Ord {
    const ONE: Self;
    const ZERO: Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;

    fn logical(truth: bool) -> Self {
        if truth { Self::ONE } else { Self::ZERO }
    }

    fn is_true(self) -> bool {
        self != Self::ZERO
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            fn difference(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
        }

        impl Integer for $type {
            const ONE: Self = 1;
            const ZERO: Self = 0;
            fn and(self, other: Self) -> Self { self & other }
            fn or(self, other: Self) -> Self { self | other }
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn sum(self, other: Self) -> Self { self + other }
            fn difference(self, other: Self) -> Self { self - other }
            fn product(self, other: Self) -> Self { self * other }
        }
    )*};
}

macro_rules! soft {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn sum(self, other: Self) -> Self { <$type>::sum(self, other) }
            fn difference(self, other: Self) -> Self { <$type>::difference(self, other) }
            fn product(self, other: Self) -> Self { <$type>::product(self, other) }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);
floats!(f32 f64);
soft!(F16 F80 F128);

/// Two arrays of the same length.
struct Operands {
    input: *const u8,
    inout: *mut u8,
    count: usize,
}

/// Each of the following needs the contract of [`Predefined::apply`], for elements of its type.
impl Operands {
    /// # Safety
    /// See above.
    #[inline(always)]
    unsafe fn each<T: Copy>(self, combine: impl Fn(T, T) -> T) {
        let (input, inout) = (self.input.cast::<T>(), self.inout.cast::<T>());
        for index in 0..self.count {
            // SAFETY: the element is one of `count`, and may have any alignment.
            unsafe {
                let value = combine(input.add(index).read_unaligned(), inout.add(index).read_unaligned());
                inout.add(index).write_unaligned(value);
            }
        }
    }

    /// # Safety
    /// See above.
    unsafe fn integers<T: Integer>(self, operation: Predefined) {
        // SAFETY: the caller's contract.
        unsafe {
            match operation {
                Predefined::Max => self.each(T::max),
                Predefined::Min => self.each(T::min),
                Predefined::Sum => self.each(T::sum),
                Predefined::Prod => self.each(T::product),
                Predefined::Band => self.each(T::and),
                Predefined::Bor => self.each(T::or),
                Predefined::Bxor => self.each(T::xor),
                Predefined::Land => self.each(|a: T, b: T| T::logical(a.is_true() & b.is_true())),
                Predefined::Lor => self.each(|a: T, b: T| T::logical(a.is_true() | b.is_true())),
                Predefined::Lxor => self.each(|a: T, b: T| T::logical(a.is_true() ^ b.is_true())),
                Predefined::Minloc | Predefined::Maxloc | Predefined::Replace | Predefined::NoOp => {}
            }
        }
    }

    /// # Safety
    /// See above.
    unsafe fn floats<T: Number>(self, operation: Predefined) {
        // SAFETY: the caller's contract.
        unsafe {
            match operation {
                Predefined::Max => self.each(|a: T, b: T| if wins(a, a > b) { a } else { b }),
                Predefined::Min => self.each(|a: T, b: T| if wins(a, a < b) { a } else { b }),
                Predefined::Sum => self.each(T::sum),
                Predefined::Prod => self.each(T::product),
                _ => {}
            }
        }
    }

    /// # Safety
    /// See above.
    unsafe fn complex<T: Number>(self, operation: Predefined) {
        // SAFETY: the caller's contract.
        unsafe {
            match operation {
                Predefined::Sum => self.each(|a: [T; 2], b: [T; 2]| [a[0].sum(b[0]), a[1].sum(b[1])]),
                Predefined::Prod => self.each(|a: [T; 2], b: [T; 2]| {
                    let real = a[0].product(b[0]).difference(a[1].product(b[1]));
                    let imaginary = a[0].product(b[1]).sum(a[1].product(b[0]));
                    [real, imaginary]
                }),
                _ => {}
            }
        }
    }

    /// Reads and writes value and index alone: the gaps of a pair may hold no data, and are left as they are.
    ///
    /// # Safety
    /// See above.
    unsafe fn pairs<V: Number, I: Number>(self, operation: Predefined, kind: Kind) {
        let (extent, index_at) = (kind.extent() as usize, kind.alignment() as usize);
        for element in 0..self.count {
            let at = element * extent;
            // SAFETY: the element is one of `count`, and may have any alignment.
            unsafe {
                let (input, inout) = (self.input.add(at), self.inout.add(at));
                let a: V = input.cast::<V>().read_unaligned();
                let b: V = inout.cast::<V>().read_unaligned();
                let i = input.add(index_at).cast::<I>().read_unaligned();
                let j = inout.add(index_at).cast::<I>().read_unaligned();
                let better = match operation {
                    Predefined::Minloc => a < b,
                    _ => a > b,
                };
                if equal(a, b) {
                    let least = if i < j { i } else { j };
                    inout.add(index_at).cast::<I>().write_unaligned(least);
                } else if wins(a, better) {
                    inout.cast::<V>().write_unaligned(a);
                    inout.add(index_at).cast::<I>().write_unaligned(i);
                }
            }
        }
    }

    /// # Safety
    /// See above.
    unsafe fn replace(self, kind: Kind) {
        // SAFETY: the caller's contract.
        unsafe {
            if let Some((value, index)) = kind.pair() {
                let (extent, index_at) = (kind.extent() as usize, kind.alignment() as usize);
                for element in 0..self.count {
                    let (input, inout) = (self.input.add(element * extent), self.inout.add(element * extent));
                    inout.copy_from_nonoverlapping(input, value.size() as usize);
                    inout
                        .add(index_at)
                        .copy_from_nonoverlapping(input.add(index_at), index.size() as usize);
                }
            } else {
                self.inout
                    .copy_from_nonoverlapping(self.input, self.count * kind.size() as usize);
            }
        }
    }
}

/// `a` is kept rather than another value, than which it may be `better`: NaN wins over all.
#[inline(always)]
#[expect(clippy::eq_op, reason = "only NaN is not equal to itself")]
fn wins<T: PartialEq + Copy>(a: T, better: bool) -> bool {
    better | (a != a)
}

/// Neither wins: equal, or both NaN.
#[expect(clippy::eq_op, reason = "only NaN is not equal to itself")]
fn equal<T: PartialEq + Copy>(a: T, b: T) -> bool {
    a == b || (a != a && b != b)
}
