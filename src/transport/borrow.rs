#![expect(
    unsafe_code,
    reason = "erases the lifetime of a borrowed slice for as long as a guard lives"
)]
//! Lends a borrowed slice to the protocol, which needs to own the payload that it sends.
//!
//! The one module of this crate, besides the backends, with `unsafe` code.

use std::{ops::Deref, process, slice};

use bytes::Bytes;

use crate::sync::{Pin, Pins};

/// A slice that is lent out. It stays borrowed for as long as the loan lives, and a loan ends only when every reference
/// that was made from it is gone.
///
/// The guard of a loan must not be forgotten; so [`lend`] alone makes pins, and shows them to a closure.
pub(super) struct Loan<'a> {
    data: &'a [u8],
    /// [`Lent`]s that exist.
    pins: Pins,
}

/// The owner inside the `Bytes`: the slice without its lifetime.
struct Lent {
    start: *const u8,
    len: usize,
    _pin: Pin,
}

// SAFETY: a `Lent` stands for a `&[u8]`, which may be sent to and dropped on any thread.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `len` come from one `&'a [u8]` in `Loan::bytes`. `'a` outlives this value: `lend` does
        // not return or unwind, so nothing that `'a` borrows from can end, before all leases are back, of which this value
        // has one until it is dropped. No code writes to the bytes meanwhile, since they are borrowed for `'a`.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl Loan<'_> {
    /// The slice, as something to own.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes::from_owner(Lent {
            start: self.data.as_ptr(),
            len: self.data.len(),
            _pin: self.pins.lend(),
        })
    }

    /// Every reference to the slice is gone.
    pub(super) fn is_returned(&self) -> bool {
        self.pins.are_released()
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.data
    }
}

/// Ends the process rather than the loan if something still refers to the slice.
struct Barrier<'l, 'a, S, R: FnMut(&mut S, &Loan<'a>)> {
    state: &'l mut S,
    loan: Loan<'a>,
    recall: R,
}

impl<'a, S, R: FnMut(&mut S, &Loan<'a>)> Drop for Barrier<'_, 'a, S, R> {
    fn drop(&mut self) {
        if !self.loan.is_returned() {
            /// Not disarmed: `recall` has panicked.
            struct Abort(bool);
            impl Drop for Abort {
                fn drop(&mut self) {
                    if self.0 {
                        process::abort();
                    }
                }
            }
            let mut abort = Abort(true);
            (self.recall)(self.state, &self.loan);
            abort.0 = !self.loan.is_returned();
        }
    }
}

/// Calls `using` with `data` as a [`Loan`], whose bytes may be sent by reference. Before this function returns or
/// unwinds, every reference to them is gone: if some are left after `using`, `recall` must make them go. If it cannot,
/// the process aborts, because memory that other code may free or write would still be read.
pub(super) fn lend<'a, S, T>(
    state: &mut S,
    data: &'a [u8],
    using: impl FnOnce(&mut S, &Loan<'a>) -> T,
    recall: impl FnMut(&mut S, &Loan<'a>),
) -> T {
    let loan = Loan {
        data,
        pins: Pins::default(),
    };
    let barrier = Barrier { state, loan, recall };
    using(&mut *barrier.state, &barrier.loan)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_loan_that_is_returned_needs_no_recall() {
        let mut kept: Option<Bytes> = None;
        let data = vec![7_u8; 100];
        let len = lend(
            &mut kept,
            &data,
            |kept, loan| {
                assert!(loan.is_returned());
                *kept = Some(loan.bytes());
                assert!(!loan.is_returned());
                let clone = kept.clone();
                *kept = None;
                assert!(!loan.is_returned());
                assert_eq!(clone.unwrap(), [7_u8; 100][..]);
                assert!(loan.is_returned());
                loan.len()
            },
            |_, _| panic!("not needed"),
        );
        assert_eq!(len, 100);
    }

    #[test]
    fn a_panic_recalls_the_loan() {
        let mut kept: Vec<Bytes> = Vec::new();
        let data = vec![7_u8; 100];
        let result = catch_unwind(AssertUnwindSafe(|| {
            lend(
                &mut kept,
                &data,
                |kept, loan| {
                    let bytes = loan.bytes();
                    kept.push(bytes.slice(10..20));
                    panic!("in between");
                },
                |kept, _| kept.clear(),
            )
        }));
        assert!(result.is_err());
        drop(data);
        assert!(kept.is_empty());
    }
}
