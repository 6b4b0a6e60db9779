//! The drivers of network interfaces. For one that is made of software the name says what it is, and no file in
//! `/sys/class/net` does.
#![expect(unsafe_code, reason = "the kernel writes what ethtool asks into our memory")]

use std::{
    mem,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `ETHTOOL_GDRVINFO` of `linux/ethtool.h`.
const GET_DRIVER: u32 = 3;

/// The kernel's `ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    /// Versions and counts that nobody asks for here.
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196 && align_of::<DriverInfo>() == 4);

/// Asks the kernel.
pub(super) struct Drivers(Option<OwnedFd>);

impl Drivers {
    pub(super) fn new() -> Self {
        // Any socket will do.
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        Self(any.ok())
    }

    /// The name of the driver of an interface. `None`: the kernel does not say.
    pub(super) fn of(&self, interface: &str) -> Option<String> {
        let mut info = DriverInfo {
            command: GET_DRIVER,
            driver: [0; 32],
            rest: [0; 160],
        };
        // SAFETY: all bytes zero is an `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut info).cast();
        let socket = self.0.as_ref()?.as_raw_fd();
        // SAFETY: this command reads the name, which ends with a zero, and writes an `ethtool_drvinfo`, for which there is
        // room where the union points to.
        if unsafe { libc::ioctl(socket, libc::SIOCETHTOOL, &mut request) } != 0 {
            return None;
        }
        let name = info.driver.split(|&byte| byte == 0).next()?;
        String::from_utf8(name.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_has_no_driver() {
        assert_eq!(Drivers::new().of("no-such-device0"), None);
    }
}
