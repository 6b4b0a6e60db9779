#![expect(unsafe_code, reason = "operations of the user promise to stay within their operands")]
use alloc::{string::ToString, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::mpi::class::ErrorClass;
use Predefined::*;

fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to(*value)).collect()
}

/// `a ∘ b`, at an odd address.
fn reduce<T: Copy, const N: usize>(
    operation: Predefined,
    kind: Kind,
    (a, b): (&[T], &[T]),
    to: impl Fn(T) -> [u8; N],
    from: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let shifted = |values: &[T]| [&[0][..], &bytes(values, &to)].concat();
    let (input, mut inout) = (shifted(a), shifted(b));
    Operation::from(operation)
        .apply(&kind.into(), &input[1..], &mut inout[1..], b.len() as u64)
        .unwrap();
    inout[1..].as_chunks::<N>().0.iter().map(|bytes| from(*bytes)).collect()
}

fn f64s(operation: Predefined, a: &[f64], b: &[f64]) -> Vec<f64> {
    reduce(operation, Kind::F64, (a, b), f64::to_ne_bytes, f64::from_ne_bytes)
}

fn pair(value: f64, index: i32) -> [u8; 16] {
    let mut bytes = [0xa5; 16];
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..12].copy_from_slice(&index.to_ne_bytes());
    bytes
}

fn locate(operation: Predefined, a: (f64, i32), b: (f64, i32)) -> (f64, i32) {
    let mut inout = pair(b.0, b.1);
    let operation = Operation::from(operation);
    operation
        .apply(&Kind::F64I32.into(), &pair(a.0, a.1), &mut inout, 1)
        .unwrap();
    assert_eq!(inout[12..], [0xa5; 4], "a gap is left alone");
    (
        f64::from_ne_bytes(inout[..8].try_into().unwrap()),
        i32::from_ne_bytes(inout[8..12].try_into().unwrap()),
    )
}

macro_rules! integer_model {
    ($name:ident $type:ty, $kind:expr) => {
        proptest! {
            #[test]
            fn $name(values in prop::collection::vec(any::<($type, $type)>(), 0..70)) {
                let (a, b): (Vec<$type>, Vec<$type>) = values.iter().copied().unzip();
                let logical = |truth: bool| <$type>::from(truth);
                for operation in Predefined::ALL {
                    if !operation.is_defined_for($kind) {
                        continue;
                    }
                    let model = |(a, b): ($type, $type)| match operation {
                        Max => a.max(b),
                        Min => a.min(b),
                        Sum => a.wrapping_add(b),
                        Prod => a.wrapping_mul(b),
                        Land => logical(a != 0 && b != 0),
                        Lor => logical(a != 0 || b != 0),
                        Lxor => logical((a != 0) != (b != 0)),
                        Band => a & b,
                        Bor => a | b,
                        Bxor => a ^ b,
                        Replace => a,
                        NoOp => b,
                        Minloc | Maxloc => unreachable!("not defined for numbers"),
                    };
                    let expected: Vec<$type> = values.iter().copied().map(model).collect();
                    let found = reduce(
                        operation,
                        $kind,
                        (&a, &b),
                        <$type>::to_ne_bytes,
                        <$type>::from_ne_bytes,
                    );
                    prop_assert_eq!(found, expected, "{}", operation);
                }
            }
        }
    };
}

integer_model!(model_i8 i8, Kind::I8);
integer_model!(model_i16 i16, Kind::I16);
integer_model!(model_i32 i32, Kind::I32);
integer_model!(model_i64 i64, Kind::I64);
integer_model!(model_u8 u8, Kind::U8);
integer_model!(model_u16 u16, Kind::U16);
integer_model!(model_u32 u32, Kind::U32);
integer_model!(model_u64 u64, Kind::U64);

proptest! {
    /// Bits, because NaN is not equal to itself; any NaN will do.
    #[test]
    fn extremes_do_not_depend_on_the_order(a: f64, b: f64, nan_a: bool, nan_b: bool) {
        let (a, b) = (if nan_a { f64::NAN } else { a }, if nan_b { f64::NAN } else { b });
        for operation in [Max, Min] {
            let found = f64s(operation, &[a, b], &[b, a]);
            if a.is_nan() || b.is_nan() {
                prop_assert!(found.iter().all(|value| value.is_nan()));
            } else {
                let expected = if operation == Max { a.max(b) } else { a.min(b) };
                prop_assert!(found.iter().all(|value| *value == expected));
            }
        }
    }

    #[test]
    fn locations_are_associative_and_commutative(
        values in prop::collection::vec((prop::sample::select(vec![0.0, 1.0, -1.0, f64::NAN]), -3..3_i32), 3),
    ) {
        let same = |a: (f64, i32), b: (f64, i32)| (a.0 == b.0 || a.0.is_nan() && b.0.is_nan()) && a.1 == b.1;
        let [a, b, c] = values[..] else { unreachable!("three of them") };
        for operation in [Maxloc, Minloc] {
            prop_assert!(same(locate(operation, a, b), locate(operation, b, a)));
            prop_assert!(same(
                locate(operation, locate(operation, a, b), c),
                locate(operation, a, locate(operation, b, c)),
            ));
        }
    }
}

#[test]
fn the_lowest_index_of_the_extreme_wins() {
    assert_eq!(locate(Maxloc, (2.0, 7), (1.0, 3)), (2.0, 7));
    assert_eq!(locate(Maxloc, (1.0, 7), (2.0, 3)), (2.0, 3));
    assert_eq!(locate(Minloc, (1.0, 7), (2.0, 3)), (1.0, 7));
    assert_eq!(locate(Minloc, (2.0, 7), (2.0, 3)), (2.0, 3));
    let (value, index) = locate(Maxloc, (f64::NAN, 7), (f64::INFINITY, 3));
    assert!(value.is_nan() && index == 7);
}

#[test]
fn floats_follow_ieee() {
    assert_eq!(
        f64s(Sum, &[0.1, f64::MAX], &[0.2, f64::MAX]),
        [0.1 + 0.2, f64::INFINITY]
    );
    assert_eq!(f64s(Prod, &[3.0], &[-0.5]), [-1.5]);
}

#[test]
fn complex_numbers_multiply() {
    let to = |[re, im]: [f32; 2]| bytes(&[re, im], f32::to_ne_bytes).try_into().unwrap();
    let from = |bytes: [u8; 8]| {
        let part = |at| f32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        [part(0), part(4)]
    };
    let operands = (&[[1.0, 2.0]][..], &[[3.0, -4.0]][..]);
    assert_eq!(reduce(Prod, Kind::Complex32, operands, to, from), [[11.0, 2.0]]);
    assert_eq!(reduce(Sum, Kind::Complex32, operands, to, from), [[4.0, -2.0]]);
}

#[test]
fn any_byte_but_zero_is_true() {
    let mut inout = [2, 0, 2, 0];
    Operation::from(Land)
        .apply(&Kind::Bool.into(), &[4, 4, 0, 0], &mut inout, 4)
        .unwrap();
    assert_eq!(inout, [1, 0, 0, 0]);
}

#[test]
fn pairs_are_replaced_without_their_gaps() {
    let mut inout = pair(1.0, 1);
    let mut input = pair(2.0, 2);
    input[12..].fill(0);
    Operation::from(Replace)
        .apply(&Kind::F64I32.into(), &input, &mut inout, 1)
        .unwrap();
    assert_eq!(inout, pair(2.0, 2));
}

#[test]
fn what_is_not_defined_is_an_error_that_names_both() {
    let error = Operation::from(Band).check(&Kind::F64.into()).unwrap_err();
    assert_eq!(error.to_string(), "MPI_BAND is not defined for MPI_DOUBLE");
    let derived = Datatype::contiguous(2, &Kind::F64.into()).unwrap();
    assert_eq!(
        Operation::from(Sum).check(&derived),
        Err(OperationError::Derived { operation: Sum })
    );
    let defined = |kind| Predefined::ALL.iter().filter(|op| op.is_defined_for(kind)).count();
    assert_eq!(
        (defined(Kind::I32), defined(Kind::F32), defined(Kind::Complex64)),
        (12, 6, 4)
    );
    assert_eq!(
        (defined(Kind::Bool), defined(Kind::Byte), defined(Kind::Packed)),
        (5, 5, 2)
    );
    assert_eq!(defined(Kind::I32I32), 4);
}

#[test]
fn short_operands_are_refused() {
    let sum = Operation::from(Sum);
    let (input, mut inout) = ([0; 12], [0; 16]);
    let error = sum.apply(&Kind::F64.into(), &input, &mut inout, 2).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Buffer);
    assert!(sum.apply(&Kind::F64.into(), &input, &mut inout, u64::MAX).is_err());
}

#[test]
fn operations_of_the_user_get_the_operands_in_mpis_order() {
    // SAFETY: one byte per element is read or written.
    let difference = unsafe {
        Operation::user(false, |input, inout, count, _| {
            for index in 0..count as usize {
                let (a, b) = (*input.add(index), *inout.add(index));
                *inout.add(index) = a.wrapping_sub(b);
            }
        })
    };
    let mut inout = [1, 2, 3];
    difference
        .apply(&Kind::U8.into(), &[10, 10, 10], &mut inout, 3)
        .unwrap();
    assert_eq!(inout, [9, 8, 7]);
    assert!(!difference.is_commutative() && difference.as_predefined().is_none());
}

#[test]
fn characters_are_not_summed() {
    for kind in [Kind::Char, Kind::WideChar, Kind::Packed] {
        for operation in Predefined::ALL {
            let is_defined = matches!(operation, Replace | NoOp);
            assert_eq!(operation.is_defined_for(kind), is_defined, "{operation} {kind}");
        }
    }
}

#[test]
fn logicals_of_all_sizes_are_combined() {
    for kind in [Kind::Bool, Kind::L16, Kind::L32, Kind::L64, Kind::L128] {
        let size = kind.size() as usize;
        let of = |truth: u8| {
            let mut bytes = vec![0; size];
            bytes[size / 2] = truth;
            bytes
        };
        for (operation, expected) in [(Land, false), (Lor, true), (Lxor, true)] {
            let mut inout = of(0);
            Operation::from(operation)
                .apply(&kind.into(), &of(3), &mut inout, 1)
                .unwrap();
            assert_eq!(inout.iter().any(|byte| *byte != 0), expected, "{operation} {kind}");
        }
        assert!(Operation::from(Sum).check(&kind.into()).is_err());
    }
}

#[test]
fn indices_of_pairs_may_be_floats() {
    let pair = |value: f32, index: f32| [value.to_ne_bytes(), index.to_ne_bytes()].concat();
    let mut inout = pair(2.0, 7.0);
    let locate = |operation, input: &[u8], inout: &mut [u8]| {
        Operation::from(operation)
            .apply(&Kind::F32F32.into(), input, inout, 1)
            .unwrap();
    };
    locate(Maxloc, &pair(2.0, 5.0), &mut inout);
    assert_eq!(inout, pair(2.0, 5.0));
    locate(Minloc, &pair(-1.0, 9.0), &mut inout);
    assert_eq!(inout, pair(-1.0, 9.0));
}
