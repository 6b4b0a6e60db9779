//! Backends around backends.

/// Writes methods of [`Backend`](crate::backends::Backend) that only call the same method of another backend, for an
/// implementation that wraps it. Without names, it writes all methods.
///
/// ```
/// use hikyaku::{
///     backends::{Backend, Sent, Transmit},
///     forward_backend,
///     time::Instant,
/// };
///
/// /// Loses everything that it is told to send.
/// struct Mute<B>(B);
///
/// impl<B: Backend> Backend for Mute<B> {
///     forward_backend!(self => self.0; name, capabilities, local_addr, receive, received, wait, stats, poll_notices,
///         as_fd, descriptors, next_deadline, ports, neighbours);
///
///     fn transmit(&mut self, _: Instant, _: &Transmit<'_>) -> std::io::Result<Sent> {
///         Ok(Sent::All)
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! forward_backend {
    ($self:ident => $inner:expr) => {
        $crate::forward_backend!($self => $inner; name, capabilities, local_addr, transmit, receive,
            received, wait, stats, poll_notices, as_fd, descriptors, next_deadline, ports, neighbours);
    };
    ($self:ident => $inner:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_backend!(@ $method $self $inner);)+
    };
    (@ name $self:ident $inner:expr) => {
        fn name(&$self) -> &'static str {
            $inner.name()
        }
    };
    (@ capabilities $self:ident $inner:expr) => {
        fn capabilities(&$self) -> $crate::backends::Capabilities {
            $inner.capabilities()
        }
    };
    (@ local_addr $self:ident $inner:expr) => {
        fn local_addr(&$self) -> ::std::net::SocketAddr {
            $inner.local_addr()
        }
    };
    (@ transmit $self:ident $inner:expr) => {
        fn transmit(
            &mut $self,
            now: $crate::time::Instant,
            transmit: &$crate::backends::Transmit<'_>,
        ) -> ::std::io::Result<$crate::backends::Sent> {
            $inner.transmit(now, transmit)
        }
    };
    (@ receive $self:ident $inner:expr) => {
        fn receive(&mut $self, now: $crate::time::Instant, budget: usize) -> ::std::io::Result<usize> {
            $inner.receive(now, budget)
        }
    };
    (@ received $self:ident $inner:expr) => {
        fn received(&mut $self, index: usize) -> $crate::backends::Received<'_> {
            $inner.received(index)
        }
    };
    (@ wait $self:ident $inner:expr) => {
        fn wait(&mut $self, timeout: Option<::std::time::Duration>) -> ::std::io::Result<$crate::backends::Wake> {
            $inner.wait(timeout)
        }
    };
    (@ as_fd $self:ident $inner:expr) => {
        fn as_fd(&$self) -> Option<::std::os::fd::BorrowedFd<'_>> {
            $inner.as_fd()
        }
    };
    (@ descriptors $self:ident $inner:expr) => {
        fn descriptors(&$self) -> ::std::vec::Vec<::std::os::fd::BorrowedFd<'_>> {
            $inner.descriptors()
        }
    };
    (@ next_deadline $self:ident $inner:expr) => {
        fn next_deadline(&$self) -> Option<$crate::time::Instant> {
            $inner.next_deadline()
        }
    };
    (@ stats $self:ident $inner:expr) => {
        fn stats(&$self) -> $crate::backends::BackendStats {
            $inner.stats()
        }
    };
    (@ poll_notices $self:ident $inner:expr) => {
        fn poll_notices(&mut $self, each: &mut dyn FnMut($crate::backends::Notice<'_>)) {
            $inner.poll_notices(each);
        }
    };
    (@ ports $self:ident $inner:expr) => {
        fn ports(&$self) -> &[::std::boxed::Box<dyn $crate::backends::Backend>] {
            $inner.ports()
        }
    };
    (@ neighbours $self:ident $inner:expr) => {
        fn neighbours(&mut $self) -> Option<&mut dyn $crate::backends::Neighbours> {
            $inner.neighbours()
        }
    };
}
