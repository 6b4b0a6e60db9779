//! One message at a time goes to and fro: small ones must take the quickest rail, whatever the others are like.
#![expect(unsafe_code, reason = "the engine sends from and receives into memory of the caller")]

use std::io;

use hikyaku::{
    backends::Backend,
    mpi::{
        datatype::{Datatype, Kind},
        engine::{Communicator, Mode},
        job::Job,
    },
    transport::Incoming,
};

use super::{
    Rails,
    mpi::environment,
    node::{End, LIMIT, Meter, Way},
    sockets::{Flood, failed},
};
use crate::{
    failure::Failure,
    report::{Document, Group, Row, Table, emit, median, number, size},
};

const TAG: i32 = 1;

impl End {
    /// Node 0 begins, node 1 says how often a message has come a second.
    pub(super) fn answer(&self, way: Way) -> io::Result<()> {
        let mut meter = Meter::new(self);
        match way {
            Way::Udp => self.answer_datagrams(&mut meter),
            Way::Transport => self.answer_by_transport(&mut meter),
            Way::Mpi | Way::Arrays => self.answer_by_mpi(&mut meter),
        }
    }

    const fn begins(&self) -> bool {
        self.number == 0
    }

    /// A message has come. True: that is enough.
    fn note(&self, meter: &mut Meter) -> io::Result<bool> {
        Ok(!self.begins() && meter.add(1)?)
    }

    fn answer_datagrams(&self, meter: &mut Meter) -> io::Result<()> {
        let mut socket = Flood::of(&self.addresses(self.number)[..1], self.size)?;
        let other = self.addresses(1 - self.number)[0];
        println!("ready");
        let mut send = self.begins();
        loop {
            if send {
                socket.send(0, other)?;
            }
            socket.backend.wait(Some(LIMIT))?;
            send = socket.take()? > 0;
            if send && self.note(meter)? {
                return Ok(());
            }
        }
    }

    fn answer_by_transport(&self, meter: &mut Meter) -> io::Result<()> {
        let (mut transport, peers) = self.transport_to(&[1 - self.number])?;
        let message = vec![0xa5; self.size];
        println!("ready");
        if self.begins() {
            transport.send(peers[0], &message).map_err(failed)?;
        }
        loop {
            if let Incoming::Message(_) = transport.wait_any(Some(LIMIT)).map_err(failed)? {
                if self.note(meter)? {
                    return Ok(());
                }
                transport.send(peers[0], &message).map_err(failed)?;
            }
        }
    }

    fn answer_by_mpi(&self, meter: &mut Meter) -> io::Result<()> {
        if !self.begins() {
            println!("ready");
        }
        let job = Job::join(&environment(self)).map_err(failed)?;
        let world = Communicator::world(job.engine());
        let byte = Datatype::predefined(Kind::Byte);
        let (mut buffer, len, other) = (vec![0xa5_u8; self.size], self.size as u64, 1 - self.number as i32);
        let mut sends = self.begins();
        loop {
            if sends {
                // SAFETY: the buffer is borrowed until the call has ended.
                let sent = unsafe { world.send(Mode::Standard, buffer.as_ptr(), len, &byte, other, TAG) };
                sent.map_err(failed)?;
            }
            // SAFETY: as above.
            unsafe { world.receive(buffer.as_mut_ptr(), len, &byte, other, TAG) }.map_err(failed)?;
            if self.note(meter)? {
                // The other one is killed now, so there is no goodbye.
                std::mem::forget(job);
                return Ok(());
            }
            sends = true;
        }
    }
}

/// Prints. `rates`: millions of round trips a second by number of rails, by way, by round.
pub(super) fn report(options: &Rails, rates: &[Vec<Vec<f64>>]) -> Result<(), Failure> {
    let ways = options.ways();
    let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
    let comments = vec![format!(
        "hikyaku rails: one way of {}, µs: half of the mean of a round trip, MTU {}, rails of {:?} Mbit/s, median of {} rounds",
        size::text(options.size),
        options.mtu,
        options.rates,
        options.rounds
    )];
    let groups = vec![
        Group::new("", &["rails"]),
        Group::new("µs", &names),
        Group::new("of the first row", &names[1..]),
    ];
    let mut table = Table::new(comments, groups);
    let mut document = Document::new("rails", None);
    // Round by round, since the machine changes from one to the next.
    let against =
        |rates: &[f64], first: &[f64]| median(&first.iter().zip(rates).map(|(a, b)| a / b).collect::<Vec<_>>());
    for (&rails, rates_of) in options.rails.iter().zip(rates) {
        let times: Vec<Option<f64>> = rates_of.iter().map(|rates| Some(0.5 / median(rates)?)).collect();
        let ratios: Vec<Option<f64>> = rates_of
            .iter()
            .zip(&rates[0])
            .map(|(now, first)| against(now, first))
            .collect();
        let mut cells = vec![rails.to_string()];
        cells.extend(times.iter().chain(&ratios[1..]).map(|value| number(*value)));
        table.row(cells);
        for (index, way) in ways.iter().enumerate() {
            document.rows.push(Row {
                transport: way.transport().into(),
                level: (*way != Way::Udp).then(|| way.name()),
                pattern: Some("latency"),
                size: Some(options.size),
                rails: Some(rails as usize),
                rounds: Some(options.rounds as usize),
                avg_us: times[index],
                ratio: { ratios[index].map(|ratio| ("first".to_owned(), ratio)) }
                    .into_iter()
                    .collect(),
                ..Row::default()
            });
        }
    }
    emit(&options.output, &document, &[table], None)
}
