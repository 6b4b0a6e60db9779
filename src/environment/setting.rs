//! Values of variables: how they are read, and how they are written.

use std::{borrow::Cow, error::Error, fmt, time::Duration};

/// Why the environment could not be used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// There is no setting of this name.
    Unknown {
        /// The variable.
        name: String,
        /// The known variable with the most similar name.
        nearest: &'static str,
    },
    /// The value is not valid.
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The form that it should have.
        expected: Cow<'static, str>,
    },
    /// The program was built without the feature that the variable needs.
    Feature {
        /// The variable.
        name: &'static str,
        /// The feature of this crate.
        feature: &'static str,
    },
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => {
                write!(
                    f,
                    "the environment has {name}, which is no setting; did you mean {nearest}?"
                )
            }
            Self::Value { name, value, expected } => {
                write!(
                    f,
                    "the environment has {name}={value}, which cannot be understood; it takes {expected}"
                )
            }
            Self::Feature { name, feature } => {
                write!(
                    f,
                    "the environment has {name}, but this program was built without the feature `{feature}` of hikyaku"
                )
            }
        }
    }
}

crate::debug_as_display!(EnvironmentError);

impl Error for EnvironmentError {}

pub(crate) fn parse<T: Setting>(name: &'static str, value: &str) -> Result<T, EnvironmentError> {
    T::parse(value.trim()).ok_or_else(|| refuse(name, value, T::EXPECTED))
}

pub(crate) fn refuse(name: &'static str, value: &str, expected: impl Into<Cow<'static, str>>) -> EnvironmentError {
    EnvironmentError::Value {
        name,
        value: value.to_owned(),
        expected: expected.into(),
    }
}

/// A type that can be read from a variable, and written as one.
pub(crate) trait Setting: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    /// A text that `parse` reads as this value.
    fn show(&self) -> String;
}

/// Splits a number with a unit into the digits (with a point) and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], &text[end..])
}

impl Setting for u64 {
    const EXPECTED: &'static str = "a number, perhaps with K, M or G (times 1,024): 1472, 64K, 8M";

    fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = split(text);
        let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
            "" => 0,
            "k" | "K" => 10,
            "M" => 20,
            "G" => 30,
            _ => return None,
        };
        let number: Self = digits.parse().ok()?;
        number.checked_mul(1 << shift)
    }

    fn show(&self) -> String {
        for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
            if *self > 0 && self.trailing_zeros() >= shift {
                return format!("{}{unit}", self >> shift);
            }
        }
        self.to_string()
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = <u64 as Setting>::EXPECTED;

            fn parse(text: &str) -> Option<Self> {
                Self::try_from(<u64 as Setting>::parse(text)?).ok()
            }

            fn show(&self) -> String {
                u64::from(*self).show()
            }
        }
    )*};
}
numbers!(u16, u32);

impl Setting for Duration {
    const EXPECTED: &'static str = "a time with its unit (ns, us, ms, s): 200us, 1.5ms, 4s";

    fn parse(text: &str) -> Option<Self> {
        Some(Self::from_nanos(Nanoseconds::parse(text)?.0.round() as u64))
    }

    fn show(&self) -> String {
        Nanoseconds(self.as_nanos() as f64).show()
    }
}

/// A time that may be shorter than a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Nanoseconds(pub(crate) f64);

impl Setting for Nanoseconds {
    const EXPECTED: &'static str = Duration::EXPECTED;

    fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = split(text);
        let nanos = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return None,
        };
        let number: f64 = digits.parse().ok()?;
        Some(Self(number * nanos))
    }

    fn show(&self) -> String {
        let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
        let (size, unit) = units
            .into_iter()
            .find(|(size, _)| self.0 >= *size)
            .unwrap_or((1.0, "ns"));
        // Products such as 0.2e-9 s × 10^9 are not quite what they should be.
        let rounded = (self.0 / size * 1e6).round() / 1e6;
        format!("{rounded}{unit}")
    }
}

impl Setting for bool {
    const EXPECTED: &'static str = "on or off";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "1" | "true" | "yes" => Some(true),
            "off" | "0" | "false" | "no" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<T: Setting + PartialEq + fmt::Debug>(value: T, text: &str) {
        assert_eq!(value.show(), text);
        assert_eq!(T::parse(text), Some(value));
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        round(0_u32, "0");
        round(1_472_u16, "1472");
        round(65_536_u32, "64K");
        round(1_u64 << 30, "1G");
        round(1_048_575_u32, "1048575");
        round(Duration::ZERO, "0ns");
        round(Duration::from_micros(1_500), "1.5ms");
        round(Duration::from_secs(3_600), "3600s");
        round(Nanoseconds(0.2), "0.2ns");
        round(true, "on");
        round(false, "off");
    }
}
