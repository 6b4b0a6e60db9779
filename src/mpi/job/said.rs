//! The information that a process publishes about itself.

use core::{fmt, str};
use std::{net::SocketAddr, vec::Vec};

use crate::mpi::engine::Addresses;

/// Is before a spare address.
const SPARE: char = '~';

/// The information that a process publishes.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) addresses: Addresses,
    /// Processes that share a core there.
    pub(super) sharing: f64,
    /// Set if the calls of ranks are compared.
    pub(super) check: bool,
    /// The link address of its backend.
    pub(super) link: Vec<u8>,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut usual = self.addresses.usual.iter();
        usual.next().map_or(Ok(()), |first| write!(f, "{first}"))?;
        write!(f, " {} {} ", self.sharing, self.check)?;
        self.link.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        usual.try_for_each(|address| write!(f, " {address}"))?;
        { self.addresses.spare.iter() }.try_for_each(|address| write!(f, " {SPARE}{address}"))
    }
}

impl Said {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(bytes).ok()?.split(' ');
        let mut addresses = Addresses {
            usual: Vec::from([words.next()?.parse().ok()?]),
            spare: None,
        };
        let sharing = words.next()?.parse().ok()?;
        let check = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let link = digits.map(byte).collect::<Option<_>>()?;
        for word in words {
            let address = |text: &str| text.parse::<SocketAddr>().ok();
            match word.strip_prefix(SPARE) {
                Some(spare) if addresses.spare.is_none() => addresses.spare = Some(address(spare)?),
                _ => addresses.usual.push(address(word)?),
            }
        }
        Some(Self {
            addresses,
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
            addresses: Addresses {
                usual: vec![longest; MAX_ADDRESSES - 1],
                spare: Some(longest),
            },
            sharing: 1.0 / 3.0,
            check: false,
            link: vec![0xff; 64],
        };
        assert!(said.to_string().len() <= MAX_VALUE, "{}", said.to_string().len());
    }

    #[test]
    fn what_is_said_is_understood() {
        let rail = |text: &str| text.parse().unwrap();
        let first = rail("10.0.0.1:7");
        for (link, usual, spare) in [
            (vec![], vec![first], None),
            (vec![2, 0, 0xff, 0x10], vec![first], None),
            (vec![], vec![first, rail("[fd00::1]:8"), rail("10.0.0.2:9")], None),
            (vec![], vec![first, rail("10.0.0.2:9")], Some(rail("[fd00::1]:8"))),
        ] {
            let said = Said {
                addresses: Addresses { usual, spare },
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
            "10.0.0.1:7 1 true  ~",
            "10.0.0.1:7 1 true  ~[fd00::1]:8 ~[fd00::2]:8",
            "~10.0.0.1:7 1 true ",
        ] {
            assert_eq!(Said::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
