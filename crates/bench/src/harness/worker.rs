//! The worker: obeys the driver, holds the spokes and the stop-watch.

use std::{io, net::TcpStream};

use crate::{
    failure::{Failure, While},
    harness::{
        compute::{change_nice, compute},
        control::{Answer, Channel, Command},
    },
    machine::{busy, clock, pin},
    ranks::rank::{Lonely, Rank},
    transports::{
        link::Spoke,
        open::open_spoke,
        settings::{Job, Operation, Report},
        sizes::Messages,
        timeout::Watch,
    },
};

/// Serves one driver until it says goodbye or goes.
pub(crate) fn run(stream: TcpStream, key: &str) -> Result<(), Failure> {
    let local = stream.local_addr().or_fail("control connection")?.ip();
    let mut channel = Channel::new(stream).or_fail("control connection")?;
    channel.greet(key)?;
    let _watch = Watch::new([channel.stream()].into_iter(), false).or_fail("control connection")?;
    let mut links: Vec<(Box<dyn Spoke>, bool)> = Vec::new();
    let (mut lonely, mut rank) = (None, None);
    loop {
        let mut computes = false;
        let command = match channel.receive::<Command>() {
            Ok(Command::Bye) => return Ok(()),
            Ok(command) => command,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Failure::run("the driver has gone"));
            }
            Err(error) => return Err(Failure::run(format!("control connection: {error}"))),
        };
        let answer = match command {
            Command::Bye => return Ok(()),
            Command::Pin { cpu } => {
                let cpu = cpu.or_else(pin::answering);
                Ok(Answer::Pinned {
                    cpu: cpu.and_then(pin::pin),
                })
            }
            Command::Open { kind, settings, hub } => open_spoke(&kind, &settings, local, &hub).and_then(|link| {
                let offer = link.offer()?;
                links.push((link, settings.threads));
                Ok(Answer::Opened { offer })
            }),
            Command::Nice { by } => change_nice(by).map(|nice| Answer::Nice { nice }),
            Command::Compute => {
                computes = true;
                Ok(Answer::Ok)
            }
            Command::Rest => Ok(Answer::Ok),
            Command::Ready { link } => links[link].0.ready().map(|()| Answer::Ok),
            Command::Drain { link } => links[link].0.drain().map(|()| Answer::Ok),
            Command::Rank { rank, place } => Lonely::open(&place, local, rank).map(|mut opened| {
                let offer = opened.offer();
                lonely = Some(opened);
                Answer::Opened { offer }
            }),
            Command::Connect { offers } => lonely.take().ok_or_else(not_a_rank).and_then(|opened: Lonely| {
                rank = Some(opened.connect(&offers)?);
                Ok(Answer::Ok)
            }),
            Command::Perform { work } => rank
                .as_mut()
                .ok_or_else(not_a_rank)
                .and_then(|rank: &mut Rank| attended(|| rank.perform(&work))),
            Command::Run { link, job } => {
                let (link, threads) = &mut links[link];
                attended(|| measure(link.as_mut(), &job, *threads))
            }
        };
        let answer = answer.unwrap_or_else(|error| Answer::Failed {
            message: error.to_string(),
        });
        channel.send(&answer).or_fail("control connection")?;
        if computes {
            compute(channel.stream());
        }
    }
}

/// Does a round, and sees for how long there was no CPU for it.
fn attended(round: impl FnOnce() -> io::Result<Report>) -> io::Result<Answer> {
    let before = busy::waited();
    let mut report = round()?;
    report.waited = busy::waited().saturating_sub(before);
    Ok(Answer::Done { report })
}

fn not_a_rank() -> io::Error {
    io::Error::other("this worker is no rank of a job")
}

/// Does one round and takes the time of each operation.
fn measure(link: &mut dyn Spoke, job: &Job, threads: bool) -> io::Result<Report> {
    match rounds(link, job, threads) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(Report {
            lost: true,
            ..Report::default()
        }),
        other => other,
    }
}

fn rounds(link: &mut dyn Spoke, job: &Job, threads: bool) -> io::Result<Report> {
    if let Some(report) = link.measured(job) {
        return report;
    }
    let messages = Messages::new(job.sizes());
    for index in 0..job.warmup {
        operate(link, job, &messages, index, true)?;
    }
    let mut report = Report {
        samples: Vec::with_capacity(job.count),
        ..Report::default()
    };
    let cpu = clock::cpu_time(threads);
    let start = clock::now();
    let mut before = start;
    for index in job.warmup..job.operations() {
        operate(link, job, &messages, index, false)?;
        if job.whole {
            continue;
        }
        let now = clock::now();
        report.samples.push(now - before);
        before = now;
    }
    if job.whole {
        before = clock::now();
    }
    report.wall = before - start;
    report.cpu = clock::cpu_time(threads) - cpu;
    link.settle()?;
    Ok(report)
}

#[inline]
fn operate(link: &mut dyn Spoke, job: &Job, messages: &Messages, index: usize, check: bool) -> io::Result<()> {
    match job.operation {
        Operation::Stream => link.stream(messages, job.window, job.spokes),
        Operation::PingPong => {
            let (message, mut right) = (messages.at(index), true);
            link.ping(message, &mut |echo| right = !check || echo == message)?;
            if !right {
                let error = format!("the echo of {} B differs from what was sent", message.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            Ok(())
        }
    }
}
