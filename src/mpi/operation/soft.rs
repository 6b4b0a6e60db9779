//! Arithmetic of floating-point formats that Rust has no type for, in software, rounded to nearest, ties to even
//! (IEEE 754).
//!
//! A number is a sign bit, `E` bits of exponent and `P` − 1 bits of fraction, from the highest bit down, in a `u128`.
//! Numbers that the x87 calls invalid count as NaN.

use core::{cmp::Ordering, mem::MaybeUninit};

/// A finite number: `mantissa` · 2^`exponent`.
#[derive(Clone, Copy)]
struct Finite {
    is_negative: bool,
    exponent: i32,
    mantissa: u128,
}

enum Value {
    Nan,
    Infinity { is_negative: bool },
    Finite(Finite),
}

/// A format with `P` bits of precision, the leading one included, and `E` bits of exponent. `P` is at most 113.
struct Format<const P: u32, const E: u32>;

impl<const P: u32, const E: u32> Format<P, E> {
    const SIGN: u128 = 1 << (P - 1 + E);
    const LEADING: u128 = 1 << (P - 1);
    /// The biased exponent of infinities and NaN.
    const TOP: u128 = (1 << E) - 1;
    const INFINITY: u128 = Self::TOP << (P - 1);
    const NAN: u128 = Self::INFINITY | Self::LEADING >> 1;
    /// The exponent of the last bit of the smallest numbers.
    const LEAST: i32 = 1 - ((1 << (E - 1)) - 1) - (P as i32 - 1);

    const fn value(bits: u128) -> Value {
        let is_negative = bits & Self::SIGN != 0;
        let (biased, fraction) = (bits >> (P - 1) & Self::TOP, bits & (Self::LEADING - 1));
        if biased == Self::TOP {
            return match fraction {
                0 => Value::Infinity { is_negative },
                _ => Value::Nan,
            };
        }
        let (steps, leading) = if biased == 0 {
            (0, 0)
        } else {
            (biased as i32 - 1, Self::LEADING)
        };
        Value::Finite(Finite {
            is_negative,
            exponent: Self::LEAST + steps,
            mantissa: fraction | leading,
        })
    }

    const fn signed(is_negative: bool, magnitude: u128) -> u128 {
        if is_negative { magnitude | Self::SIGN } else { magnitude }
    }

    /// Rounds a number to which less than one unit of its mantissa is to be added if `more`; then the mantissa has at
    /// least `P` + 2 bits.
    fn round(number: Finite, more: bool) -> u128 {
        let Finite {
            is_negative,
            mut exponent,
            mantissa,
        } = number;
        if mantissa == 0 {
            return Self::signed(is_negative, 0);
        }
        let len = 128 - mantissa.leading_zeros() as i32;
        let drop = (len - P as i32).max(Self::LEAST - exponent);
        let mut kept = match drop {
            ..=0 => mantissa << -drop,
            1..=128 => {
                let kept = mantissa.checked_shr(drop as u32).unwrap_or(0);
                let half = 1 << (drop - 1);
                let rest = mantissa & (half | (half - 1));
                kept + u128::from(rest > half || rest == half && (more || kept & 1 == 1))
            }
            _ => 0,
        };
        exponent += drop;
        if kept == Self::LEADING << 1 {
            (kept, exponent) = (Self::LEADING, exponent + 1);
        }
        let magnitude = if kept < Self::LEADING {
            kept
        } else {
            let biased = (exponent - Self::LEAST + 1) as u128;
            match biased {
                biased if biased >= Self::TOP => Self::INFINITY,
                biased => biased << (P - 1) | (kept - Self::LEADING),
            }
        };
        Self::signed(is_negative, magnitude)
    }

    fn sum(a: u128, b: u128) -> u128 {
        match (Self::value(a), Self::value(b)) {
            (Value::Nan, _) | (_, Value::Nan) => Self::NAN,
            (Value::Infinity { is_negative: a }, Value::Infinity { is_negative: b }) if a != b => Self::NAN,
            (Value::Infinity { is_negative }, _) | (_, Value::Infinity { is_negative }) => {
                Self::signed(is_negative, Self::INFINITY)
            }
            (Value::Finite(a), Value::Finite(b)) if a.exponent >= b.exponent => Self::sum_ordered(a, b),
            (Value::Finite(a), Value::Finite(b)) => Self::sum_ordered(b, a),
        }
    }

    /// The exponent of `a` is not less than that of `b`.
    fn sum_ordered(a: Finite, b: Finite) -> u128 {
        let distance = (a.exponent - b.exponent) as u32;
        let left = distance.min(128 - 2 - P);
        let right = distance - left;
        let high = a.mantissa << left;
        let low = b.mantissa.checked_shr(right).unwrap_or(0);
        let more = right > 0 && low.checked_shl(right).unwrap_or(0) != b.mantissa;
        let exponent = a.exponent - left as i32;
        if a.is_negative == b.is_negative {
            let sum = Finite {
                is_negative: a.is_negative,
                exponent,
                mantissa: high + low,
            };
            return Self::round(sum, more);
        }
        // If some of `b` is cut off then it is far smaller than `a`.
        let (is_negative, mantissa) = match high.cmp(&low) {
            Ordering::Equal => (false, 0),
            Ordering::Greater => (a.is_negative, high - low - u128::from(more)),
            Ordering::Less => (b.is_negative, low - high),
        };
        let difference = Finite {
            is_negative,
            exponent,
            mantissa,
        };
        Self::round(difference, more)
    }

    fn product(a: u128, b: u128) -> u128 {
        let is_negative = (a ^ b) & Self::SIGN != 0;
        match (Self::value(a), Self::value(b)) {
            (Value::Nan, _) | (_, Value::Nan) => Self::NAN,
            (Value::Infinity { .. }, Value::Finite(other)) | (Value::Finite(other), Value::Infinity { .. })
                if other.mantissa == 0 =>
            {
                Self::NAN
            }
            (Value::Infinity { .. }, _) | (_, Value::Infinity { .. }) => Self::signed(is_negative, Self::INFINITY),
            (Value::Finite(a), Value::Finite(b)) => {
                let (high, low) = wide_product(a.mantissa, b.mantissa);
                // As much of the product as fits.
                let shift = 128 - high.leading_zeros();
                let mantissa = high.checked_shl(128 - shift).unwrap_or(0) | low.checked_shr(shift).unwrap_or(0);
                let more = low & 1_u128.checked_shl(shift).unwrap_or(0).wrapping_sub(1) != 0 && shift > 0;
                let exponent = a.exponent + b.exponent + shift as i32;
                let product = Finite {
                    is_negative,
                    exponent,
                    mantissa,
                };
                Self::round(product, more)
            }
        }
    }

    fn negative(bits: u128) -> u128 {
        bits ^ Self::SIGN
    }

    fn compare(a: u128, b: u128) -> Option<Ordering> {
        let key = |bits: u128| {
            let magnitude = (bits & !Self::SIGN) as i128;
            let is_nan = magnitude as u128 > Self::INFINITY;
            // The sign is the highest bit of the format, which may be that of the integer.
            (!is_nan).then_some(if bits & Self::SIGN != 0 { -magnitude } else { magnitude })
        };
        Some(key(a)?.cmp(&key(b)?))
    }
}

/// The upper and the lower half of a product.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let ([a1, a0], [b1, b0]) = ([a >> 64, a & LOW], [b >> 64, b & LOW]);
    let (low, right, left, high) = (a0 * b0, a1 * b0, a0 * b1, a1 * b1);
    let middle = (low >> 64) + (right & LOW) + (left & LOW);
    let high = high + (right >> 64) + (left >> 64) + (middle >> 64);
    (high, (low & LOW) | middle << 64)
}

/// Half precision: C's `_Float16`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

/// Quadruple precision: C's `_Float128`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F128(u128);

/// Extended precision: C's `long double` on x86.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct F80 {
    mantissa: u64,
    head: u16,
    padding: MaybeUninit<[u8; 6]>,
}

impl F16 {
    fn bits(self) -> u128 {
        self.0.into()
    }

    const fn of(bits: u128) -> Self {
        Self(bits as u16)
    }
}

impl F128 {
    fn bits(self) -> u128 {
        self.0
    }

    const fn of(bits: u128) -> Self {
        Self(bits)
    }
}

impl F80 {
    /// The leading bit of the mantissa, which other formats leave out.
    const LEADING: u64 = 1 << 63;

    fn bits(self) -> u128 {
        let (sign, biased) = (self.head >> 15, self.head & 0x7fff);
        let biased = match (biased, self.mantissa & Self::LEADING) {
            (0, Self::LEADING) => 1,
            (0, _) | (_, Self::LEADING) => biased,
            _ => return Format::<64, 15>::NAN,
        };
        u128::from(sign) << 78 | u128::from(biased) << 63 | u128::from(self.mantissa & !Self::LEADING)
    }

    const fn of(bits: u128) -> Self {
        let (sign, biased) = ((bits >> 78) as u16, (bits >> 63) as u16 & 0x7fff);
        let leading = if biased == 0 { 0 } else { Self::LEADING };
        Self {
            mantissa: bits as u64 & !Self::LEADING | leading,
            head: sign << 15 | biased,
            padding: MaybeUninit::zeroed(),
        }
    }
}

macro_rules! arithmetic {
    ($($type:ident: $precision:literal, $exponent:literal;)*) => {$(
        impl $type {
            pub(super) fn sum(self, other: Self) -> Self {
                Self::of(Format::<$precision, $exponent>::sum(self.bits(), other.bits()))
            }

            pub(super) fn difference(self, other: Self) -> Self {
                let other = Format::<$precision, $exponent>::negative(other.bits());
                Self::of(Format::<$precision, $exponent>::sum(self.bits(), other))
            }

            pub(super) fn product(self, other: Self) -> Self {
                Self::of(Format::<$precision, $exponent>::product(self.bits(), other.bits()))
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.partial_cmp(other) == Some(Ordering::Equal)
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Format::<$precision, $exponent>::compare(self.bits(), other.bits())
            }
        }
    )*};
}

arithmetic! {
    F16: 11, 5;
    F80: 64, 15;
    F128: 113, 15;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Single = Format<24, 8>;
    type Double = Format<53, 11>;

    /// Bits of a number, all NaN alike.
    fn double(value: f64) -> u128 {
        if value.is_nan() {
            Double::NAN
        } else {
            value.to_bits().into()
        }
    }

    fn single(value: f32) -> u128 {
        if value.is_nan() {
            Single::NAN
        } else {
            value.to_bits().into()
        }
    }

    /// Any bits, and numbers near each other and near the ends of the range, which random bits seldom are.
    fn pairs() -> impl Strategy<Value = (u64, u64)> {
        let near = (any::<u64>(), -70_i64..70, any::<u64>(), any::<bool>()).prop_map(|(a, steps, fraction, flip)| {
            let exponent = ((a >> 52 & 0x7ff) as i64 + steps).clamp(0, 0x7ff) as u64;
            let sign = (a >> 63) ^ u64::from(flip);
            (a, sign << 63 | exponent << 52 | fraction >> 12)
        });
        let same = any::<u64>().prop_map(|a| (a, a ^ 1 << 63));
        let few =
            (any::<u64>(), any::<u64>()).prop_map(|(a, b)| (a & 0x800f_0000_0000_0001, b & 0x8010_0000_0000_0001));
        prop_oneof![(any::<u64>(), any::<u64>()), near, same, few]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 20_000 }))]

        #[test]
        fn doubles_are_those_of_the_machine((a, b) in pairs()) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let (a, b) = (a.into(), b.into());
            prop_assert_eq!(Double::sum(a, b), double(x + y), "{} + {}", x, y);
            prop_assert_eq!(Double::product(a, b), double(x * y), "{} * {}", x, y);
            prop_assert_eq!(Double::compare(a, b), x.partial_cmp(&y));
        }

        #[test]
        fn singles_are_those_of_the_machine(a: u32, b: u32) {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let (a, b) = (a.into(), b.into());
            prop_assert_eq!(Single::sum(a, b), single(x + y), "{} + {}", x, y);
            prop_assert_eq!(Single::product(a, b), single(x * y), "{} * {}", x, y);
        }

        /// Sums and products of singles are exact in extended and in quadruple precision, but for few bits.
        #[test]
        fn wider_formats_hold_products_of_doubles_and_less((a, b) in (any::<u32>(), any::<u32>())) {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            prop_assume!(x.is_finite() && y.is_finite());
            let exact = f64::from(x) * f64::from(y);
            let extended = F80::of(widened::<64>(x.into())).product(F80::of(widened::<64>(y.into())));
            prop_assert_eq!(extended.bits(), widened::<64>(exact));
            let quadruple = F128::of(widened::<113>(x.into())).product(F128::of(widened::<113>(y.into())));
            prop_assert_eq!(quadruple.bits(), widened::<113>(exact));
        }
    }

    /// The bits of a double in a format with 15 bits of exponent. It is no subnormal, infinity or NaN.
    fn widened<const P: u32>(value: f64) -> u128 {
        let bits = u128::from(value.to_bits());
        let (biased, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        if biased == 0 {
            return bits >> 63 << (P + 14);
        }
        bits >> 63 << (P + 14) | (biased + 16_383 - 1_023) << (P - 1) | fraction << (P - 53)
    }

    #[test]
    fn half_precision_is_as_in_the_tables_of_ieee_754() {
        let (one, two, eps) = (F16(0x3c00), F16(0x4000), F16(0x1400));
        assert_eq!(one.sum(one).0, 0x4000);
        assert_eq!(two.product(two).0, 0x4400);
        assert_eq!(one.sum(eps).0, 0x3c01, "1 + 2^-10");
        assert_eq!(one.sum(F16(0x1000)).0, 0x3c00, "a tie goes to even");
        assert_eq!(
            F16(0x7bff).sum(F16(0x7bff)).0,
            0x7c00,
            "the largest number twice is infinity"
        );
        assert_eq!(F16(0x0001).product(F16(0x3800)).0, 0, "half of the smallest number");
        assert_eq!(one.difference(two).0, 0xbc00);
        assert!(F16(0x8000) == F16(0) && F16(0xbc00) < F16(0x0001));
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    mod machine {
        #![expect(unsafe_code, reason = "asks the x87")]

        use core::arch::asm;

        use super::*;

        macro_rules! x87 {
            ($name:ident, $instruction:literal) => {
                fn $name(a: F80, b: F80) -> F80 {
                    let mut out = F80::of(0);
                    // SAFETY: each pointer is to ten bytes; the stack of the x87 is left as it was.
                    unsafe {
                        asm!(
                            "fld tbyte ptr [{a}]", "fld tbyte ptr [{b}]", $instruction, "fstp tbyte ptr [{out}]",
                            a = in(reg) &a, b = in(reg) &b, out = in(reg) &raw mut out,
                            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        );
                    }
                    out
                }
            };
        }
        x87!(sum, "faddp");
        x87!(product, "fmulp");

        fn bits(number: F80) -> u128 {
            let bits = number.bits();
            let magnitude = bits & !Format::<64, 15>::SIGN;
            if magnitude > Format::<64, 15>::INFINITY {
                Format::<64, 15>::NAN
            } else {
                bits
            }
        }

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(20_000))]

            #[test]
            fn extended_numbers_are_those_of_the_machine(
                a: u64, b: u64, head: u16, steps in -70_i32..70, flip: bool, far: Option<u16>,
            ) {
                let near = (i32::from(head & 0x7fff) + steps).clamp(0, 0x7fff) as u16 | head & 0x8000;
                let other = far.unwrap_or(near) ^ u16::from(flip) << 15;
                let number = |mantissa: u64, head: u16| {
                    let leading = if head & 0x7fff == 0 { 0 } else { F80::LEADING };
                    F80 { mantissa: mantissa & !F80::LEADING | leading, head, padding: MaybeUninit::zeroed() }
                };
                let (a, b) = (number(a, head), number(b, other));
                prop_assert_eq!(bits(a.sum(b)), bits(sum(a, b)));
                prop_assert_eq!(bits(a.product(b)), bits(product(a, b)));
            }
        }
    }
}
