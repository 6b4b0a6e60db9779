//! Statistics as text: a line for each counter, names on the left, values on the right.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// Writes a line for each name and value; the last one is not ended.
pub(crate) fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[(String, String)]) -> fmt::Result {
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let names = widest(&mut rows.iter().map(|(name, _)| name.chars().count()));
    let values = widest(&mut rows.iter().map(|(_, value)| value.chars().count()));
    for (index, (name, value)) in rows.iter().enumerate() {
        let end = if index == 0 { "" } else { "\n" };
        write!(f, "{end}{name:<names$}  {value:>values$}")?;
    }
    Ok(())
}

/// A row for each counter.
pub(crate) fn rows_of(fields: impl Iterator<Item = (&'static str, u64)>) -> Vec<(String, String)> {
    fields
        .map(|(name, value)| (name.replace('_', " "), value.to_string()))
        .collect()
}

/// Rows of one's own: more than one line for a field.
pub(crate) trait Rows {
    fn add_to(&self, rows: &mut Vec<(String, String)>);
}

/// Gives counters a `Display`: a line for each field, and then what the field after the semicolon adds ([`Rows`]). All
/// fields must be named.
macro_rules! display_as_table {
    ($type:ident { $($field:ident),* $(,)? $(; $last:ident)? }) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let Self { $($field,)* $($last)? } = self;
                let rows = ::alloc::vec![$((
                    stringify!($field).replace('_', " "),
                    ::alloc::format!("{:?}", $field),
                ),)*];
                $(
                    let mut rows = rows;
                    $crate::table::Rows::add_to($last, &mut rows);
                )?
                $crate::table::write_rows(f, &rows)
            }
        }
    };
}

pub(crate) use display_as_table;
