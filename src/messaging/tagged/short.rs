//! Messages that go by a way for short messages ([`PacketLayer::send_short`](crate::reliability::PacketLayer)), past the
//! messenger's queues.

use super::{Completion, MemoryRegion, Messenger, Tagged, matched, place};
use crate::reliability::{PeerId, Short};

impl<B: MemoryRegion + 'static> Tagged<B> {
    /// Sends a copy of `data`, complete at once, if the peer is reached by a way for short messages. `None`:
    /// [`send_eager`](Self::send_eager) takes it. Else returns whether there is something to transmit.
    #[inline]
    pub fn send_short(&mut self, messenger: &mut Messenger, peer: PeerId, bits: u64, data: &[u8]) -> Option<bool> {
        if !self.lost.is_empty() || self.outbox.holds_requests(peer) {
            return None;
        }
        let transmits = messenger.send_short(peer, bits, data)?;
        self.stats.eager += 1;
        Some(transmits)
    }

    /// Takes short messages where they came in, as long as receives wait for them, and until `done` takes a completion
    /// itself. Returns whether messages can be received from the messenger's inbox: these come first.
    #[inline]
    pub(crate) fn handle_short(
        &mut self,
        messenger: &mut Messenger,
        mut done: impl FnMut(&Completion) -> bool,
    ) -> bool {
        if messenger.inbox.messages() > 0 {
            // (One that is in place has to be received first, from there.)
            return !messenger.is_in_place();
        }
        loop {
            let mut is_done = false;
            let taken = messenger.take_short(|short| {
                let Some(completion) = self.place_short(short) else {
                    return false;
                };
                is_done = done(&completion);
                if !is_done {
                    self.completions.push_back(completion);
                }
                true
            });
            match taken {
                Some(true) if !is_done => {}
                Some(false) => return true,
                _ => return false,
            }
        }
    }

    /// Places a short message, if a receive waits for it.
    #[inline]
    fn place_short(&mut self, short: &Short) -> Option<Completion> {
        if short.session > 1 || !self.lost.is_empty() {
            return None;
        }
        let bits = short.record.bits;
        let receive = self.posted.take(short.source, matched(bits))?;
        Some(place(receive, short.source, bits, short.record.data()))
    }
}
