//! What a process publishes of itself, so that others learn whether they share its host.

use std::{fs, io, os::unix::fs::MetadataExt};

use rustix::process::geteuid;

use super::pair::LAYOUT;

/// The first byte of the link address of a process that can be reached through memory. No Ethernet address of a host
/// begins so (it is odd), nor does what the way to a poller publishes.
const TAG: u8 = 0xfd;
/// Bytes of an identity.
pub(super) const LEN: usize = 1 + 4 + 4 + BOOT + 8 + NAME + 8 + 4 + 1;
const BOOT: usize = 16;
const NAME: usize = 8;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Number of the process in its job.
    pub(super) process: u32,
    pub(super) user: u32,
    /// The same user outside of its user namespace: two of one number may be different users.
    pub(super) outer: u32,
    /// When this host's kernel began: no two have the same, and containers have their host's.
    boot: [u8; BOOT],
    /// The network namespace: sockets without a file are known within one.
    namespace: u64,
    /// A random number, by which its sockets are found.
    pub(super) name: [u8; NAME],
    /// Stands for the release and the layout of its memories.
    release: u64,
    /// It can have memory in common with others.
    pub(super) has_memory: bool,
}

/// Why two processes do not share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// They are on different hosts: nothing is missing.
    Host,
    /// They are on one host, in containers that see different networks.
    Namespace,
    /// They are on one host, and belong to different users.
    User,
    /// They are of different releases.
    Release,
    /// One of them can have no memory in common with others; it says why.
    Memory,
}

/// The number outside of a user namespace of a user within it, by the namespace's map (user_namespaces(7)).
fn outer(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse);
        let (Some(Ok(inner)), Some(Ok(outer)), Some(Ok(count))) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        let at: u32 = user.checked_sub(inner).filter(|at| *at < count)?;
        at.checked_add(outer)
    })
}

/// FNV-1a of the release and the layout.
fn release() -> u64 {
    let bytes = env!("CARGO_PKG_VERSION").bytes().chain(LAYOUT.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Identity {
    /// That of this process.
    pub(super) fn own(process: u32, name: u64) -> io::Result<Self> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let user = geteuid().as_raw();
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Ok(Self {
            process,
            user,
            outer: outer(&map, user).unwrap_or(user),
            boot: boot.to_be_bytes(),
            namespace: fs::metadata("/proc/self/ns/net")?.ino(),
            name: name.to_be_bytes(),
            release: release(),
            has_memory: true,
        })
    }

    /// The same, of a process that can have no memory in common with others.
    pub(super) fn without_memory(self) -> Self {
        Self {
            has_memory: false,
            ..self
        }
    }

    /// Its [name](Self::name) as a number.
    pub(super) fn number(&self) -> u64 {
        u64::from_be_bytes(self.name)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![TAG];
        bytes.extend(self.process.to_le_bytes());
        bytes.extend(self.user.to_le_bytes());
        bytes.extend(self.boot);
        bytes.extend(self.namespace.to_le_bytes());
        bytes.extend(self.name);
        bytes.extend(self.release.to_le_bytes());
        bytes.extend(self.outer.to_le_bytes());
        bytes.push(self.has_memory.into());
        bytes
    }

    /// Reads one. Returns it with the bytes that follow it. `None`: that process cannot be reached through memory.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(LEN)?;
        let (&[TAG], own) = own.split_first_chunk()? else {
            return None;
        };
        let (process, own) = own.split_first_chunk()?;
        let (user, own) = own.split_first_chunk()?;
        let (&boot, own) = own.split_first_chunk()?;
        let (namespace, own) = own.split_first_chunk()?;
        let (&name, own) = own.split_first_chunk()?;
        let (release, own) = own.split_first_chunk()?;
        let (outer, own) = own.split_first_chunk()?;
        let this = Self {
            process: u32::from_le_bytes(*process),
            user: u32::from_le_bytes(*user),
            outer: u32::from_le_bytes(*outer),
            boot,
            namespace: u64::from_le_bytes(*namespace),
            name,
            release: u64::from_le_bytes(*release),
            has_memory: own == [1],
        };
        Some((this, rest))
    }

    /// A text that is the same for all processes that can share memory with this one, and for no other.
    #[cfg(feature = "mpi")]
    pub(super) fn domain(&self) -> String {
        let (boot, namespace) = (u128::from_be_bytes(self.boot), self.namespace);
        let (user, outer) = (self.user, self.outer);
        format!("{boot:032x} {namespace} {user} {outer} {:x}", self.release)
    }

    /// Returns whether the two can share memory.
    pub(super) fn meets(&self, other: &Self) -> Result<(), Apart> {
        if self.boot != other.boot {
            Err(Apart::Host)
        } else if self.namespace != other.namespace {
            Err(Apart::Namespace)
        } else if (self.user, self.outer) != (other.user, other.outer) {
            Err(Apart::User)
        } else if self.release != other.release {
            Err(Apart::Release)
        } else if !(self.has_memory && other.has_memory) {
            Err(Apart::Memory)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let own = Identity::own(7, 0x1234).unwrap();
        let mut bytes = own.bytes();
        assert_eq!(bytes.len(), LEN);
        bytes.extend([1, 2]);
        assert_eq!(Identity::read(&bytes), Some((own, &[1, 2][..])));
        assert_eq!(Identity::read(&bytes[..LEN - 1]), None);
        bytes[0] = 2;
        assert_eq!(Identity::read(&bytes), None);
        assert_eq!(Identity::read(&[]), None);
    }

    #[test]
    fn a_user_has_a_number_outside_of_its_namespace() {
        assert_eq!(outer("         0          0 4294967295\n", 1_000), Some(1_000));
        let map = "0 1000 1\n1 100000 65536\n";
        assert_eq!(
            [0, 1, 65_536].map(|user| outer(map, user)),
            [1_000, 100_000, 165_535].map(Some)
        );
        assert_eq!(outer(map, 65_537), None, "nobody, so far as the namespace knows");
        assert_eq!(outer("0 4294967295 2\n", 1), None);
        for nonsense in ["", "\n", "0 1", "a b c", "0 0 -1"] {
            assert_eq!(outer(nonsense, 0), None);
        }
    }

    #[test]
    fn two_meet_on_one_host_in_one_network_as_one_user() {
        let own = Identity::own(0, 1).unwrap();
        let other = Identity {
            process: 1,
            name: [9; NAME],
            ..own
        };
        assert_eq!(own.meets(&other), Ok(()));
        let apart = |change: fn(&mut Identity)| {
            let mut other = other;
            change(&mut other);
            own.meets(&other)
        };
        assert_eq!(apart(|other| other.boot[3] ^= 1), Err(Apart::Host));
        assert_eq!(apart(|other| other.namespace += 1), Err(Apart::Namespace));
        assert_eq!(apart(|other| other.user += 1), Err(Apart::User));
        assert_eq!(apart(|other| other.outer += 1), Err(Apart::User));
        assert_eq!(apart(|other| other.release += 1), Err(Apart::Release));
        assert_eq!(apart(|other| other.has_memory = false), Err(Apart::Memory));
    }
}
