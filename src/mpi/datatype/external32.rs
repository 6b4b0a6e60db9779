#![expect(unsafe_code, reason = "data are given by pointer, as C does")]
//! The data representation "external32" (MPI 5.2.1, 14.5.2): numbers in network byte order, in sizes of their own.

use alloc::{vec, vec::Vec};

use super::{Combiner, Datatype, Kind};

/// The representation of one kind.
#[derive(Clone, Copy)]
enum Form {
    /// An integer or IEEE number of this many bytes, with its bytes in the other order.
    Number(usize),
    /// A signed, or unsigned, integer of eight bytes, which has four.
    Long { is_signed: bool },
    /// A wide character of four bytes, which has two.
    Wide,
    /// A number of extended precision, which becomes one of quadruple precision.
    Extended,
}

impl Form {
    /// Bytes in packed data, and in the representation.
    const fn sizes(self) -> (usize, usize) {
        match self {
            Self::Number(bytes) => (bytes, bytes),
            Self::Long { .. } => (8, 4),
            Self::Wide => (4, 2),
            Self::Extended => (16, 16),
        }
    }

    /// Appends one number to `out`. `None`: it does not fit.
    fn write(self, native: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Number(_) => out.extend(reversed(native)),
            Self::Extended => out.extend(to_quadruple(number(native)).to_be_bytes()),
            Self::Long { is_signed: true } => out.extend(i32::try_from(number(native) as i64).ok()?.to_be_bytes()),
            Self::Long { is_signed: false } => out.extend(u32::try_from(number(native) as u64).ok()?.to_be_bytes()),
            Self::Wide => out.extend(u16::try_from(number(native) as u32).ok()?.to_be_bytes()),
        }
        Some(())
    }

    /// Appends the packed form of one number to `out`.
    fn read(self, external: &[u8], out: &mut Vec<u8>) {
        // The first byte is the highest.
        let value = external.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        match self {
            Self::Number(_) => out.extend(reversed(external)),
            Self::Extended => out.extend(to_extended(value).to_ne_bytes()),
            Self::Long { is_signed: true } => out.extend(i64::from(value as u32 as i32).to_ne_bytes()),
            Self::Long { is_signed: false } => out.extend((value as u64).to_ne_bytes()),
            Self::Wide => out.extend((value as u32).to_ne_bytes()),
        }
    }
}

/// The bytes of a number in network byte order, or from there in the machine's.
fn reversed(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let len = bytes.len();
    (0..len).map(move |index| {
        bytes[if cfg!(target_endian = "little") {
            len - 1 - index
        } else {
            index
        }]
    })
}

/// A number of the machine.
fn number(native: &[u8]) -> u128 {
    reversed(native).fold(0, |value, byte| value << 8 | u128::from(byte))
}

/// Bits of the fraction of extended numbers, below their leading bit, and of quadruple ones.
const EXTENDED: u32 = 63;
const QUADRUPLE: u32 = 112;

/// From the x87's extended precision, 80 bits, to IEEE's quadruple: nothing is lost.
const fn to_quadruple(extended: u128) -> u128 {
    let (sign, exponent) = (extended >> 79 & 1, extended >> 64 & 0x7fff);
    let fraction = extended & ((1 << EXTENDED) - 1);
    // A leading bit without an exponent counts like one with the least.
    let exponent = if exponent == 0 {
        extended >> EXTENDED & 1
    } else {
        exponent
    };
    sign << 127 | exponent << QUADRUPLE | fraction << (QUADRUPLE - EXTENDED)
}

/// The reverse, rounded to nearest, ties to even.
const fn to_extended(quadruple: u128) -> u128 {
    const DROPPED: u32 = QUADRUPLE - EXTENDED;
    let (sign, exponent) = (quadruple >> 127, quadruple >> QUADRUPLE & 0x7fff);
    let fraction = quadruple & ((1 << QUADRUPLE) - 1);
    let (kept, rest) = (fraction >> DROPPED, fraction & ((1 << DROPPED) - 1));
    if exponent == 0x7fff {
        let quiet = if fraction == 0 { 0 } else { 1 << (EXTENDED - 1) };
        return sign << 79 | exponent << 64 | 1 << EXTENDED | kept | quiet;
    }
    let half = 1 << (DROPPED - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    // A carry goes on into the exponent.
    let rounded = (exponent << EXTENDED | kept) + up as u128;
    let (exponent, kept) = (rounded >> EXTENDED, rounded & ((1 << EXTENDED) - 1));
    let leading = if exponent == 0 { 0 } else { 1 << EXTENDED };
    sign << 79 | exponent << 64 | leading | kept
}

/// The forms of a predefined datatype, one after the other.
fn forms(kind: Kind, is_long: bool) -> Vec<Form> {
    if let Some((value, index)) = kind.pair() {
        return [forms(value, is_long), forms(index, false)].concat();
    }
    match kind {
        Kind::I64 | Kind::U64 if is_long => vec![Form::Long {
            is_signed: kind == Kind::I64,
        }],
        Kind::WideChar => vec![Form::Wide],
        Kind::F80 => vec![Form::Extended],
        Kind::Complex80 => vec![Form::Extended; 2],
        Kind::Complex16 | Kind::Complex32 | Kind::Complex64 | Kind::Complex128 => {
            vec![Form::Number(kind.size() as usize / 2); 2]
        }
        _ => vec![Form::Number(kind.size() as usize)],
    }
}

/// Elements in the representation "external32".
///
/// `is_long` says of a predefined datatype whether it stands for C's `long`, or a pair that begins with one: these have
/// four bytes there, while `MPI_INT64_T`, of the same [`Kind`], has eight.
impl Datatype {
    /// Calls `f` with the predefined datatypes of an element in their order, and how often each comes in a row.
    fn leaves(&self, times: u64, f: &mut dyn FnMut(&Self, u64)) {
        let Some(contents) = self.contents().filter(|_| self.size() > 0) else {
            if self.size() > 0 && times > 0 {
                f(self, times);
            }
            return;
        };
        // Of one datatype, there are as many as its bytes are in it.
        if contents.combiner != Combiner::Struct {
            let part = &contents.datatypes[0];
            return part.leaves(times * (self.size() / part.size()), f);
        }
        for _ in 0..times {
            for (part, count) in contents.datatypes.iter().zip(&contents.integers[1..]) {
                part.leaves(*count as u64, f);
            }
        }
    }

    /// Calls `f` with each number of `count` elements.
    fn numbers(&self, count: u64, is_long: &dyn Fn(&Self) -> bool, f: &mut dyn FnMut(Form)) {
        self.leaves(count, &mut |leaf, times| {
            let forms = leaf.kind().map_or_else(Vec::new, |kind| forms(kind, is_long(leaf)));
            for _ in 0..times {
                forms.iter().for_each(|form| f(*form));
            }
        });
    }

    /// Bytes of `count` elements (`MPI_Pack_external_size`).
    #[must_use]
    pub fn external_size(&self, count: u64, is_long: &dyn Fn(&Self) -> bool) -> u64 {
        let mut size = 0;
        self.leaves(count, &mut |leaf, times| {
            let forms = leaf.kind().map_or_else(Vec::new, |kind| forms(kind, is_long(leaf)));
            let bytes: usize = forms.iter().map(|form| form.sizes().1).sum();
            size += bytes as u64 * times;
        });
        size
    }

    /// Packs `count` elements (`MPI_Pack_external`). `None`: a number is too large for its size there
    /// (`MPI_ERR_CONVERSION`).
    ///
    /// # Safety
    /// The data of `count` elements are initialised memory that may be read through `base`, and is not written to
    /// meanwhile; they fit into memory twice.
    #[must_use]
    pub unsafe fn pack_external(
        &self,
        base: *const u8,
        count: u64,
        is_long: &dyn Fn(&Self) -> bool,
    ) -> Option<Vec<u8>> {
        let mut native = Vec::with_capacity((self.size() * count) as usize);
        // SAFETY: the caller's contract; so many bytes have been written then.
        unsafe {
            let len = self.pack_at(base, count, 0, native.spare_capacity_mut());
            native.set_len(len);
        }
        let mut rest = native.as_slice();
        let (mut out, mut fits) = (Vec::with_capacity(native.len()), true);
        self.numbers(count, is_long, &mut |form| {
            let (number, after) = rest.split_at(form.sizes().0);
            fits &= form.write(number, &mut out).is_some();
            rest = after;
        });
        fits.then_some(out)
    }

    /// Unpacks `count` elements (`MPI_Unpack_external`), of which `bytes` has at least
    /// [`external_size`](Self::external_size). Returns whether it has.
    ///
    /// # Safety
    /// The data of `count` elements are memory that may be written through `base`, and is not used meanwhile; they fit
    /// into memory twice.
    #[must_use]
    pub unsafe fn unpack_external(
        &self,
        base: *mut u8,
        count: u64,
        bytes: &[u8],
        is_long: &dyn Fn(&Self) -> bool,
    ) -> bool {
        if (bytes.len() as u64) < self.external_size(count, is_long) {
            return false;
        }
        let (mut rest, mut native) = (bytes, Vec::with_capacity((self.size() * count) as usize));
        self.numbers(count, is_long, &mut |form| {
            let (number, after) = rest.split_at(form.sizes().1);
            form.read(number, &mut native);
            rest = after;
        });
        // SAFETY: the caller's contract.
        unsafe { self.unpack_at(base, count, 0, &native) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(_: &Datatype) -> bool {
        false
    }

    /// # Safety
    /// `T` is what the datatype describes, `count` times.
    unsafe fn round_trip<T: Copy + Default + PartialEq + core::fmt::Debug, const N: usize>(
        datatype: &Datatype,
        count: u64,
        data: [T; N],
        is_long: &dyn Fn(&Datatype) -> bool,
    ) -> Vec<u8> {
        // SAFETY: the caller's contract.
        let packed = unsafe { datatype.pack_external(data.as_ptr().cast(), count, is_long) }.unwrap();
        assert_eq!(packed.len() as u64, datatype.external_size(count, is_long));
        let mut back = [T::default(); N];
        let base = back.as_mut_ptr().cast();
        // SAFETY: as above.
        let unpacked = unsafe {
            assert!(packed.is_empty() || !datatype.unpack_external(base, count, &packed[1..], is_long));
            datatype.unpack_external(base, count, &packed, is_long)
        };
        assert!(unpacked);
        assert_eq!(back, data);
        packed
    }

    #[test]
    fn numbers_are_in_network_byte_order() {
        let of = |kind| Datatype::predefined(kind);
        // SAFETY: the arrays have these elements.
        unsafe {
            assert_eq!(
                round_trip(&of(Kind::I32), 2, [1_i32, -2], &never),
                [0, 0, 0, 1, 255, 255, 255, 254]
            );
            assert_eq!(round_trip(&of(Kind::I16), 1, [258_i16], &never), [1, 2]);
            assert_eq!(round_trip(&of(Kind::F64), 1, [1.5_f64], &never), 1.5_f64.to_be_bytes());
            assert_eq!(round_trip(&of(Kind::Byte), 3, [1_u8, 2, 3], &never), [1, 2, 3]);
            assert_eq!(round_trip(&of(Kind::WideChar), 1, ['ä' as u32], &never), [0, 0xe4]);
            let complex = round_trip(&of(Kind::Complex32), 1, [1_f32, -1.0], &never);
            assert_eq!(complex, [1_f32.to_be_bytes(), (-1_f32).to_be_bytes()].concat());
            assert!(
                of(Kind::WideChar)
                    .pack_external([1_u32 << 16].as_ptr().cast(), 1, &never)
                    .is_none()
            );
        }
    }

    #[test]
    fn long_has_four_bytes() {
        let long = Datatype::predefined(Kind::I64).with_word(7);
        let is_long = |datatype: &Datatype| datatype.word() == 7;
        let both = Datatype::contiguous(3, &long).unwrap();
        let three = [1_i64, -1, i32::MIN.into()];
        // SAFETY: the arrays have these elements.
        unsafe {
            assert_eq!(round_trip(&both, 1, three, &is_long).len(), 12);
            assert_eq!(
                round_trip(&Datatype::predefined(Kind::I64), 3, three, &is_long).len(),
                24
            );
            assert!(long.pack_external([1_i64 << 31].as_ptr().cast(), 1, &is_long).is_none());
        }
        let unsigned = Datatype::predefined(Kind::U64).with_word(7);
        // SAFETY: as above.
        let packed = unsafe { round_trip(&unsigned, 1, [1_u64 << 31], &is_long) };
        assert_eq!(packed, [128, 0, 0, 0]);
    }

    #[test]
    fn structures_keep_their_order() {
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C)]
        struct Mixed {
            word: i32,
            _gap: i32,
            numbers: [f64; 2],
            last: i16,
        }
        let parts = [Kind::F64, Kind::I32, Kind::I16].map(Datatype::predefined);
        let places = [
            core::mem::offset_of!(Mixed, numbers),
            0,
            core::mem::offset_of!(Mixed, last),
        ];
        let mixed = Datatype::structure(&[2, 1, 1], &places.map(|place| place as i64), &parts).unwrap();
        let mixed = Datatype::resized(0, size_of::<Mixed>() as i64, &mixed).unwrap();
        let data = [1, 2].map(|number| Mixed {
            word: number,
            numbers: [0.5, f64::from(number)],
            last: 9,
            ..Mixed::default()
        });
        // SAFETY: the datatype is that of `Mixed`.
        let packed = unsafe { round_trip(&mixed, 2, data, &never) };
        assert_eq!(packed.len(), 44);
        assert_eq!(packed[..8], 0.5_f64.to_be_bytes());
        assert_eq!(packed[16..22], [0, 0, 0, 1, 0, 9]);
    }

    #[test]
    fn extended_numbers_become_quadruple_ones() {
        const ONE: u128 = 0x3fff << 64 | 1 << 63;
        const LEAST: u128 = 1;
        const MOST: u128 = 0x7ffe << 64 | u64::MAX as u128;
        const INFINITY: u128 = 0x7fff << 64 | 1 << 63;
        assert_eq!(to_quadruple(ONE), 0x3fff << 112);
        for value in [
            0,
            1 << 79,
            ONE,
            ONE | 1,
            LEAST,
            MOST,
            MOST | 1 << 79,
            INFINITY,
            1 << 64 | 1 << 63,
        ] {
            assert_eq!(to_extended(to_quadruple(value)), value, "{value:x}");
        }
        // Ties go to even, carries into the exponent.
        assert_eq!(to_extended(0x3fff << 112 | 1 << 48), ONE);
        assert_eq!(to_extended(0x3fff << 112 | 3 << 48), ONE | 2);
        assert_eq!(to_extended(0x3fff << 112 | ((1 << 112) - 1)), 0x4000 << 64 | 1 << 63);
        assert_eq!(to_extended(0x7ffe << 112 | ((1 << 112) - 1)), INFINITY);
        // A NaN stays one, also if its bits are cut off.
        let nan = to_extended(0x7fff << 112 | 1);
        assert_eq!(nan & INFINITY, INFINITY);
        assert_ne!(nan, INFINITY);
        let pair = Datatype::predefined(Kind::F80I32);
        assert_eq!((pair.external_size(2, &never), pair.size()), (40, 20));
    }
}
