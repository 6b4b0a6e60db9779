//! The information that a process publishes about itself.

use core::{fmt, str};
use std::{net::SocketAddr, vec::Vec};

/// The information that a process publishes.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) address: SocketAddr,
    /// Processes that share a core there.
    pub(super) sharing: f64,
    /// Set if the calls of ranks are compared.
    pub(super) check: bool,
    /// The link address of its backend.
    pub(super) link: Vec<u8>,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.address, self.sharing, self.check)?;
        self.link.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Said {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(bytes).ok()?.split(' ');
        let address = words.next()?.parse().ok()?;
        let sharing = words.next()?.parse().ok()?;
        let check = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let link = digits.map(byte).collect::<Option<_>>()?;
        words.next().is_none().then_some(Self {
            address,
            sharing,
            check,
            link,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{string::ToString, vec};

    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for link in [vec![], vec![2, 0, 0xff, 0x10]] {
            let said = Said {
                address: "10.0.0.1:7".parse().unwrap(),
                sharing: 1.5,
                check: true,
                link,
            };
            assert_eq!(Said::parse(said.to_string().as_bytes()), Some(said));
        }
        for wrong in [
            "",
            "10.0.0.1:7 1 true",
            "10.0.0.1:7 1 true 0x",
            "10.0.0.1:7 1 true 00 00",
        ] {
            assert_eq!(Said::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
