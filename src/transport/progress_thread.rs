//! A helper thread that makes progress while the application computes.
//!
//! The thread sleeps on a timer. If no other thread has made a pass by the time it wakes up, and none holds the lock,
//! it makes one pass. It never waits for the lock and never sleeps with it, so it cannot be part of a deadlock. It
//! takes nothing from the application: messages and events stay until the program asks for them.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread::JoinHandle,
    time::Duration,
};

use super::{CloseError, ProgressThreadError, Transport};
use crate::helper;

struct Shared {
    /// `None` once closed.
    transport: Mutex<Option<Transport>>,
    /// Why the helper stopped, until it has been told.
    failure: Mutex<Option<ProgressThreadError>>,
    end: Mutex<bool>,
    bell: Condvar,
}

/// A [`Transport`] shared by several threads. A helper thread keeps acknowledging while none of them calls it.
///
/// ```
/// # #[cfg(feature = "udp")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use hikyaku::transport::Transport;
///
/// let transport = Transport::builder().bind("udp", "127.0.0.1:0")?;
/// let transport = transport.with_progress_thread(Duration::from_millis(1));
/// let address = transport.lock()?.local_addr();
/// // … compute for as long as it takes: peers are answered …
/// # let _ = address;
/// transport.close(Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "udp"))]
/// # fn main() {}
/// ```
///
/// A program takes the locks of several `SharedTransport` in one order, as with any locks. It should not hold a [`Guard`]
/// while it computes: the helper can do nothing meanwhile.
pub struct SharedTransport {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
}

impl fmt::Debug for SharedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTransport").finish_non_exhaustive()
    }
}

/// The locked transport.
pub struct Guard<'a>(MutexGuard<'a, Option<Transport>>);

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Deref for Guard<'_> {
    type Target = Transport;

    fn deref(&self) -> &Transport {
        match &*self.0 {
            Some(transport) => transport,
            None => unreachable!("only `close` and `into_inner` take it, and they take the handle too"),
        }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Transport {
        match &mut *self.0 {
            Some(transport) => transport,
            None => unreachable!("only `close` and `into_inner` take it, and they take the handle too"),
        }
    }
}

impl Transport {
    /// Starts a helper thread that makes progress whenever the program has made none for `interval`, so that peers get
    /// answers while the program computes.
    #[must_use]
    pub fn with_progress_thread(self, interval: Duration) -> SharedTransport {
        SharedTransport::new(self, interval)
    }
}

impl SharedTransport {
    fn new(transport: Transport, interval: Duration) -> Self {
        let shared = Arc::new(Shared {
            transport: Mutex::new(Some(transport)),
            failure: Mutex::new(None),
            end: Mutex::new(false),
            bell: Condvar::new(),
        });
        let helper = helper::spawn("hikyaku", {
            let shared = Arc::clone(&shared);
            move || help(&shared, interval)
        });
        let helper = match helper {
            Ok(helper) => Some(helper),
            Err(error) => {
                *lock(&shared.failure) = Some(ProgressThreadError::Thread(error));
                None
            }
        };
        Self { shared, helper }
    }

    /// Locks the transport for as long as the guard lives.
    ///
    /// # Errors
    /// The helper had to stop: its thread could not be started, or the backend has failed. The error is returned once;
    /// the transport can be locked again after that.
    pub fn lock(&self) -> Result<Guard<'_>, ProgressThreadError> {
        let guard = lock(&self.shared.transport);
        match lock(&self.shared.failure).take() {
            Some(failure) => Err(failure),
            None => Ok(Guard(guard)),
        }
    }

    /// Ends the helper and gives the transport back.
    ///
    /// # Errors
    /// The helper had to stop, see [`lock`](Self::lock).
    pub fn into_inner(mut self) -> Result<Transport, ProgressThreadError> {
        self.end();
        let transport = lock(&self.shared.transport).take();
        match (lock(&self.shared.failure).take(), transport) {
            (Some(failure), _) => Err(failure),
            (None, Some(transport)) => Ok(transport),
            (None, None) => unreachable!("nothing but this takes it"),
        }
    }

    /// Ends the helper and closes the transport: see [`Transport::close`]. Whether there was a helper makes no
    /// difference.
    ///
    /// # Errors
    /// See [`Transport::close`].
    pub fn close(mut self, linger: impl Into<Option<Duration>>) -> Result<(), CloseError> {
        self.end();
        if let Some(ProgressThreadError::Backend(error)) = lock(&self.shared.failure).take() {
            return Err(error.into());
        }
        match lock(&self.shared.transport).take() {
            Some(transport) => transport.close(linger),
            None => unreachable!("nothing but this takes it"),
        }
    }

    fn end(&mut self) {
        *lock(&self.shared.end) = true;
        self.shared.bell.notify_one();
        if let Some(helper) = self.helper.take() {
            // It does not panic, and if it did there would be nothing to do about it here.
            let _ = helper.join();
        }
    }
}

impl Drop for SharedTransport {
    fn drop(&mut self) {
        self.end();
    }
}

/// Locks a mutex. A thread that panicked with the lock left the value as it was between two calls.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn help(shared: &Shared, interval: Duration) {
    let mut seen = None;
    loop {
        let end = lock(&shared.end);
        let waited = shared.bell.wait_timeout_while(end, interval, |end| !*end);
        let end = *waited.unwrap_or_else(PoisonError::into_inner).0;
        if end {
            return;
        }
        let mut transport = match shared.transport.try_lock() {
            Ok(transport) => transport,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The thread that holds it makes progress, or will be told not to compute with it.
            Err(TryLockError::WouldBlock) => continue,
        };
        let Some(transport) = &mut *transport else {
            return;
        };
        if seen == Some(transport.passes())
            && let Err(error) = transport.assist()
        {
            *lock(&shared.failure) = Some(ProgressThreadError::Backend(error));
            return;
        }
        seen = Some(transport.passes());
    }
}
