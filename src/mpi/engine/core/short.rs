//! Messages that go by a way for short messages, past requests and queues.

use super::{Core, Ended, RequestId};
use crate::messaging::Messenger;

impl Core {
    /// Sends by a way for short messages. `None`: the message has to go by [`send`](Self::send). Else returns whether
    /// there is something to transmit.
    #[inline]
    pub(crate) fn send_short(
        &mut self,
        messenger: &mut Messenger,
        process: u32,
        bits: u64,
        data: &[u8],
    ) -> Option<bool> {
        let peer = self.peers.meet(messenger, process)?;
        let transmits = self.tagged.send_short(messenger, peer, bits, data)?;
        if transmits {
            self.touch(peer);
        }
        Some(transmits)
    }

    /// Takes short messages for which receives wait, until one has ended the request `awaited`, which it forgets.
    #[inline]
    pub(crate) fn take_short(&mut self, messenger: &mut Messenger, awaited: RequestId) -> Option<Ended> {
        let mut ended = None;
        self.tagged.handle_short(messenger, |done| {
            let is_awaited = done.request == awaited.0;
            if is_awaited {
                ended = Some(Ended::of(done));
            }
            is_awaited
        });
        self.collect();
        if ended.is_some() {
            self.slots[awaited.0 as u32 as usize].clear();
            self.free.push(awaited.0 as u32);
            return ended;
        }
        self.take(awaited)
    }
}
