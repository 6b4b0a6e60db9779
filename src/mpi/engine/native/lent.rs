//! What requests would keep alive each by itself, kept once for all of them.

use std::{any::Any, sync::Arc};

/// What is lent: it does not matter here what that is.
pub(in super::super) trait Share: Any + Send + Sync {}

impl<T: Any + Send + Sync> Share for T {}

/// It is kept alive by this.
pub(in super::super) type Kept = Arc<dyn Any + Send + Sync>;

/// The home of requests, their communicator, is kept alive here as long as one of them is pending: to count the references
/// of each takes as long as to receive a message of a few bytes.
#[derive(Default)]
pub(super) struct Lent {
    home: Option<Kept>,
    /// Where it is, and the requests to which it is lent.
    at: usize,
    requests: u32,
}

impl Lent {
    /// Lends it to a request, which has to [give it back](Self::give_back). Returns whether it does: it does not if the home of
    /// others is lent now.
    #[inline(always)]
    pub(super) fn lend<T: Share>(&mut self, home: &Arc<T>) -> bool {
        let at = Arc::as_ptr(home).addr();
        if self.requests > 0 {
            let is_it = self.at == at;
            self.requests += u32::from(is_it);
            return is_it;
        }
        self.home = Some(Arc::clone(home) as Kept);
        (self.at, self.requests) = (at, 1);
        true
    }

    /// So many requests have given it back. The caller drops what is not lent any more, without the lock.
    #[inline(always)]
    pub(super) fn give_back(&mut self, requests: u32) -> Option<Kept> {
        self.requests -= requests;
        if requests == 0 || self.requests > 0 {
            return None;
        }
        self.home.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_kept_until_the_last_request_has_given_it_back() {
        let (mut lent, one, other) = (Lent::default(), Arc::new(1), Arc::new(2));
        assert!(lent.lend(&one) && lent.lend(&one));
        assert!(!lent.lend(&other));
        assert_eq!(Arc::strong_count(&one), 2);
        assert!(lent.give_back(0).is_none() && lent.give_back(1).is_none());
        drop(lent.give_back(1));
        assert_eq!(Arc::strong_count(&one), 1);
        assert!(lent.lend(&other));
        drop(lent.give_back(1));
        assert_eq!(Arc::strong_count(&other), 1);
    }
}
