#![expect(unsafe_code, reason = "writes where the program says")]
//! Performance variables (MPI 15.3.7): the counters of the engine, which always run.

use hikyaku::mpi::engine::Engine;

use super::{
    state::{self, ALL_HANDLES, by_index, tell},
    trouble::{Told, Trouble},
};
use crate::{
    abi::{Bind, PvarClass, Verbosity},
    border::{Buffer, Constant, InOut, Int, NewString, Out, OutConstant, OutPointer, Pointer, Text},
    objects::{Datatype, Type},
    process,
};

/// `MPI_UNSIGNED_LONG_LONG`: all are numbers of 64 bits.
const UNSIGNED_LONG_LONG: Type = Type::number(0x20f);

/// A counter.
#[derive(Debug)]
pub(super) struct Counter {
    name: &'static str,
    class: i32,
    meaning: &'static str,
    read: fn(&Engine) -> u64,
}

macro_rules! counters {
    ($($name:ident $class:ident [$($read:tt)+] $meaning:literal;)*) => {
        &[$(Counter {
            name: stringify!($name),
            class: PvarClass::$class,
            meaning: $meaning,
            read: |engine| engine $($read)+,
        },)*]
    };
}

pub(super) const ALL: &[Counter] = counters! {
    eager COUNTER [.stats().eager] "messages sent with their payload";
    rendezvous COUNTER [.stats().rendezvous] "messages sent by rendezvous";
    converted COUNTER [.stats().converted] "small messages sent by rendezvous for lack of credit";
    unexpected COUNTER [.stats().unexpected] "messages that came before their receive";
    unexpected_bytes LEVEL [.stats().unexpected_bytes] "bytes of unexpected messages that are kept now";
    unexpected_peak HIGHWATERMARK [.stats().unexpected_peak] "the most bytes of unexpected messages";
    malformed COUNTER [.stats().malformed] "messages that were dropped";
    window_served COUNTER [.window_stats().served] "requests of other processes to windows of this one";
    window_refused COUNTER [.window_stats().refused] "requests to windows that were refused";
    packets_sent COUNTER [.packet_stats().packets_sent] "packets sent, of any kind, resends included";
    packets_received COUNTER [.packet_stats().packets_received] "packets received, of any kind, before any check";
    payload_sent COUNTER [.packet_stats().payload_sent] "bytes of payload sent for the first time";
    payload_received COUNTER [.packet_stats().payload_received] "bytes of payload delivered";
    packets_delivered COUNTER [.packet_stats().packets_delivered] "packets delivered, each exactly once";
    resends COUNTER [.packet_stats().resends] "packets sent again";
    lost_by_order COUNTER [.packet_stats().lost_by_order] "packets found lost by newer ones having arrived";
    lost_by_nack COUNTER [.packet_stats().lost_by_nack] "packets found lost because the peer asked for them";
    lost_by_timeout COUNTER [.packet_stats().lost_by_timeout] "packets found lost by time-out";
    spurious_timeouts COUNTER [.packet_stats().spurious_timeouts] "time-outs undone: the packets sent first were acknowledged";
    probes COUNTER [.packet_stats().probes] "tail-loss probes sent";
    flows_settled COUNTER [.packet_stats().flows_settled] "times that packets in flight were cut anew for a path that takes smaller ones";
    rails_up COUNTER [.packet_stats().rails_up] "times that a rail was proven to work, at first or again";
    rails_down COUNTER [.packet_stats().rails_down] "times that a rail was found dead while another was not";
    acks_alone COUNTER [.packet_stats().acks_alone] "acknowledgements sent alone";
    nacks_sent COUNTER [.packet_stats().nacks_sent] "negative acknowledgements sent";
    messages_bundled COUNTER [.packet_stats().messages_bundled] "messages that shared a datagram with others";
    resets_sent COUNTER [.packet_stats().resets_sent] "resets sent";
    answers_dropped COUNTER [.packet_stats().answers_dropped] "answers not sent because there were too many";
    sessions_opened COUNTER [.packet_stats().sessions_opened] "sessions opened";
    peers_lost COUNTER [.packet_stats().peers_lost] "peers lost, for whatever reason but a goodbye";
    blocked_on_credit COUNTER [.packet_stats().blocked_on_credit] "times that sending paused for lack of credit";
    refusals_ignored COUNTER [.packet_stats().refusals_ignored] "reports that no process listens at an address, which were not believed";
    packets_dropped COUNTER [.packet_stats().dropped.total()] "packets received and dropped, for any reason";
};

pub fn get_num(num: Out<i32>) -> Told {
    state::check()?;
    num.set(ALL.len() as i32);
    Ok(())
}

pub fn get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    verbosity: OutConstant<Verbosity>,
    var_class: OutConstant<PvarClass>,
    datatype: InOut<Datatype>,
    enumtype: OutPointer,
    desc: NewString,
    desc_len: Out<i32>,
    bind: OutConstant<Bind>,
    readonly: Out<i32>,
    continuous: Out<i32>,
    atomic: Out<i32>,
) -> Told {
    let (_, counter) = by_index(ALL, index)?;
    tell(counter.name, name, name_len);
    tell(counter.meaning, desc, desc_len);
    verbosity.set(Verbosity::USER_BASIC);
    var_class.set(counter.class);
    datatype.set(UNSIGNED_LONG_LONG);
    enumtype.set(core::ptr::null_mut());
    bind.set(Bind::NO_OBJECT);
    readonly.set_flag(true);
    continuous.set_flag(true);
    atomic.set_flag(false);
    Ok(())
}

pub fn get_index(name: Text, var_class: Constant<PvarClass>, index: Out<i32>) -> Told {
    state::check()?;
    let name = name.text();
    let is_it = |counter: &Counter| counter.name == name && counter.class == var_class.0;
    index.set(ALL.iter().position(is_it).ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn session_create(session: OutPointer) -> Told {
    state::make_session(session)
}

pub fn session_free(session: OutPointer) -> Told {
    state::free_session(session)
}

pub fn handle_alloc(session: Pointer, index: Int, _object: Pointer, handle: OutPointer, count: Out<i32>) -> Told {
    let (index, _) = by_index(ALL, index)?;
    state::make_counter(session.0, index, handle)?;
    count.set(1);
    Ok(())
}

pub fn handle_free(session: Pointer, handle: OutPointer) -> Told {
    state::free_counter(session.0, handle)
}

/// Starts or stops counters, none of which can be; of all handles that is none.
pub fn switch(session: Pointer, handle: Pointer) -> Told {
    refuse(session, handle, Trouble::NoStartStop)
}

/// Sets counters to their beginning, none of which can be; of all handles that is none.
pub fn reset(session: Pointer, handle: Pointer) -> Told {
    refuse(session, handle, Trouble::NoWrite)
}

fn refuse(session: Pointer, handle: Pointer, trouble: Trouble) -> Told {
    if handle.0 == ALL_HANDLES {
        return state::check_session(session.0);
    }
    state::counter(session.0, handle.0)?;
    Err(trouble)
}

pub fn read(session: Pointer, handle: Pointer, buf: Buffer) -> Told {
    let counter = &ALL[state::counter(session.0, handle.0)?];
    let value = process::joined().map_or(0, |joined| (counter.read)(&joined.engine));
    if !buf.0.is_null() {
        // SAFETY: the program has room for a value of the datatype that it was told.
        unsafe { buf.0.cast::<u64>().write_unaligned(value) };
    }
    Ok(())
}

pub fn write(session: Pointer, handle: Pointer) -> Told {
    state::counter(session.0, handle.0)?;
    Err(Trouble::NoWrite)
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use hikyaku::Stats;

    #[test]
    fn all_statistics_of_packets_are_there() {
        for (name, _) in Stats::default().fields() {
            assert!(ALL.iter().any(|counter| counter.name == name), "{name}");
        }
    }
}
