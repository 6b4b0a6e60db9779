#![expect(unsafe_code, reason = "looks at bytes that may be no value yet")]
//! Checks that received bytes are a value: `bool` is the one predefined type for which some bytes are not.

/// How to check the bytes of a value, and how to make them valid.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Returns whether the bytes at the address are a value.
    ///
    /// # Safety
    /// They may be read.
    pub is_valid: unsafe fn(*const u8) -> bool,
    /// Makes the bytes at the address a value.
    ///
    /// # Safety
    /// They may be read and written.
    pub make_valid: unsafe fn(*mut u8),
}

impl Check {
    /// Every byte but zero is true.
    pub(super) const BOOL: Self = {
        unsafe fn is_valid(place: *const u8) -> bool {
            // SAFETY: the caller's contract.
            unsafe { place.read() <= 1 }
        }
        unsafe fn make_valid(place: *mut u8) {
            // SAFETY: the caller's contract.
            unsafe { place.write(u8::from(place.read() != 0)) };
        }
        Self { is_valid, make_valid }
    };
}

/// A part of a value that must be checked: its offset in bytes from the value's address, and the check.
pub type Part = (usize, Option<Check>);

/// Returns whether all parts of the bytes at `place` are values.
///
/// # Safety
/// As [`Check::is_valid`].
pub unsafe fn is_valid(place: *const u8, parts: &[Part]) -> bool {
    parts.iter().all(|(offset, check)| match check {
        // SAFETY: parts lie within the value.
        Some(check) => unsafe { (check.is_valid)(place.add(*offset)) },
        None => true,
    })
}

/// Makes all parts of the bytes at `place` values.
///
/// # Safety
/// As [`Check::make_valid`].
pub unsafe fn make_valid(place: *mut u8, parts: &[Part]) {
    for (offset, check) in parts {
        if let Some(check) = check {
            // SAFETY: parts lie within the value.
            unsafe { (check.make_valid)(place.add(*offset)) };
        }
    }
}
