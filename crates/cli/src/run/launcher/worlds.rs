//! The worlds of a job: the first one is started by the launcher itself, the others are asked for by ranks.

use std::io;

use hikyaku::{
    bootstrap::{JobKey, Program},
    internals::bootstrap::{address::towards, server::Spawning},
};

use super::{Launcher, Rank};
use crate::run::{
    frame::{App, Frame, Kind, Start},
    hosts::{self, Binding, Host, Place},
    remote::Link,
};

impl Launcher<'_> {
    /// Starts the ranks of the plan.
    pub(super) fn start_ranks(&mut self) -> io::Result<()> {
        self.job_key = JobKey::random()?.to_hex();
        let places: Vec<Vec<Place>> = self.plan.hosts.iter().map(|(_, places)| places.clone()).collect();
        self.start_world(0, &places, &self.plan.apps, None)?;
        self.started = true;
        Ok(())
    }

    /// Starts the processes of a world, those of each host.
    fn start_world(
        &mut self,
        first: u32,
        places: &[Vec<Place>],
        apps: &[App],
        spawned_by: Option<&str>,
    ) -> io::Result<()> {
        let ticket = JobKey::random()?.to_hex();
        let remote = self.links.iter().find_map(Link::reached_at);
        let size = places.iter().map(Vec::len).sum::<usize>() as u32;
        for (index, places) in places.iter().enumerate().filter(|(_, places)| !places.is_empty()) {
            let link = &mut self.links[index];
            let cpus = link.hello.as_ref().map_or(0, |hello| hello.cpus);
            let binding = match self.plan.binding {
                Some(binding) => binding,
                // Those of the first world have the cores.
                None if places.len() <= cpus && first == 0 => Binding::Core,
                None => Binding::None,
            };
            // (A job whose ranks spawn others again and again would say it each time.)
            if places.len() > cpus && first == 0 {
                let how = match binding {
                    Binding::Core => "some share a core",
                    Binding::None => "they are not bound",
                };
                let (name, count) = (&link.name, places.len());
                self.output
                    .say(&format!("host {name}: {count} ranks on {cpus} cores: {how}"));
            }
            // This host is where packets to the others leave from.
            let address = if link.local {
                remote.and_then(towards)
            } else {
                link.reached_at()
            };
            let start = Start {
                first,
                size,
                places: places.clone(),
                apps: apps.to_vec(),
                directory: self.plan.directory.clone(),
                binding,
                ticket: ticket.clone(),
                job_key: self.job_key.clone(),
                host_address: address.map(|address| address.to_string()),
                goes_on: self.plan.goes_on,
                spawned_by: spawned_by.map(str::to_owned),
            };
            link.send(&Frame::of(Kind::Start, first, &start));
        }
        Ok(())
    }

    /// Starts the processes that `spawner` asks for, on the hosts in turn.
    pub(super) fn spawn(&mut self, spawner: u32, spawning: Spawning) {
        if self.next_step.is_some() {
            // The job ends, and the spawner with it.
            return;
        }
        let hosts: Vec<Host> = self.plan.hosts.iter().map(|(host, _)| host.clone()).collect();
        let counts: Vec<u32> = spawning.programs.iter().map(|program| program.processes).collect();
        let mut places = hosts::place(&hosts, &counts);
        let first = self.worlds.begin(counts.iter().sum(), Some(spawner));
        self.ranks.resize(self.worlds.processes() as usize, Rank::default());
        self.host_of.resize(self.ranks.len(), 0);
        for (index, place) in (0..)
            .zip(&mut places)
            .flat_map(|(index, places)| places.iter_mut().map(move |place| (index, place)))
        {
            place.rank += first;
            self.host_of[place.rank as usize] = index;
        }
        let env = self.plan.apps[0].env.clone();
        let app = |program: Program| App {
            command: program.command,
            env: env.clone(),
        };
        let apps: Vec<App> = spawning.programs.into_iter().map(app).collect();
        if let Err(error) = self.start_world(first, &places, &apps, Some(&spawning.by)) {
            self.refuse(first, &error.to_string());
        }
    }

    /// The world of `rank` cannot begin: its spawner is told, and those of its processes that run are ended.
    pub(super) fn refuse(&mut self, rank: u32, reason: &str) {
        let (first, size) = self.worlds.world_of(rank);
        for rank in first..first + size {
            let state = &mut self.ranks[rank as usize];
            if !state.refused && !state.over {
                let end = Frame::new(Kind::End, rank, Vec::new());
                self.links[self.host_of[rank as usize]].queue(&end);
            }
            // One that was not started yet may say so later.
            state.refused = true;
        }
        let outcome = self.worlds.refuse(rank, reason);
        self.answer(rank, outcome);
    }

    /// `rank` belongs to a spawned world that could not begin.
    pub(super) fn is_refused(&self, rank: u32) -> bool {
        self.ranks[rank as usize].refused
    }
}
