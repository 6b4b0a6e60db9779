//! A port and its queues.
#![expect(unsafe_code, reason = "foreign calls")]

use std::{
    ffi::{CStr, c_void},
    io, mem, ptr,
    sync::{Arc, mpsc},
    time::Duration,
};

use dpdk_sys as sys;

use super::{
    BURST, Burst, DEVICES, Devices, Found, Packet, Pool, c_string, check, connections::Connections, pid_override,
};
use crate::backends::dpdk::{error::DpdkError, ethernet::Mac, sleep::pause};

/// Bytes of a frame besides the packet: the header and the check sequence.
const FRAME: u32 = 18;
/// The other end of a link may take so long to notice that this one is there.
const LINK: Duration = Duration::from_secs(2);
/// Between two looks at a link.
const SLEEP: Duration = Duration::from_millis(1);
/// DPDK's own thread has other things to do, none of which takes long.
const ERRAND: Duration = Duration::from_secs(10);

/// Counters of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::backends::dpdk) struct Counters {
    pub(in crate::backends::dpdk) received: u64,
    pub(in crate::backends::dpdk) sent: u64,
    pub(in crate::backends::dpdk) missed: u64,
    pub(in crate::backends::dpdk) receive_errors: u64,
    pub(in crate::backends::dpdk) send_errors: u64,
    pub(in crate::backends::dpdk) no_buffer: u64,
}

/// Settings of a port.
pub(in crate::backends::dpdk) struct Setup<'a> {
    /// DPDK's name of the device.
    pub(in crate::backends::dpdk) device: &'a str,
    /// Arguments of a device to be made; `None`: it is there.
    pub(in crate::backends::dpdk) arguments: Option<&'a str>,
    pub(in crate::backends::dpdk) mtu: u16,
    /// Of each queue.
    pub(in crate::backends::dpdk) descriptors: u16,
    /// Queues in each direction.
    pub(in crate::backends::dpdk) queues: u16,
    /// Packets that are received in one go.
    pub(in crate::backends::dpdk) burst: usize,
    /// The first of them, over which the port spreads what no rule steers.
    pub(in crate::backends::dpdk) spread: u16,
    /// Let the port compute UDP checksums if it can.
    pub(in crate::backends::dpdk) offload: bool,
    /// Packets to send may have several segments.
    pub(in crate::backends::dpdk) segments: bool,
    /// It joins another end, which has to be there and may refuse it.
    pub(in crate::backends::dpdk) joins: bool,
    pub(in crate::backends::dpdk) receive: Arc<Pool>,
    pub(in crate::backends::dpdk) send: Arc<Pool>,
    /// The last queues are for other processes, and receive into these pools.
    pub(in crate::backends::dpdk) guests: Vec<Arc<Pool>>,
}

impl Setup<'_> {
    /// The device with its arguments, for people.
    fn words(&self) -> String {
        match self.arguments {
            Some(arguments) => format!("{},{arguments}", self.device),
            None => self.device.to_owned(),
        }
    }
}

/// A started port. It is stopped and closed when it and all of its queues are dropped.
pub(in crate::backends::dpdk) struct Port {
    id: u16,
    device: String,
    /// Its name with its arguments, for people.
    words: String,
    /// Made here, so to be taken away.
    made: bool,
    /// Another process has opened it, and closes it.
    borrowed: bool,
    /// It computes UDP checksums.
    pub(in crate::backends::dpdk) offload: bool,
    /// Packets that wait in each of its queues until they are received.
    pub(in crate::backends::dpdk) descriptors: u16,
    /// Queues in each direction.
    pub(in crate::backends::dpdk) queues: u16,
    /// It hashes addresses and ports to spread packets over its queues.
    pub(in crate::backends::dpdk) hashes: bool,
    /// Places in the table from hashes to queues; 0: it has none.
    table: u16,
    pub(in crate::backends::dpdk) mac: Mac,
    /// The driver's name.
    pub(in crate::backends::dpdk) driver: String,
    /// Kept because the driver has mbufs of them.
    pools: Vec<Arc<Pool>>,
}

/// A queue out of which packets come.
pub(in crate::backends::dpdk) struct ReceiveQueue {
    /// The port's number.
    id: u16,
    index: u16,
    /// Packets that are received in one go, at most [`BURST`].
    most: u16,
    /// Kept as long as this.
    _port: Arc<Port>,
}

/// A queue into which packets go.
pub(in crate::backends::dpdk) struct SendQueue {
    /// The port's number.
    id: u16,
    index: u16,
    /// The port's number of it.
    number: u16,
    /// Kept as long as this.
    _port: Arc<Port>,
}

/// A started port with all of its queues.
pub(in crate::backends::dpdk) struct Opened {
    pub(in crate::backends::dpdk) port: Arc<Port>,
    pub(in crate::backends::dpdk) receive: Vec<ReceiveQueue>,
    pub(in crate::backends::dpdk) send: Vec<SendQueue>,
}

impl Port {
    /// Makes the device, sets it up and starts it. `again` is asked whether to try once more when it does not start, or is
    /// refused by the other end.
    pub(in crate::backends::dpdk) fn open(
        setup: &Setup<'_>,
        again: &mut dyn FnMut() -> bool,
    ) -> Result<Opened, DpdkError> {
        let devices = super::lock(&DEVICES);
        devices.check()?;
        let id = attach(setup)?;
        drop(devices);
        let mut this = Self {
            id,
            device: setup.device.to_owned(),
            words: setup.words(),
            made: setup.arguments.is_some(),
            borrowed: false,
            offload: false,
            descriptors: 0,
            queues: setup.queues - setup.guests.len() as u16,
            hashes: false,
            table: 0,
            mac: [0; 6],
            driver: String::new(),
            pools: [&setup.receive, &setup.send]
                .into_iter()
                .chain(&setup.guests)
                .map(Arc::clone)
                .collect(),
        };
        // From here on a failure drops it, which closes it.
        this.configure(setup)?;
        loop {
            match this.start(setup.joins) {
                Ok(_) if !setup.joins => break,
                Ok(control) => match this.join(control.as_ref()) {
                    Ok(()) => break,
                    Err(_) if again() => this.stop()?,
                    Err(source) => return Err(this.failed("joining the other end", source)),
                },
                Err(_) if again() => {}
                Err(source) => return Err(this.failed("starting", source)),
            }
        }
        // Questions for neighbours of IPv6 come to groups. Drivers that cannot choose let all through.
        // SAFETY: the port exists.
        let _ = unsafe { sys::rte_eth_allmulticast_enable(this.id) };
        if this.table > 0 && setup.spread < setup.queues {
            // SAFETY: the port has been started.
            check(unsafe { sys::dpdk_spread(this.id, this.table, setup.spread) })
                .map_err(|source| this.failed("spreading packets over its queues", source))?;
        }
        let port = Arc::new(this);
        let receive = (0..port.queues).map(|index| ReceiveQueue {
            id,
            index,
            most: setup.burst.min(BURST) as u16,
            _port: Arc::clone(&port),
        });
        let send = (0..port.queues).map(|index| SendQueue {
            id,
            index,
            number: index,
            _port: Arc::clone(&port),
        });
        Ok(Opened {
            receive: receive.collect(),
            send: send.collect(),
            port,
        })
    }

    /// Queues of a port that another process has opened, whose memory this one shares: `lanes` has the number of the queue
    /// to send and of that to receive for each queue here.
    pub(in crate::backends::dpdk) fn borrow(
        device: &str,
        lanes: &[[u16; 2]],
        descriptors: u16,
        burst: usize,
        pools: Vec<Arc<Pool>>,
    ) -> Result<Opened, DpdkError> {
        let failed = |source| DpdkError::Device {
            device: device.to_owned(),
            source,
        };
        let name = c_string(device);
        let mut id = 0;
        // SAFETY: a C string, and a number that may be written.
        check(unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) }).map_err(failed)?;
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: the port exists, and `mac` may be written.
        check(unsafe { sys::rte_eth_macaddr_get(id, &mut mac) }).map_err(failed)?;
        let port = Arc::new(Self {
            id,
            device: device.to_owned(),
            words: device.to_owned(),
            made: false,
            borrowed: true,
            offload: false,
            descriptors,
            queues: lanes.len() as u16,
            hashes: false,
            table: 0,
            mac: mac.addr_bytes,
            driver: String::new(),
            pools,
        });
        let receive = lanes.iter().map(|&[_, queue]| ReceiveQueue {
            id,
            index: queue,
            most: burst.min(BURST) as u16,
            _port: Arc::clone(&port),
        });
        let send = (0..).zip(lanes).map(|(index, &[queue, _])| SendQueue {
            id,
            index,
            number: queue,
            _port: Arc::clone(&port),
        });
        Ok(Opened {
            receive: receive.collect(),
            send: send.collect(),
            port,
        })
    }

    /// Another process has opened it.
    pub(in crate::backends::dpdk) fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// Takes the packets out of a queue of other processes that have ended, without giving their buffers back.
    pub(in crate::backends::dpdk) fn forget(&self, queue: u16) {
        let mut mbufs = [ptr::null_mut(); BURST];
        // SAFETY: the port is started, there is room for as many packets, and no process has the queue.
        while unsafe { sys::dpdk_rx_burst(self.id, queue, mbufs.as_mut_ptr(), BURST as u16) } > 0 {}
    }

    /// Starts it. Gives the connections that have come with it if it `joins` another end, and the kernel lists them.
    fn start(&self, joins: bool) -> io::Result<Option<Connections>> {
        // New devices here belong to this call.
        let _devices = super::lock(&DEVICES);
        let before = if joins { Connections::open() } else { None };
        // SAFETY: the port exists and its queues are set up.
        check(unsafe { sys::rte_eth_dev_start(self.id) })?;
        Ok(before.and_then(|before| Some(Connections::open()?.without(&before))))
    }

    /// Waits for the other end to let this one in, or to refuse it. After [`LINK`] that may still come.
    ///
    /// A memif is refused by a server that is not started yet, although its socket is there, and by one that has not yet
    /// noticed that another process has gone. DPDK never tries again, and does not report it.
    fn join(&self, control: Option<&Connections>) -> io::Result<()> {
        let mut left = LINK;
        while !self.is_up() && left > Duration::ZERO {
            let gone = control.is_some_and(|control| !control.are_there());
            if gone && !self.is_up() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            pause(SLEEP);
            left = left.saturating_sub(SLEEP);
        }
        Ok(())
    }

    /// Takes the rest of a link apart, so that it can be started anew.
    fn stop(&self) -> Result<(), DpdkError> {
        let id = self.id;
        // SAFETY: the port exists, and none of its queues is in use yet.
        let stop = move || unsafe {
            let _ = sys::rte_eth_dev_stop(id);
        };
        let mut devices = super::lock(&DEVICES);
        devices.errand(self, stop);
        devices.check()
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> DpdkError {
        DpdkError::Port {
            device: self.words.clone(),
            doing,
            source,
        }
    }

    fn configure(&mut self, setup: &Setup<'_>) -> Result<(), DpdkError> {
        let id = self.id;
        // SAFETY: plain data, of which all bytes may be zero; DPDK fills it in.
        let mut info: sys::rte_eth_dev_info = unsafe { mem::zeroed() };
        // SAFETY: the port exists, and `info` may be written.
        check(unsafe { sys::rte_eth_dev_info_get(id, &mut info) }).map_err(|e| self.failed("asking it", e))?;
        if !info.driver_name.is_null() {
            // SAFETY: a C string of the driver's, which stays.
            let name = unsafe { CStr::from_ptr(info.driver_name) };
            self.driver = name.to_string_lossy().into_owned();
        }
        let most = info.max_rx_queues.min(info.max_tx_queues);
        if setup.queues > most {
            return Err(DpdkError::Queues {
                device: self.words.clone(),
                wanted: setup.queues,
                most,
            });
        }
        let mut conf = sys::rte_eth_conf::default();
        self.offload = setup.offload && info.tx_offload_capa & sys::DPDK_TX_OFFLOAD_UDP_CHECKSUM != 0;
        if self.offload {
            conf.txmode.offloads |= sys::DPDK_TX_OFFLOAD_UDP_CHECKSUM;
        }
        if setup.segments {
            conf.txmode.offloads |= sys::DPDK_TX_OFFLOAD_MULTI_SEGS & info.tx_offload_capa;
        }
        conf.rxmode.offloads |= info.rx_offload_capa & sys::DPDK_RX_OFFLOAD_UDP_CHECKSUM;
        let hashes = [sys::DPDK_RSS_UDP, sys::DPDK_RSS_IP]
            .map(|hashes| hashes & info.flow_type_rss_offloads)
            .into_iter()
            .find(|hashes| *hashes != 0);
        // Nothing but what a rule steers may come to queues of other processes.
        let strays = !setup.guests.is_empty() && (setup.spread == 1 || info.reta_size == 0);
        if let Some(hashes) = hashes.filter(|_| setup.queues > 1 && !strays) {
            conf.rxmode.mq_mode = sys::DPDK_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = hashes;
            (self.hashes, self.table) = (true, info.reta_size);
        }
        // Virtual devices carry more than the frames of Ethernet that they tell of; their buffers are made for it.
        let told = info.max_rx_pktlen.saturating_sub(FRAME).min(info.max_mtu.into()).max(1);
        conf.rxmode.mtu = if self.made {
            u32::from(setup.mtu).min(told)
        } else {
            setup.mtu.into()
        };
        // SAFETY: the port exists and is not started; `conf` is only read.
        check(unsafe { sys::rte_eth_dev_configure(id, setup.queues, setup.queues, &conf) })
            .map_err(|e| self.failed("setting up as many queues (HIKYAKU_DPDK_QUEUES) in each direction", e))?;
        let (mut receive, mut send) = (setup.descriptors, setup.descriptors);
        // SAFETY: the port exists, and both numbers may be written.
        check(unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut receive, &mut send) })
            .map_err(|e| self.failed("choosing the length of its queues", e))?;
        for queue in 0..setup.queues {
            let guest = usize::from(queue).checked_sub(usize::from(self.queues));
            let pool = guest.map_or(&setup.receive, |index| &setup.guests[index]);
            // SAFETY: the port is configured with these queues, the pool lives as long as the port; null is the default.
            check(unsafe { sys::rte_eth_rx_queue_setup(id, queue, receive, 0, ptr::null(), pool.raw) })
                .map_err(|e| self.failed("setting up a receive queue", e))?;
            // SAFETY: as before.
            check(unsafe { sys::rte_eth_tx_queue_setup(id, queue, send, 0, ptr::null()) })
                .map_err(|e| self.failed("setting up a send queue", e))?;
        }
        self.descriptors = receive;
        // Drivers that know no MTU take what fits the buffers.
        // SAFETY: the port exists.
        match check(unsafe { sys::rte_eth_dev_set_mtu(id, conf.rxmode.mtu as u16) }) {
            Err(source) if source.raw_os_error() != Some(libc::ENOTSUP) => {
                return Err(self.failed("setting its MTU (HIKYAKU_DPDK_MTU)", source));
            }
            _ => {}
        }
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: the port exists, and `mac` may be written.
        check(unsafe { sys::rte_eth_macaddr_get(id, &mut mac) }).map_err(|e| self.failed("asking its address", e))?;
        self.mac = mac.addr_bytes;
        Ok(())
    }

    /// The other end is there, as far as the port knows, and how fast the link is, 10^6 bit/s.
    pub(in crate::backends::dpdk) fn link(&self) -> (bool, u32) {
        let mut link = sys::rte_eth_link::default();
        // SAFETY: the port exists, and `link` may be written.
        let result = unsafe { sys::rte_eth_link_get_nowait(self.id, &mut link) };
        (result == 0 && link.link_status() != 0, link.link_speed)
    }

    /// The other end is there, as far as the port knows.
    pub(in crate::backends::dpdk) fn is_up(&self) -> bool {
        self.link().0
    }

    /// Counters of the driver.
    pub(in crate::backends::dpdk) fn counters(&self) -> Counters {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the port exists, and `stats` may be written.
        if unsafe { sys::rte_eth_stats_get(self.id, &mut stats) } != 0 {
            return Counters::default();
        }
        Counters {
            received: stats.ipackets,
            sent: stats.opackets,
            missed: stats.imissed,
            receive_errors: stats.ierrors,
            send_errors: stats.oerrors,
            no_buffer: stats.rx_nombuf,
        }
    }

    /// The table from hashes to queues; empty if the port has none.
    pub(in crate::backends::dpdk) fn spread(&self) -> Vec<u16> {
        let mut queues = vec![0; self.table.into()];
        // SAFETY: the port exists, and `queues` has as many places as are said.
        match unsafe { sys::dpdk_spread_of(self.id, self.table, queues.as_mut_ptr()) } {
            0 => queues,
            _ => Vec::new(),
        }
    }
}

/// A rule of the port: datagrams to a UDP port come to a queue.
pub(in crate::backends::dpdk) struct Rule {
    port: Arc<Port>,
    raw: *mut sys::rte_flow,
}

// SAFETY: only ever used to take it away, once, under the lock of all devices.
unsafe impl Send for Rule {}

impl Rule {
    /// Steers datagrams over IP of `version` (4 or 6) to `udp_port` to `queue`.
    ///
    /// # Errors
    /// Why the port cannot; and whether it had nothing against the rule as such.
    pub(in crate::backends::dpdk) fn new(
        port: &Arc<Port>,
        version: u8,
        udp_port: u16,
        queue: u16,
    ) -> Result<Self, (io::Error, bool)> {
        let _devices = super::lock(&DEVICES);
        let (mut raw, mut valid) = (ptr::null_mut(), 0);
        // SAFETY: the port is started; both may be written.
        let result = unsafe { sys::dpdk_steer(port.id, version.into(), udp_port, queue, &mut raw, &mut valid) };
        check(result).map_err(|error| (error, valid != 0))?;
        Ok(Self {
            port: Arc::clone(port),
            raw,
        })
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        let _devices = super::lock(&DEVICES);
        // SAFETY: the rule is this one's, and the port exists as long.
        let _ = unsafe { sys::dpdk_unsteer(self.port.id, self.raw) };
    }
}

impl ReceiveQueue {
    /// Receives what is there, at most so many packets as were said at the start, into `packets`, which is empty.
    #[inline]
    pub(in crate::backends::dpdk) fn receive(&mut self, packets: &mut Burst) -> usize {
        // SAFETY: as `burst` says.
        unsafe { packets.fill(|mbufs| self.burst(mbufs)) }
    }

    /// The same, but a single packet is given away.
    #[inline]
    pub(in crate::backends::dpdk) fn receive_or_give(&mut self, packets: &mut Burst) -> Found {
        // SAFETY: as `burst` says.
        unsafe { packets.fill_or_give(|mbufs| self.burst(mbufs)) }
    }

    /// Receives mbufs, which then have no other owner, and returns how many.
    ///
    /// # Safety
    /// There is room for [`BURST`] of them.
    #[inline]
    unsafe fn burst(&mut self, mbufs: *mut *mut sys::rte_mbuf) -> usize {
        // SAFETY: the port is started, `self` is the only one with this queue, and `most` is not more than there is room.
        unsafe { sys::dpdk_rx_burst(self.id, self.index, mbufs, self.most).into() }
    }
}

impl SendQueue {
    /// Its number, which the receive queue that goes with it has too.
    pub(in crate::backends::dpdk) fn index(&self) -> u16 {
        self.index
    }

    /// Sends as many as the port takes, from the oldest; gives how many those are. The rest stays in `packets`.
    #[inline]
    pub(in crate::backends::dpdk) fn send(&mut self, packets: &mut Burst) -> usize {
        // SAFETY: the port is started, and `self` is the only one with this queue. Those that are taken belong to the port
        // from then on.
        unsafe { packets.take(|mbufs, count| sys::dpdk_tx_burst(self.id, self.number, mbufs, count as u16).into()) }
    }

    /// Sends one packet; gives it back if the port does not take it.
    #[inline]
    pub(in crate::backends::dpdk) fn send_one(&mut self, packet: Packet) -> Result<(), Packet> {
        let packet = mem::ManuallyDrop::new(packet);
        let mut mbuf = packet.mbuf();
        // SAFETY: the port is started, `self` is the only one with this queue, and the packet is ours. If it is taken, it
        // belongs to the port from then on, and is forgotten here.
        match unsafe { sys::dpdk_tx_burst(self.id, self.number, &mut mbuf, 1) } {
            0 => Err(mem::ManuallyDrop::into_inner(packet)),
            _ => Ok(()),
        }
    }
}

/// Finds the port of a device, making the device if it shall be made.
fn attach(setup: &Setup<'_>) -> Result<u16, DpdkError> {
    let device = c_string(setup.device);
    let failed = |source| DpdkError::Device {
        device: setup.words(),
        source,
    };
    if let Some(arguments) = setup.arguments {
        make(&device, &c_string(arguments)).map_err(failed)?;
    }
    let mut id = 0;
    // SAFETY: a C string, and a number that may be written.
    let found = check(unsafe { sys::rte_eth_dev_get_port_by_name(device.as_ptr(), &mut id) });
    found.map_err(|source| {
        if setup.arguments.is_some() {
            // SAFETY: it has just been made, and has no port that could be in use.
            unsafe { sys::rte_vdev_uninit(device.as_ptr()) };
        }
        failed(source)
    })?;
    Ok(id)
}

/// Makes a device.
///
/// That of packet sockets gives the kernel a number for the group of its sockets, made of the interface's and the process
/// id, and is refused if another host in the network has come to the same one: two ranks on one host, one time in some
/// dozens. So it gets other process ids to try with.
fn make(device: &CStr, arguments: &CStr) -> io::Result<()> {
    const TRIES: usize = 4;
    // SAFETY: C strings, of which DPDK makes copies.
    let make = || check(unsafe { sys::rte_vdev_init(device.as_ptr(), arguments.as_ptr()) });
    let mut made = make();
    for _ in 0..TRIES {
        if made.is_ok() || !device.to_bytes().starts_with(b"net_af_packet") {
            break;
        }
        made = pid_override::run(make).unwrap_or(made);
    }
    made
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.borrowed {
            return;
        }
        let (id, device, made, pools) = (self.id, c_string(&self.device), self.made, self.pools.clone());
        let close = move || {
            // SAFETY: the port exists and is not used elsewhere; stopping one that has not started is an error without
            // consequences. Closing gives the mbufs in its queues back to the pools, which are dropped after this.
            unsafe {
                let _ = sys::rte_eth_dev_stop(id);
                let _ = sys::rte_eth_dev_close(id);
                if made {
                    let _ = sys::rte_vdev_uninit(device.as_ptr());
                }
            }
            drop(pools);
        };
        let mut devices = super::lock(&DEVICES);
        if devices.check().is_err() {
            // That thread may be at it now: no other thread closes anything. So the port stays as it is, and has its pools.
            mem::forget(close);
        } else if self.driver == "net_memif" {
            devices.errand(self, close);
        } else {
            close();
        }
    }
}

impl Devices {
    /// Returns whether devices can still come and go.
    fn check(&self) -> Result<(), DpdkError> {
        match &self.stuck {
            Some(device) => Err(DpdkError::Stuck { device: device.clone() }),
            None => Ok(()),
        }
    }

    /// Takes a memif's link apart.
    ///
    /// When the other end goes, DPDK's own thread takes the link apart. If that happened while it is done here, both would
    /// free the same memory: so the same thread does both.
    fn errand(&mut self, port: &Port, errand: impl FnOnce() + Send + 'static) {
        // Something may have been reported of the connection that is closed now, and would be looked for in the next one
        // that gets the same number. Another errand comes after all that was reported before it.
        let done = on_dpdks_thread(ERRAND, errand) && on_dpdks_thread(ERRAND, || ());
        if !done {
            self.stuck = Some(port.words.clone());
        }
    }
}

type Errand = Box<dyn FnOnce() + Send>;

/// Does something on the thread of DPDK's that also looks after control connections, and waits until it is done, but no
/// longer than `limit`. `false`: it will be done later, or never.
fn on_dpdks_thread(limit: Duration, errand: impl FnOnce() + Send + 'static) -> bool {
    let (done, wait) = mpsc::channel();
    let errand: Errand = Box::new(move || {
        errand();
        // A thread waits below, or has given up.
        let _ = done.send(());
    });
    let errand = Box::into_raw(Box::new(errand));
    // Alarms are rung by that thread; a microsecond is the shortest time.
    // SAFETY: the function takes this pointer, and takes what it points to over.
    if unsafe { sys::rte_eal_alarm_set(1, Some(run), errand.cast()) } != 0 {
        // No memory for an alarm: better here than not at all.
        // SAFETY: no other code has got it.
        unsafe { run(errand.cast()) };
    }
    wait.recv_timeout(limit).is_ok()
}

/// # Safety
/// `errand` is an [`Errand`] in a box, which is used for nothing else any more.
unsafe extern "C" fn run(errand: *mut c_void) {
    // SAFETY: by the contract.
    let errand = unsafe { Box::from_raw(errand.cast::<Errand>()) };
    errand();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpdks_thread_is_not_waited_for_without_end() {
        crate::backends::dpdk::tests::start();
        let (go_on, busy) = mpsc::channel::<()>();
        let (done, late) = mpsc::channel();
        let soon = Duration::from_millis(1);
        assert!(!on_dpdks_thread(soon, move || busy.recv().unwrap()));
        assert!(!on_dpdks_thread(soon, move || done.send(()).unwrap()));
        go_on.send(()).unwrap();
        // What was given up is done all the same.
        late.recv_timeout(ERRAND).unwrap();
        assert!(on_dpdks_thread(ERRAND, || ()));
    }
}
