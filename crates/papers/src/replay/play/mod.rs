#![expect(
    unsafe_code,
    reason = "the engine takes pointers; all are to memory that is kept until its operation has ended"
)]
//! Does again what a rank has done.

mod collective;
mod persistent;
mod player;
mod window;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hikyaku::{
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Engine, Mode, PROC_NULL, TAG_UB},
    },
    sim,
};

pub(super) use self::player::Attached;
use self::player::{Bytes, Player, memory};
use super::program::{Making, Step};

/// Plays all steps, with computing that takes `scale` times as long. Gives when it was over, ns; or at which step it could
/// not go on, and why.
pub(crate) fn play(
    engine: &Arc<Engine>,
    steps: &[Step],
    scale: f64,
    attached: &Attached,
) -> Result<u64, (usize, String)> {
    let mut player = Player {
        communicators: BTreeMap::from([(0, Communicator::world(engine)), (1, Communicator::own(engine))]),
        engine,
        running: BTreeMap::new(),
        planned: BTreeMap::new(),
        windows: BTreeMap::new(),
        attached,
        byte: Datatype::predefined(Kind::Byte),
    };
    let at = |step| move |problem| (step, problem);
    let mut numbered = steps.iter().enumerate();
    let played = numbered.try_for_each(|(index, step)| player.step(step, scale).map_err(at(index)));
    let played = played.and_then(|()| player.end_all().map_err(at(steps.len())));
    let over = engine.now().as_nanos();
    let played = played.and_then(|()| player.leave_windows().map_err(at(steps.len())));
    if played.is_err() {
        // What has not ended may still be written to.
        std::mem::forget(player);
    }
    played.map(|()| over)
}

impl Player<'_> {
    fn step(&mut self, step: &Step, scale: f64) -> Result<(), String> {
        match step {
            Step::Compute(nanos) => {
                let time = Duration::from_nanos((*nanos as f64 * scale).round() as u64);
                sim::compute(time).map_err(|error| error.to_string())
            }
            Step::Send {
                context,
                to,
                tag,
                bytes,
                synchronous,
                request,
            } => {
                let mode = if *synchronous {
                    Mode::Synchronous
                } else {
                    Mode::Standard
                };
                let data = memory(*bytes)?;
                let comm = self.communicator(*context)?;
                if request.is_none() {
                    // SAFETY: it is borrowed until it has ended.
                    let sent = unsafe { comm.send(mode, data.as_ptr().cast(), *bytes, &self.byte, *to, *tag) };
                    return sent.map_err(|error| error.to_string());
                }
                // SAFETY: `data` is kept until it has ended.
                let begun = unsafe { comm.isend(mode, data.as_ptr().cast(), *bytes, &self.byte, *to, *tag) };
                self.begun(begun, [data, Bytes::new()], *request)
            }
            Step::Receive {
                context,
                from,
                tag,
                room,
                request,
            } => {
                let mut data = memory(if *from == PROC_NULL { 0 } else { *room })?;
                let comm = self.communicator(*context)?;
                if request.is_none() {
                    // SAFETY: as above.
                    let got = unsafe { comm.receive(data.as_mut_ptr().cast(), *room, &self.byte, *from, *tag) };
                    return got.map(|_| ()).map_err(|error| error.to_string());
                }
                // SAFETY: as above.
                let begun = unsafe { comm.ireceive(data.as_mut_ptr().cast(), *room, &self.byte, *from, *tag) };
                self.begun(begun, [data, Bytes::new()], *request)
            }
            Step::Wait(requests) => requests.iter().try_for_each(|number| self.end(*number)),
            Step::Collective {
                name,
                context,
                what,
                how,
            } => self.collective(name, *context, what, *how),
            Step::Partitioned { context, side, planned } => self.partitioned(*context, side, *planned),
            Step::Ready { planned, partitions } => self.ready(*planned, partitions),
            Step::Arrived { planned, partition } => self.arrived(*planned, *partition),
            Step::Start { planned, request } => self.start(*planned, *request),
            Step::Free(planned) => {
                self.free(*planned);
                Ok(())
            }
            Step::Window { context, call } => self.window(*context, call),
            Step::Make { context, how, made } => self.make(*context, how, made.as_ref()),
        }
    }

    fn make(&mut self, context: u32, how: &Making, made: Option<&(u32, Vec<u32>)>) -> Result<(), String> {
        let comm = self.communicator(context)?;
        let group = |ranks: &[i32]| comm.group().incl(ranks).map_err(|error| error.to_string());
        let new = match how {
            Making::Duplicate => comm.duplicate().map(Some),
            Making::Between(remote) => {
                // The first of each group lead, over the world, with a tag that programs hardly use.
                let world = Communicator::world(self.engine);
                let leader = remote.first().map_or(PROC_NULL, |process| *process as i32);
                comm.create_intercommunicator(0, &world, leader, TAG_UB).map(Some)
            }
            Making::Merge => {
                // In the order that came of it.
                let first = made.and_then(|(_, group)| group.first().copied());
                comm.merge(first != comm.group().process(0)).map(Some)
            }
            Making::Group { ranks, tag: None } => comm.create(&group(ranks)?),
            Making::Group { ranks, tag: Some(tag) } => comm.create_group(&group(ranks)?, *tag),
            Making::Split => {
                let members = made.map_or(&[][..], |(_, group)| group);
                let own = members.iter().position(|process| *process == self.engine.process());
                comm.split(members.first().map(|first| *first as i32), own.unwrap_or(0) as i32)
            }
        };
        let new = new.map_err(|error| error.to_string())?;
        if let (Some((context, members)), Some(new)) = (made, new) {
            if !new.group().processes().eq(members.iter().copied()) {
                return Err(format!(
                    "communicator {context} has other processes here: traces do not go together"
                ));
            }
            self.communicators.insert(*context, new);
        }
        Ok(())
    }
}
