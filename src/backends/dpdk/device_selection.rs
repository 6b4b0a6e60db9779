//! The devices and the addresses of one process, from the settings of the whole job.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    error::DpdkError,
    options::{ADDRESS, Device, DpdkOptions, addresses},
};
use crate::{backends::Place, environment::Environment};

/// The first addresses of two ports are so many apart: a job with more processes names them itself.
const APART: u32 = 1 << 12;

impl DpdkOptions {
    /// Like [`from_environment`](Self::from_environment), for each device of a process of a job whose processes all have
    /// the same settings: each is a port of its own. The devices of this process are taken from a list joined by `+`, in
    /// which commas join those of one process. The two ends of one memif get their roles (process 0 is the server), and
    /// addresses count on from the first one of each port.
    ///
    /// # Errors
    /// Those of `from_environment`; [`DpdkError::Job`] if the devices do not join this number of processes.
    pub fn of_process(environment: &Environment, device: Option<&str>, place: Place) -> Result<Vec<Self>, DpdkError> {
        Self::of_place(device, place, |name| environment.text(name).map(Cow::into_owned))
    }

    fn of_place(
        device: Option<&str>,
        place: Place,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Self>, DpdkError> {
        let all = device.map(str::to_owned).or_else(|| get("HIKYAKU_DPDK_DEVICE"));
        let all = all.unwrap_or_default();
        let first = get("HIKYAKU_DPDK_ADDRESS").and_then(|value| addresses(&value));
        let first = first.unwrap_or_else(|| vec![ADDRESS]);
        let ports = Device::each(own(&all, place)?).into_iter().zip(0..);
        let of_port = |(device, port): (&str, u32)| {
            let mut options = Self::from_variables(Some(device), &get)?;
            options.device = with_role(options.device, place);
            check(&all, &options.device, place)?;
            let named = first
                .get(port as usize)
                .or_else(|| first.last())
                .copied()
                .unwrap_or(ADDRESS);
            let beyond = port.saturating_sub(first.len() as u32 - 1);
            options.address = count_on(named, APART * beyond + place.process);
            Ok(options)
        };
        ports.map(of_port).collect()
    }
}

/// The address that is so many after another.
fn count_on(first: IpAddr, by: u32) -> IpAddr {
    match first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(by)).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(by.into())).into(),
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

    fn of(device: &str, process: u32, processes: u32) -> Result<Vec<DpdkOptions>, String> {
        let options = DpdkOptions::of_place(Some(device), Place { process, processes }, |name| {
            (name == "HIKYAKU_DPDK_ADDRESS").then(|| "10.0.0.250".to_owned())
        });
        options.map_err(|error| error.to_string())
    }

    fn words(device: &str, process: u32, processes: u32) -> String {
        let (name, arguments) = of(device, process, processes).unwrap()[0]
            .device
            .words(0, 1500, 1024, 1);
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
        assert_eq!(of(three, 0, 3).unwrap()[0].address, Ipv4Addr::new(10, 0, 0, 250));
        assert_eq!(of("ring", 0, 1).unwrap()[0].address, Ipv4Addr::new(10, 0, 0, 250));
        assert_eq!(of("net_null0", 6, 8).unwrap()[0].address, Ipv4Addr::new(10, 0, 1, 0));
    }

    #[test]
    fn each_device_is_a_port_with_an_address() {
        let of_second = |list: &str, first: &str| {
            let place = Place {
                process: 1,
                processes: 2,
            };
            let get = |name: &str| (name == "HIKYAKU_DPDK_ADDRESS").then(|| first.to_owned());
            let ports = DpdkOptions::of_place(Some(list), place, get).unwrap();
            let ports = ports.iter().map(|port| {
                let (name, arguments) = port.device.words(0, 1500, 1024, 1);
                format!("{name} {} {}", arguments.split(',').next().unwrap(), port.address)
            });
            ports.collect::<Vec<_>>()
        };
        let two = "af_packet:iface=a,af_packet:iface=b+af_packet:iface=c,qpairs=1,af_packet:iface=d";
        assert_eq!(
            of_second(two, "10.0.0.1"),
            ["net_af_packet0 iface=c 10.0.0.2", "net_af_packet0 iface=d 10.0.16.2"]
        );
        assert_eq!(
            of_second(
                "port:0000:03:00.0,port:0000:03:00.1,net_null7,size=64",
                "fd00::1, 10.1.0.1"
            ),
            [
                "0000:03:00.0  fd00::2",
                "0000:03:00.1  10.1.0.2",
                "net_null7 size=64 10.1.16.2"
            ]
        );
        let roles = of_second("memif:socket=/a,memif:socket=/b", "10.0.0.1");
        assert_eq!(roles.len(), 2);
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
