#![expect(unsafe_code, reason = "the other side of the comparison is written in C")]
//! DPDK by itself: messages as frames with a fixed header, written in C (`memif.c`). A link that is memory loses nothing,
//! so there is nothing to send again, and frames come in order.

use std::{
    ffi::{CString, c_char, c_int},
    io, ptr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use ::hikyaku::{backends::dpdk::DpdkOptions, environment::Environment};

use crate::{
    machine::clock,
    transports::{
        device,
        link::{Hub, Spoke},
        settings::{Offer, Settings},
        sizes::{Messages, Sizes},
        timeout::{TIMEOUT, timed_out},
    },
};

/// Bytes of headers between an IP packet and the datagram in it.
const OVERHEAD: usize = 28;
/// How long a client waits for its server.
const START: Duration = Duration::from_secs(10);

/// `struct bare` of `memif.c`.
#[repr(C)]
struct Bare {
    pool: *mut u8,
    port: u16,
    payload: u16,
}

unsafe extern "C" {
    fn bare_open(bare: *mut Bare, device: *const c_char, arguments: *const c_char, mtu: u16, descriptors: u16)
    -> c_int;
    fn bare_start(bare: *const Bare) -> c_int;
    fn bare_is_up(bare: *const Bare) -> c_int;
    fn bare_close(bare: *const Bare, device: *const c_char);
    fn bare_send(bare: *const Bare, message: *const u8, size: u32) -> c_int;
    fn bare_receive(bare: *const Bare, to: *mut u8, size: u32) -> c_int;
}

fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ if result == -nix::libc::ETIMEDOUT => Err(timed_out("bare frames")),
        _ => Err(io::Error::from_raw_os_error(-result)),
    }
}

/// An open device.
struct Port {
    bare: Bare,
    device: CString,
    /// Payload is copied from and to the application's memory; else it is not looked at.
    copies: bool,
    place: Vec<u8>,
}

impl Port {
    fn open(settings: &Settings, processor: u32, copies: bool) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let devices = settings.devices.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // Another socket than that of the transport that is compared with it.
        let suffix = if copies { "copying" } else { "bare" };
        let device = &devices[processor.min(1) as usize];
        let arguments = device::memif_arguments(device, suffix)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "bare frames go over memif only"))?;
        let mtu = (settings.datagram + OVERHEAD) as u16;
        let buffer = (usize::from(mtu) + 18).next_multiple_of(64).max(2048);
        let options =
            DpdkOptions::from_environment(&Environment::of_process(), Some(device)).map_err(io::Error::other)?;
        let descriptors = options.queue_size();
        let arguments = format!("{arguments},bsize={buffer},rsize={}", descriptors.ilog2());
        let device = CString::new(format!("net_memif_bare{}", NEXT.fetch_add(1, Ordering::Relaxed)))?;
        let arguments = CString::new(arguments)?;
        let mut bare = Bare {
            pool: ptr::null_mut(),
            port: 0,
            payload: 0,
        };
        // SAFETY: a struct as C has it, which may be written, and C strings, of which DPDK makes copies. DPDK has been
        // started by the backend that is compared with this.
        check(unsafe { bare_open(&mut bare, device.as_ptr(), arguments.as_ptr(), mtu, descriptors) })?;
        let this = Self {
            bare,
            device,
            copies,
            place: Vec::new(),
        };
        this.start()?;
        Ok(this)
    }

    fn start(&self) -> io::Result<()> {
        let until = clock::now() + START.as_nanos() as u64;
        loop {
            // SAFETY: the port is open.
            match check(unsafe { bare_start(&self.bare) }) {
                Ok(()) => return Ok(()),
                Err(error) if clock::now() > until => return Err(error),
                Err(_) => clock::pause(Duration::from_millis(20)),
            }
        }
    }

    /// Waits for the other end.
    fn wait(&self) -> io::Result<()> {
        let until = clock::now() + TIMEOUT.as_nanos() as u64;
        // SAFETY: the port is started.
        while unsafe { bare_is_up(&self.bare) } == 0 {
            if clock::now() > until {
                return Err(timed_out("the other end of a bare memif"));
            }
            clock::pause(Duration::from_millis(1));
        }
        Ok(())
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        let data = if self.copies { message.as_ptr() } else { ptr::null() };
        // SAFETY: the port is started and used by this thread only; `message` has so many bytes.
        check(unsafe { bare_send(&self.bare, data, message.len() as u32) })
    }

    /// Gives the message. Without copying, it holds what the memory held before.
    fn receive(&mut self, size: usize) -> io::Result<&[u8]> {
        if self.place.len() < size {
            self.place.resize(size, 0);
        }
        let to = if self.copies {
            self.place.as_mut_ptr()
        } else {
            ptr::null_mut()
        };
        // SAFETY: the port is started and used by this thread only; there is room for so many bytes.
        check(unsafe { bare_receive(&self.bare, to, size as u32) })?;
        Ok(&self.place[..size])
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the port is open and is not used after this.
        unsafe { bare_close(&self.bare, self.device.as_ptr()) };
    }
}

/// Both ends.
pub(crate) struct Memif(Port);

impl Memif {
    /// Opens the end of this processor (0: the hub's).
    pub(crate) fn open(settings: &Settings, processor: u32, copies: bool) -> io::Result<Self> {
        Port::open(settings, processor, copies).map(Self)
    }
}

impl Hub for Memif {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer::default())
    }

    fn join(&mut self, _spoke: &Offer) -> io::Result<()> {
        self.0.wait()
    }

    fn echo(&mut self, sizes: &Sizes, count: usize, _spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        for _ in 0..count {
            self.0.receive(size)?;
            self.0.send(&self.0.place[..size])?;
        }
        Ok(())
    }

    fn sink(&mut self, sizes: &Sizes, window: usize, count: usize, _spokes: usize) -> io::Result<()> {
        let size = sizes.same()?;
        for _ in 0..count / window {
            for _ in 0..window {
                self.0.receive(size)?;
            }
            self.0.send(&[1])?;
        }
        Ok(())
    }
}

impl Spoke for Memif {
    fn offer(&self) -> io::Result<Offer> {
        Ok(Offer::default())
    }

    fn ready(&mut self) -> io::Result<()> {
        self.0.wait()
    }

    fn ping(&mut self, message: &[u8], seen: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.0.send(message)?;
        let copies = self.0.copies;
        let echo = self.0.receive(message.len())?;
        // Payload that was not copied is not here to be checked.
        seen(if copies { echo } else { message });
        Ok(())
    }

    fn stream(&mut self, messages: &Messages, window: usize, _spokes: usize) -> io::Result<()> {
        let message = messages.same()?;
        for _ in 0..window {
            self.0.send(message)?;
        }
        self.0.receive(1).map(drop)
    }
}
