//! Messages from rank to rank: all kinds of sends, receives, wildcards and probes, and MPI's rules about their order.

use std::collections::BTreeSet;

use hikyaku::mpi::{
    Rank,
    engine::{ANY_SOURCE, ANY_TAG, Communicator, Mode, Request, Status},
    error::Error,
};

use super::{
    prng::{self, Prng},
    safe::{Kept, Timeout, ireceive, isend, receive, receive_matched},
    script::Limits,
};

#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tag: i32,
    /// Different for all letters of a pair.
    pub(crate) len: usize,
    pub(crate) synchronous: bool,
}

/// How a rank's receives name their letters. All receives of a rank do it the same way, so that none takes a letter
/// that another one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Exact,
    BySource,
    ByTag,
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) letters: Vec<Letter>,
    pub(crate) styles: Vec<Style>,
    /// Number of receives, of 1,000, that are posted ahead.
    pub(crate) ahead: u32,
    seed: u64,
}

impl Talk {
    pub(crate) fn draw(rng: &mut Prng, ranks: usize, limits: Limits, styles: &[Style]) -> Self {
        let count = rng.skewed(limits.letters);
        let max_len = rng.pick(&[16, 2_000, limits.bytes]).min(limits.bytes);
        let mut budget = limits.total;
        let mut seen = BTreeSet::new();
        let tags = rng.pick(&[1, 2, 5]);
        // Tags of this talk alone.
        let first_tag = rng.below(1 << 28) as i32 * 8;
        let to_itself = rng.pick(&[0, 100]);
        let synchronous = rng.pick(&[0, 0, 200, 1_000]);
        let one_to = rng.chance(200).then(|| rng.below(ranks as u64) as usize);
        let mut letters = Vec::new();
        for _ in 0..count {
            let from = rng.below(ranks as u64) as usize;
            let to = if ranks == 1 || rng.chance(to_itself) {
                from
            } else {
                (from + rng.between(1, ranks as u64 - 1) as usize) % ranks
            };
            let to = one_to.unwrap_or(to);
            let mut len = if rng.chance(50) { 0 } else { rng.skewed(max_len) }.min(budget) as usize;
            budget -= len as u64;
            while !seen.insert((from, to, len)) {
                len += 1;
            }
            letters.push(Letter {
                from,
                to,
                tag: first_tag + rng.below(tags) as i32,
                len,
                synchronous: rng.chance(synchronous),
            });
        }
        Self {
            letters,
            styles: (0..ranks).map(|_| rng.pick(styles)).collect(),
            ahead: rng.pick(&[0, 500, 1_000]),
            seed: rng.next(),
        }
    }

    fn room(&self) -> usize {
        self.letters.iter().map(|letter| letter.len).max().unwrap_or(0)
    }

    /// Source and tag of the receives of a rank, in any order.
    fn selectors(&self, rank: usize, rng: &mut Prng) -> Vec<Selector> {
        let mine = self.letters.iter().filter(|letter| letter.to == rank);
        let mut selectors: Vec<_> = mine
            .map(|letter| match self.styles[rank] {
                Style::Exact => Selector(letter.from as Rank, letter.tag),
                Style::BySource => Selector(letter.from as Rank, ANY_TAG),
                Style::ByTag => Selector(ANY_SOURCE, letter.tag),
                Style::Any => Selector(ANY_SOURCE, ANY_TAG),
            })
            .collect();
        for index in (1..selectors.len()).rev() {
            selectors.swap(index, rng.below(index as u64 + 1) as usize);
        }
        selectors
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selector(Rank, i32);

impl Selector {
    fn matches(self, letter: &Letter) -> bool {
        (self.0 == ANY_SOURCE || self.0 == letter.from as Rank) && (self.1 == ANY_TAG || self.1 == letter.tag)
    }
}

/// A receive that has ended, as its rank has seen it. Kept in the order in which the receives met the queues.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    selector: Selector,
    status: Status,
    data: Vec<u8>,
}

/// Content of a letter; each incarnation sends another one.
fn content(index: usize, len: usize, incarnation: u32) -> Vec<u8> {
    prng::bytes(&[index as u64, incarnation.into()], len)
}

/// Runs the part of this rank, and checks it.
pub(crate) fn talk(comm: &Communicator, talk: &Talk, incarnation: u32) -> Result<(), Error> {
    let rank = comm.rank() as usize;
    let mut rng = Prng::new(talk.seed ^ rank as u64);
    let mut kept = Kept::default();
    let mut selectors = talk.selectors(rank, &mut rng);
    let later = selectors.split_off(selectors.iter().filter(|_| rng.chance(talk.ahead)).count());
    let mut ahead = selectors.into_iter();
    let mut sends: Vec<Request> = Vec::new();
    let mut posted: Vec<(usize, Selector, usize, Request)> = Vec::new();
    // (When it met the queues, and the receive.)
    let mut received: Vec<(usize, Received)> = Vec::new();
    let mut post = |kept: &mut Kept, selector: Selector, number: usize| {
        let request = ireceive(comm, kept, talk.room(), selector.0, selector.1)?;
        posted.push((number, selector, kept.last(), request));
        Ok::<_, Error>(())
    };
    let mut number = 0..;
    let mut next = || number.next().unwrap_or(0);
    for (index, letter) in talk
        .letters
        .iter()
        .enumerate()
        .filter(|(_, letter)| letter.from == rank)
    {
        if rng.chance(500)
            && let Some(selector) = ahead.next()
        {
            post(&mut kept, selector, next())?;
        }
        let mode = if letter.synchronous {
            Mode::Synchronous
        } else {
            Mode::Standard
        };
        let data = content(index, letter.len, incarnation);
        sends.push(isend(comm, mode, &mut kept, data, letter.to as Rank, letter.tag)?);
    }
    for selector in ahead {
        post(&mut kept, selector, next())?;
    }
    for selector in later {
        let Selector(source, tag) = selector;
        let mut room = vec![0xee; talk.room()];
        let (status, selector) = match rng.below(5) {
            0 => {
                let found = comm.probe(source, tag)?;
                let status = receive(comm, &mut room, found.source, found.tag)?;
                assert_eq!(
                    (status.source, status.tag, status.len),
                    (found.source, found.tag, found.len),
                    "a probe has found another message than the receive after it"
                );
                (status, Selector(found.source, found.tag))
            }
            1 => {
                let message = comm.mprobe(source, tag)?;
                let found = message.status();
                let status = receive_matched(message, &mut room)?;
                assert_eq!(status, found, "a matched message is another one");
                (status, selector)
            }
            2 => {
                let mut timeout = Timeout::default();
                let message = loop {
                    if let Some(message) = comm.improbe(source, tag)? {
                        break message;
                    }
                    timeout.wait();
                };
                (receive_matched(message, &mut room)?, selector)
            }
            3 => {
                post(&mut kept, selector, next())?;
                continue;
            }
            _ => (receive(comm, &mut room, source, tag)?, selector),
        };
        room.truncate(status.len as usize);
        received.push((
            next(),
            Received {
                selector,
                status,
                data: room,
            },
        ));
    }
    if rng.chance(500) {
        posted.reverse();
    }
    for (number, selector, memory, mut request) in posted {
        let status = if rng.chance(300) {
            let mut timeout = Timeout::default();
            loop {
                if let Some(status) = request.test()? {
                    break status;
                }
                timeout.wait();
            }
        } else {
            request.wait()?
        };
        let data = kept.bytes(memory)[..status.len as usize].to_vec();
        received.push((number, Received { selector, status, data }));
    }
    for send in sends {
        send.wait()?;
    }
    kept.done();
    received.sort_by_key(|(number, _)| *number);
    let received: Vec<_> = received.into_iter().map(|(_, received)| received).collect();
    if let Err(wrong) = check(talk, rank, &received) {
        panic!("rank {rank} of {}: {wrong}", comm.size());
    }
    // A rank that has not received everything must not take later letters.
    if talk.styles.contains(&Style::BySource) || talk.styles.contains(&Style::Any) {
        comm.barrier()?;
    }
    Ok(())
}

/// Checks that a rank has received what was sent to it: each letter once, with its bytes, in an order that MPI allows.
pub(crate) fn check(talk: &Talk, rank: usize, received: &[Received]) -> Result<(), String> {
    let mut taken: Vec<Option<usize>> = vec![None; talk.letters.len()];
    let mut incarnations: Vec<Option<u32>> = vec![None; talk.styles.len()];
    for (number, one) in received.iter().enumerate() {
        let Status { source, tag, len, .. } = one.status;
        let same = |letter: &Letter| {
            letter.to == rank && letter.from as Rank == source && letter.tag == tag && letter.len as u64 == len
        };
        let Some(index) = talk.letters.iter().position(same) else {
            return Err(format!("received what nobody has sent: {one:?}"));
        };
        let letter = &talk.letters[index];
        if let Some(before) = taken[index].replace(number) {
            return Err(format!(
                "letter {index} {letter:?} was received twice: {before} and {number}"
            ));
        }
        if !one.selector.matches(letter) {
            return Err(format!(
                "letter {index} {letter:?} came to a receive of {:?}",
                one.selector
            ));
        }
        let said = (0..4).find(|incarnation| one.data == content(index, letter.len, *incarnation));
        let Some(said) = said else {
            return Err(format!("letter {index} {letter:?} has other bytes"));
        };
        if letter.len > 0 && *incarnations[letter.from].get_or_insert(said) != said {
            return Err(format!(
                "letter {index} {letter:?} is of incarnation {said}, others are not"
            ));
        }
    }
    if let Some(index) = (0..taken.len()).find(|&index| talk.letters[index].to == rank && taken[index].is_none()) {
        return Err(format!("letter {index} was not received"));
    }
    // A receive gets the first letter of its sender that it matches.
    for (second, letter) in talk.letters.iter().enumerate() {
        let Some(by) = taken[second] else { continue };
        for (first, before) in talk.letters[..second].iter().enumerate() {
            let same = before.from == letter.from && before.to == letter.to;
            if same && received[by].selector.matches(before) && taken[first].is_some_and(|other| other > by) {
                return Err(format!(
                    "letter {second} {letter:?} has overtaken letter {first} {before:?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 1's receives in a talk of three letters.
    fn three() -> (Talk, Vec<Received>) {
        let letter = |len| Letter {
            from: 0,
            to: 1,
            tag: 7,
            len,
            synchronous: false,
        };
        let talk = Talk {
            letters: vec![letter(10), letter(20), letter(30)],
            styles: vec![Style::Any; 2],
            ahead: 0,
            seed: 1,
        };
        let received = talk.letters.iter().enumerate().map(|(index, letter)| Received {
            selector: Selector(ANY_SOURCE, ANY_TAG),
            status: Status {
                source: 0,
                tag: 7,
                len: letter.len as u64,
                cancelled: false,
            },
            data: content(index, letter.len, 0),
        });
        let received = received.collect();
        (talk, received)
    }

    /// The check can fail: it finds each kind of mistake.
    #[test]
    fn mistakes_are_found() {
        let (talk, right) = three();
        assert_eq!(check(&talk, 1, &right), Ok(()));
        let found = |change: &dyn Fn(&mut Vec<Received>), what: &str| {
            let mut wrong = right.clone();
            change(&mut wrong);
            let error = check(&talk, 1, &wrong).unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        found(&|all| all.push(all[1].clone()), "twice");
        found(&|all| drop(all.remove(2)), "not received");
        found(&|all| all.swap(0, 2), "overtaken");
        found(&|all| all[1].data[3] ^= 1, "bytes");
        found(&|all| all[1].data = content(1, 20, 1), "incarnation");
        found(&|all| all[0].status.source = 1, "nobody has sent");
        found(&|all| all[0].selector = Selector(0, 3), "came to a receive of");
    }
}
