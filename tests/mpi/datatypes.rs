//! Datatypes from outside: whatever is asked for, they are refused or right.

use proptest::prelude::*;

#[path = "../support/datatypes.rs"]
mod exercise;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The fuzz target's body under random bytes.
    #[test]
    fn any_bytes_make_a_datatype_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        exercise::datatype(&bytes);
    }
}
