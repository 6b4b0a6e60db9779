//! Devices of the backend dpdk: which end has which, and at which addresses they are.

use std::{env, io, process};

use ::hikyaku::{backends::Backend, environment::Environment};

use crate::{
    failure::Failure,
    options::{Common, Opponent},
    transports::settings::Settings,
};

/// The variable that names a device if `--device` does not.
const VARIABLE: &str = "HIKYAKU_DPDK_DEVICE";
/// The argument of a device on a wire that this run makes; the wire's number follows.
const WIRED: &str = "iface=wire";

/// Refuses a device without its backend, and what has more than two ends; [`of`] refuses what a device cannot do.
pub(crate) fn check(common: &Common, ends: Option<u32>) -> Result<(), Failure> {
    if common.backend != "dpdk" {
        return match &common.device {
            None if common.vs.contains(&Opponent::Memif) => Err(Failure::usage("--vs memif: with --backend dpdk")),
            None => Ok(()),
            Some(_) => Err(Failure::usage(format!(
                "--device is for the backend dpdk; `{}` has no devices",
                common.backend
            ))),
        };
    }
    if ends != Some(2) {
        return Err(Failure::usage(
            "--backend dpdk: latency, bandwidth and rate have it, between two ends",
        ));
    }
    Ok(())
}

/// The devices of both ends, if the backend has any.
pub(crate) fn of(common: &Common) -> Result<Option<[String; 2]>, Failure> {
    of_either(common, || Environment::of_process().get(VARIABLE).map(str::to_owned))
}

/// The same; `variable` gives what [`VARIABLE`] says.
fn of_either(common: &Common, variable: impl FnOnce() -> Option<String>) -> Result<Option<[String; 2]>, Failure> {
    if common.backend != "dpdk" {
        return Ok(None);
    }
    let text = common.device.clone().or_else(variable);
    let text = text.ok_or_else(|| {
        Failure::usage(
            "--backend dpdk needs a --device: memif (memory between two processes), af_packet or af_xdp (over veth pairs, root), \
             af_packet:iface=A+af_packet:iface=B, …",
        )
    })?;
    if text.contains("zero-copy=yes") && common.vs.contains(&Opponent::Memif) {
        return Err(Failure::usage(
            "--vs memif: a process can have one link without copies, and hikyaku has it; compare it with another run",
        ));
    }
    let (driver, worker) = text.split_once('+').unwrap_or((&text, &text));
    Ok(Some([complete(driver, "server"), complete(worker, "client")]))
}

/// Whether this run makes the wire between both devices.
pub(crate) fn is_wired(devices: &[String; 2]) -> bool {
    devices.iter().all(|device| device.contains(WIRED))
}

/// The number of the wire of a link: each has its own, because all devices of an interface get all of its packets.
pub(crate) const fn wire_of(link: usize) -> usize {
    link + 1
}

/// A memif with its socket and its role, in this order and before all else: what is not given, this run chooses. Other
/// devices stay as they are, but for an interface that is not named: this run makes it.
fn complete(device: &str, role: &str) -> String {
    // As in `Device::parse`: the first colon ends the name, and paths and addresses may have others.
    let (name, arguments) = device.split_once([':', ',']).unwrap_or((device, ""));
    if matches!(name, "af_packet" | "af_xdp") && !arguments.contains("iface=") {
        let comma = if arguments.is_empty() { "" } else { "," };
        return format!("{name}:{WIRED}{comma}{arguments}");
    }
    if name != "memif" {
        return device.to_owned();
    }
    let socket = env::temp_dir().join(format!("hikyaku-bench-{}.memif", process::id()));
    let mut own = [format!("socket={}", socket.display()), format!("role={role}")];
    let given_role = arguments.split(',').any(|argument| argument.starts_with("role="));
    let mut others = String::new();
    for argument in arguments.split(',').filter(|argument| !argument.is_empty()) {
        match argument.split_once('=') {
            Some(("socket", _)) => own[0] = argument.to_owned(),
            Some(("role", _)) => own[1] = argument.to_owned(),
            // Only a client can do without copies.
            Some(("zero-copy", _)) if role == "server" && !given_role => {}
            _ => others.extend([",", argument]),
        }
    }
    format!("memif:{},{}{others}", own[0], own[1])
}

/// The device string of the same end of another memif; `None`: the device is no memif of ours.
#[cfg(feature = "dpdk")]
pub(crate) fn memif_arguments(device: &str, suffix: &str) -> Option<String> {
    let (socket, role) = device.strip_prefix("memif:socket=")?.split_once(",role=")?;
    Some(format!("socket={socket}-{suffix},socket-abstract=no,id=0,role={role}"))
}

#[cfg(feature = "dpdk")]
mod there {
    use std::net::{Ipv4Addr, SocketAddr};

    use ::hikyaku::backends::dpdk::{DpdkBackend, DpdkOptions};

    use super::{Backend, Environment, Failure, Settings, WIRED, io, wire_of};
    use crate::machine::wire;

    /// Bytes of headers between an IP packet and the datagram in it.
    const OVERHEAD: usize = 28;

    /// Bytes of an IP packet that both devices take.
    pub(crate) fn mtu(devices: &[String; 2]) -> Result<usize, Failure> {
        let sizes = devices.iter().map(|device| {
            let options = DpdkOptions::from_environment(&Environment::of_process(), Some(device));
            options.map(|options| usize::from(options.packet_size()))
        });
        let sizes = sizes
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(sizes[0].min(sizes[1]))
    }

    /// Opens the device of this processor (0: the hub's).
    pub(crate) fn open(devices: &[String; 2], settings: &Settings, processor: u32) -> io::Result<Box<dyn Backend>> {
        let Settings { datagram, link, .. } = *settings;
        let device = &devices[usize::from(processor > 0)];
        let device = device.replace(WIRED, &format!("iface={}", wire::interface(wire_of(link as usize))));
        let mut options = DpdkOptions::from_environment(&Environment::of_process(), Some(&device))?;
        options.mtu = u16::try_from(datagram + OVERHEAD).ok();
        // Several at one socket.
        if options.device.to_string().contains("memif") {
            options.device = options.device.with("id", &link.to_string());
        }
        // A network for benchmarks of devices (RFC 2544), which no other network uses.
        let ip = Ipv4Addr::new(198, 18, link as u8, 1 + processor as u8);
        let backend = DpdkBackend::bind(SocketAddr::new(ip.into(), 0), &options)?;
        Ok(Box::new(backend.max_datagram(datagram)))
    }
}

#[cfg(feature = "dpdk")]
pub(crate) use there::{mtu, open};

#[cfg(not(feature = "dpdk"))]
mod absent {
    use super::{Backend, Failure, Settings, io};

    const WHY: &str = "this build has no backend `dpdk` (build with `--features dpdk`)";

    /// There is none.
    pub(crate) fn mtu(_: &[String; 2]) -> Result<usize, Failure> {
        Err(Failure::usage(WHY))
    }

    /// There is none: the other end has the backend, and this one has not.
    pub(crate) fn open(_: &[String; 2], _: &Settings, _: u32) -> io::Result<Box<dyn Backend>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, WHY))
    }
}

#[cfg(not(feature = "dpdk"))]
pub(crate) use absent::{mtu, open};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::latency;

    /// The devices of `bench latency --backend dpdk` with these options, if the variable says that.
    fn devices(options: &str, variable: Option<&str>) -> Result<[String; 2], String> {
        let common = latency(&format!("--backend dpdk {options}"));
        let devices = of_either(&common, || variable.map(str::to_owned)).map_err(|error| error.to_string())?;
        Ok(devices.unwrap())
    }

    #[test]
    fn both_ends_of_a_memif_are_completed() {
        let of = |device: &str| devices(&format!("--device {device}"), None).unwrap();
        let socket = env::temp_dir().join(format!("hikyaku-bench-{}.memif", process::id()));
        let own = ["server", "client"].map(|role| format!("memif:socket={},role={role}", socket.display()));
        assert_eq!(of("memif"), own);
        assert_eq!(of("memif:rsize=8"), own.clone().map(|device| device + ",rsize=8"));
        assert_eq!(of("memif,rsize=8"), own.clone().map(|device| device + ",rsize=8"));
        // The end that cannot do without copies does not hear of it.
        let [server, client] = own;
        assert_eq!(of("memif:zero-copy=yes"), [server, client + ",zero-copy=yes"]);
        assert_eq!(
            of("memif:id=1,role=client,socket=/s+memif:role=server,socket=/s"),
            ["memif:socket=/s,role=client,id=1", "memif:socket=/s,role=server"]
        );
        assert_eq!(of("ring+af_packet:iface=eth0"), ["ring", "af_packet:iface=eth0"]);
        assert!(!is_wired(&of("af_packet:iface=eth0")) && !is_wired(&of("memif")));
        let wired = of("af_packet:qpairs=1");
        assert_eq!(
            wired,
            ["af_packet:iface=wire,qpairs=1", "af_packet:iface=wire,qpairs=1"]
        );
        assert!(is_wired(&wired) && is_wired(&of("af_xdp")));
    }

    #[test]
    fn values_of_a_memif_may_have_colons() {
        assert_eq!(
            devices("--device memif:socket=/run/a:b/s,mac=02:00:00:00:00:01", None).unwrap(),
            ["server", "client"].map(|role| format!("memif:socket=/run/a:b/s,role={role},mac=02:00:00:00:00:01"))
        );
    }

    /// Wherever the device is named.
    #[test]
    fn a_link_without_copies_has_no_other_beside_it() {
        let name = "memif:zero-copy=yes";
        let option = devices(&format!("--vs memif --device {name}"), None).unwrap_err();
        let variable = devices("--vs memif", Some(name)).unwrap_err();
        assert!(option.contains("one link without copies"), "{option}");
        assert_eq!(option, variable);
        assert!(devices("--vs tcp", Some(name)).is_ok());
        // The option is before the variable.
        assert!(devices("--vs memif --device memif", Some(name)).is_ok());
        assert!(devices("", None).unwrap_err().contains("--device"));
    }
}
