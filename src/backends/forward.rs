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
///     forward_backend!(self => self.0; name, capabilities, is_link, link_beside, local_addr, reclaim, receive, received, record,
///         take, wait, link_address, introduce, meet, poll_unreachable, as_fd, next_deadline, stats);
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
        $crate::forward_backend!($self => $inner; name, capabilities, is_link, link_beside, local_addr, transmit, reclaim,
            receive, received, record, take, wait, link_address, introduce, meet, poll_unreachable, as_fd, next_deadline, stats);
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
    (@ is_link $self:ident $inner:expr) => {
        fn is_link(&$self) -> bool {
            $inner.is_link()
        }
    };
    (@ link_beside $self:ident $inner:expr) => {
        fn link_beside(&$self) -> Option<$crate::backends::Capabilities> {
            $inner.link_beside()
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
    (@ reclaim $self:ident $inner:expr) => {
        fn reclaim(&mut $self, free: &mut dyn FnMut(u64)) {
            $inner.reclaim(free);
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
    (@ record $self:ident $inner:expr) => {
        fn record(&mut $self, index: usize) -> Option<$crate::backends::Span<'_>> {
            $inner.record(index)
        }
    };
    (@ take $self:ident $inner:expr) => {
        fn take(&mut $self, index: usize) -> ::bytes::Bytes {
            $inner.take(index)
        }
    };
    (@ wait $self:ident $inner:expr) => {
        fn wait(&mut $self, timeout: Option<::std::time::Duration>) -> ::std::io::Result<$crate::backends::Wake> {
            $inner.wait(timeout)
        }
    };
    (@ link_address $self:ident $inner:expr) => {
        fn link_address(&$self) -> Vec<u8> {
            $inner.link_address()
        }
    };
    (@ introduce $self:ident $inner:expr) => {
        fn introduce(&mut $self, address: ::std::net::SocketAddr, link: &[u8]) -> ::std::io::Result<()> {
            $inner.introduce(address, link)
        }
    };
    (@ meet $self:ident $inner:expr) => {
        fn meet(&mut $self) -> ::std::io::Result<$crate::backends::Met> {
            $inner.meet()
        }
    };
    (@ poll_unreachable $self:ident $inner:expr) => {
        fn poll_unreachable(&mut $self) -> Option<$crate::backends::Unreachable<'_>> {
            $inner.poll_unreachable()
        }
    };
    (@ as_fd $self:ident $inner:expr) => {
        fn as_fd(&$self) -> Option<::std::os::fd::BorrowedFd<'_>> {
            $inner.as_fd()
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
}
