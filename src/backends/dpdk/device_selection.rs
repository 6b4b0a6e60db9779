//! The device and the address of one process, from the settings of the whole job.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    error::DpdkError,
    options::{Device, DpdkOptions},
};
use crate::{backends::Place, environment::Environment};

impl DpdkOptions {
    /// Like [`from_environment`](Self::from_environment), for a process of a job whose processes all have the same
    /// settings. It takes the device of this process from a list joined by `+`, gives the two ends of one memif their
    /// roles (process 0 is the server), and counts on from [`address`](Self::address).
    ///
    /// # Errors
    /// Those of `from_environment`; [`DpdkError::Job`] if the devices do not join this number of processes.
    pub fn of_process(environment: &Environment, device: Option<&str>, place: Place) -> Result<Self, DpdkError> {
        Self::of_place(device, place, |name| environment.text(name).map(Cow::into_owned))
    }

    fn of_place(device: Option<&str>, place: Place, get: impl Fn(&str) -> Option<String>) -> Result<Self, DpdkError> {
        let all = device.map(str::to_owned).or_else(|| get("HIKYAKU_DPDK_DEVICE"));
        let all = all.unwrap_or_default();
        let own = own(&all, place)?;
        let mut options = Self::from_variables(Some(own), get)?;
        options.device = with_role(options.device, place);
        check(&all, &options.device, place)?;
        options.address = match options.address {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(place.process)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(place.process.into())).into(),
        };
        Ok(options)
    }
}

fn failed(all: &str, place: Place, why: &'static str) -> DpdkError {
    DpdkError::Job {
        device: all.to_owned(),
        processes: place.processes,
        why,
    }
}

/// The device of this process in the list of all devices.
fn own(all: &str, place: Place) -> Result<&str, DpdkError> {
    let mut devices = all.split('+');
    match devices.clone().count() {
        1 => Ok(all),
        count if count == place.processes as usize => Ok(devices.nth(place.process as usize).unwrap_or_default()),
        _ => Err(failed(all, place, "it names another number of devices")),
    }
}

fn with_role(device: Device, place: Place) -> Device {
    if !device.lacks_role() {
        return device;
    }
    device.with("role", if place.process == 0 { "server" } else { "client" })
}

fn check(all: &str, device: &Device, place: Place) -> Result<(), DpdkError> {
    if place.processes > 1 && device.is_ring() {
        return Err(failed(all, place, "a ring leads back to its process"));
    }
    if place.processes > 2 && device.is_pair() {
        return Err(failed(all, place, "such a device joins two"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(device: &str, process: u32, processes: u32) -> Result<DpdkOptions, String> {
        let options = DpdkOptions::of_place(Some(device), Place { process, processes }, |name| {
            (name == "HIKYAKU_DPDK_ADDRESS").then(|| "10.0.0.250".to_owned())
        });
        options.map_err(|error| error.to_string())
    }

    fn words(device: &str, process: u32, processes: u32) -> String {
        let (name, arguments) = of(device, process, processes).unwrap().device.words(0, 1500, 1024, 1);
        format!("{name} {arguments}")
    }

    #[test]
    fn each_process_has_its_end_and_its_address() {
        assert!(words("memif:socket=/s", 0, 2).contains("role=server"));
        assert!(words("memif:socket=/s", 1, 2).contains("role=client"));
        assert!(words("memif:socket=/s,role=client", 0, 2).contains("role=client"));
        let three = "af_packet:iface=a+af_packet:iface=b+af_packet:iface=c";
        assert_eq!(words(three, 2, 3), "net_af_packet0 iface=c");
        assert_eq!(words("port:0000:03:00.0", 7, 8), "0000:03:00.0 ");
        assert_eq!(of(three, 0, 3).unwrap().address, Ipv4Addr::new(10, 0, 0, 250));
        assert_eq!(of("ring", 0, 1).unwrap().address, Ipv4Addr::new(10, 0, 0, 250));
        assert_eq!(of("net_null0", 6, 8).unwrap().address, Ipv4Addr::new(10, 0, 1, 0));
    }

    #[test]
    fn what_does_not_join_all_is_refused() {
        for (device, processes, why) in [
            ("memif:socket=/s", 3, "joins two"),
            ("vhost:iface=/s+virtio-user:path=/s", 3, "another number"),
            ("af_packet:iface=a+af_packet:iface=b", 3, "another number"),
            ("memif:socket=/s+memif:socket=/s+memif:socket=/s", 3, "joins two"),
            ("ring", 2, "leads back"),
            ("memif", 2, "socket=PATH"),
            ("", 2, "socket=PATH"),
        ] {
            let error = of(device, 0, processes).unwrap_err();
            assert!(error.contains(why), "{device}: {error}");
        }
    }
}
