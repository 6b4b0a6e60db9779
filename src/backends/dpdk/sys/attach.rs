//! Payload that is sent from where it lies: packets refer to memory of the caller.
#![expect(
    unsafe_code,
    reason = "foreign calls, and memory that they refer to for as long as a scope"
)]

use std::{cell::UnsafeCell, marker::PhantomData, mem};

use dpdk_sys as sys;

use super::{Packet, Pool};
use crate::span::Span;

/// Counts the packets that refer to memory of a caller.
pub(in crate::backends::dpdk) struct Attached {
    /// Boxed, because packets know its address.
    shared: Box<UnsafeCell<sys::rte_mbuf_ext_shared_info>>,
}

// SAFETY: what DPDK changes in it is an atomic counter.
unsafe impl Send for Attached {}

/// While this lives, packets may refer to what lives as long as `'env`.
pub(in crate::backends::dpdk) struct Scope<'scope, 'env> {
    attached: &'scope Attached,
    /// Neither longer nor shorter than it is.
    env: PhantomData<&'env mut &'env ()>,
}

impl Attached {
    pub(in crate::backends::dpdk) fn new() -> Self {
        // SAFETY: plain integers and pointers, which may be zero; DPDK fills it in.
        let shared: Box<UnsafeCell<sys::rte_mbuf_ext_shared_info>> =
            Box::new(UnsafeCell::new(unsafe { mem::zeroed() }));
        // SAFETY: it may be written.
        unsafe { sys::dpdk_share(shared.get()) };
        Self { shared }
    }

    /// Runs `send`, which may attach memory to packets, and by whose end all of those packets have been sent or given
    /// back. A device that keeps them longer must not be used with this; if one does so, the process ends, because the
    /// memory may be used for something else from then on.
    pub(in crate::backends::dpdk) fn scope<'env, R>(&self, send: impl FnOnce(&Scope<'_, 'env>) -> R) -> R {
        let scope = Scope {
            attached: self,
            env: PhantomData,
        };
        send(&scope)
    }
}

impl<'env> Scope<'_, 'env> {
    /// Puts `payload` behind the bytes of `packet`, which is in one segment, with a buffer of `pool` that refers to it.
    /// `false`: there is no buffer.
    #[inline]
    pub(in crate::backends::dpdk) fn attach(&self, packet: &mut Packet, pool: &Pool, payload: Span<'env>) -> bool {
        let Ok(len) = u16::try_from(payload.len()) else {
            return false;
        };
        let bytes = payload.as_ptr().cast_mut().cast();
        // SAFETY: packet and pool are ours. The bytes can be read for longer than the scope, at whose end nothing refers to
        // them any more (see `Drop`); packets that are sent are only read, by the device.
        unsafe { sys::dpdk_attach(packet.mbuf(), pool.raw, bytes, len, self.attached.shared.get()) == 0 }
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: it lives as long as `attached`.
        if unsafe { sys::dpdk_shared(self.attached.shared.get()) } != 0 {
            std::process::abort();
        }
    }
}
