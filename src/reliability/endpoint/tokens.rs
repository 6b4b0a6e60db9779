//! Secrets that strangers must not guess: those of sessions, and the cookies of challenges. All come from one key, which the
//! endpoint is given: nothing is drawn here, and nothing about a challenge is kept.

use core::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use crate::{
    siphash::siphash,
    wire::{Open, Token},
};

/// A cookie is good for this long at least, and for twice this long at most, ns.
pub(super) const COOKIE_TIME: u64 = 32_000_000_000;

/// The key of an endpoint's secrets. Never printed.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct TokenKey([u64; 2]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

/// The domain of a hash, so that one kind of secret cannot be taken for another.
#[repr(u64)]
enum Purpose {
    Session,
    Cookie,
}

impl TokenKey {
    pub(super) fn new(key: u128) -> Self {
        Self([key as u64, (key >> 64) as u64])
    }

    /// The secret of our token for a session with the peer at a place of the table. `session` is its number: no two are
    /// alike.
    pub(super) fn secret(self, index: u32, session: u64) -> u64 {
        siphash(self.0, &[Purpose::Session as u64, index.into(), session])
    }

    /// The token that a challenge asks an opener to repeat, from the address that the opening names.
    /// `begun`: sessions that have begun with the peer of that address.
    pub(super) fn cookie(self, now: u64, address: SocketAddr, begun: u64, open: &Open) -> Token {
        self.cookie_of_slot(now / COOKIE_TIME, address, begun, open)
    }

    /// That this is such a token, not too old.
    pub(super) fn is_cookie(self, token: Token, now: u64, address: SocketAddr, begun: u64, open: &Open) -> bool {
        let slot = now / COOKIE_TIME;
        token == self.cookie_of_slot(slot, address, begun, open)
            || slot > 0 && token == self.cookie_of_slot(slot - 1, address, begun, open)
    }

    fn cookie_of_slot(self, slot: u64, address: SocketAddr, begun: u64, open: &Open) -> Token {
        let (high, low) = match address.ip() {
            IpAddr::V4(ip) => (u64::MAX, ip.to_bits().into()),
            IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64, ip.to_bits() as u64),
        };
        let words = [
            Purpose::Cookie as u64,
            slot,
            high,
            low,
            address.port().into(),
            begun,
            open.epoch,
            open.token.index.into(),
            open.token.secret,
        ];
        Token {
            index: Token::COOKIE,
            secret: siphash(self.0, &words),
        }
    }
}

/// So many a second, evenly, and up to a tenth of a second's worth at once.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Budget {
    /// When the next would be, had they all come evenly, ns.
    next: u64,
}

impl Budget {
    const SECOND: u64 = 1_000_000_000;

    /// Takes one, if that is within the limit.
    pub(super) fn take(&mut self, now: u64, per_second: u32) -> bool {
        let Some(interval) = Self::SECOND.checked_div(per_second.into()) else {
            return false;
        };
        let next = self.next.max(now);
        let allowed = next <= now + Self::SECOND / 10;
        if allowed {
            self.next = next + interval.max(1);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Credit, Features};

    fn open(secret: u64) -> Open {
        Open {
            epoch: 7,
            token: Token { index: 1, secret },
            features: Features::empty(),
            credit: Credit { limit: 1, window: 1 },
            ack_delay: 0,
            max_datagram: 1_472,
            port: 0,
        }
    }

    #[test]
    fn every_session_has_its_own_secret() {
        let key = TokenKey::new(1 << 64 | 2);
        let secret = key.secret(3, 1);
        assert_ne!(secret, key.secret(3, 2));
        assert_ne!(secret, key.secret(4, 1));
        assert_ne!(secret, TokenKey::new(2).secret(3, 1), "all of the key counts");
        assert_ne!(secret, TokenKey::new(1 << 64).secret(3, 1), "all of the key counts");
    }

    #[test]
    fn a_cookie_is_for_one_opening_from_one_address_and_not_for_long() {
        let key = TokenKey::new(5);
        let here: SocketAddr = "10.0.0.1:4810".parse().unwrap();
        let there: SocketAddr = "10.0.0.1:4811".parse().unwrap();
        let at = 10 * COOKIE_TIME + COOKIE_TIME / 2;
        let cookie = key.cookie(at, here, 3, &open(9));
        assert!(key.is_cookie(cookie, at + COOKIE_TIME, here, 3, &open(9)));
        assert!(!key.is_cookie(cookie, at + 2 * COOKIE_TIME, here, 3, &open(9)));
        assert!(!key.is_cookie(cookie, at, there, 3, &open(9)));
        assert!(!key.is_cookie(cookie, at, here, 4, &open(9)), "the session has begun");
        assert!(!key.is_cookie(cookie, at, here, 3, &open(8)));
        let other = Open { epoch: 8, ..open(9) };
        assert!(!key.is_cookie(cookie, at, here, 3, &other));
    }

    #[test]
    fn a_budget_is_used_up_and_comes_back_evenly() {
        let mut budget = Budget::default();
        let mut taken = |now: u64, count: u32| (0..count).filter(|_| budget.take(now, 1_000)).count();
        assert_eq!(taken(0, 1_000), 101);
        assert_eq!(taken(1_000_000, 1_000), 1);
        assert_eq!(taken(50_000_000, 1_000), 49);
        assert_eq!(taken(10_000_000_000, 1_000), 101);
        assert!(!Budget::default().take(5, 0));
    }
}
