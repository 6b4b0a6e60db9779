//! The information that a process publishes about itself.

use core::{fmt, str};
use std::{net::SocketAddr, vec::Vec};

/// The information that a process publishes.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) address: SocketAddr,
    /// Those of further rails.
    pub(super) rails: Vec<SocketAddr>,
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
        self.link.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        self.rails.iter().try_for_each(|address| write!(f, " {address}"))
    }
}

impl Said {
    /// All of them.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        [&[self.address][..], &self.rails].concat()
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(bytes).ok()?.split(' ');
        let address = words.next()?.parse().ok()?;
        let sharing = words.next()?.parse().ok()?;
        let check = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let link = digits.map(byte).collect::<Option<_>>()?;
        let rails = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Self {
            address,
            rails,
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
    use crate::bootstrap::{MAX_VALUE, address::MAX_ADDRESSES};

    /// A launcher's store takes all that a process can have to say.
    #[test]
    fn the_longest_fits() {
        let longest: SocketAddr = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
        let said = Said {
            address: longest,
            rails: vec![longest; MAX_ADDRESSES - 1],
            sharing: 1.0 / 3.0,
            check: false,
            link: vec![0xff; 64],
        };
        assert!(said.to_string().len() <= MAX_VALUE, "{}", said.to_string().len());
    }

    #[test]
    fn what_is_said_is_understood() {
        let rail = |text: &str| text.parse().unwrap();
        for (link, rails) in [
            (vec![], vec![]),
            (vec![2, 0, 0xff, 0x10], vec![]),
            (vec![], vec![rail("[fd00::1]:8"), rail("10.0.0.2:9")]),
        ] {
            let said = Said {
                address: "10.0.0.1:7".parse().unwrap(),
                rails,
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
