//! A receiver that computes and receives by turns with another process on its CPU, as the kernel's scheduler lets it.
//!
//! The DSE paper (section 4.2) says that its protocol suffers there: acknowledgements are the work of a process, which has
//! to be scheduled, where TCP's are the kernel's. Only the superuser may lower a nice value, so this process's own is
//! raised once, and those of the others stand around it.

use crate::{
    failure::{Failure, While},
    harness::{beside::Beside, compute::change_nice},
};

/// So much is the nice value of the receiver raised.
const RAISED: i32 = 10;
/// Nice values of the others, above the one that all begin with; the kernel has no higher one than 19.
const OTHERS: [(&str, i32); 3] = [("higher", 19), ("equal", RAISED), ("lower", 0)];

/// What rows say of it: a name, none in parts of the benchmark that have no priorities; and the nice values of the
/// receiver and of the other process.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// Name.
    pub name: Option<&'static str>,
    /// Nice values.
    pub nice: Option<[i32; 2]>,
}

/// A priority of the receiver, as against that of a process that computes on its CPU.
pub(super) struct Level {
    about: About,
    beside: Option<Beside>,
}

impl Level {
    /// No other process is there, and nothing is said about it.
    pub(super) const NONE: Self = Self {
        about: About { name: None, nice: None },
        beside: None,
    };

    /// How many there are.
    pub(super) const COUNT: usize = OTHERS.len() + 1;

    /// All of them, for a receiver that is this thread, on this CPU. From now on its priority is lower.
    pub(super) fn all(cpu: Option<usize>) -> Result<Vec<Self>, Failure> {
        let alone = Self {
            about: About {
                name: Some("alone"),
                nice: None,
            },
            beside: None,
        };
        let others = OTHERS.map(|(name, by)| Ok((name, Beside::start(cpu, by)?)));
        let own = change_nice(RAISED).or_fail("the receiver's priority")?;
        let beside = others.into_iter().map(|other| {
            let (name, beside) = other?;
            Ok(Self {
                about: About {
                    name: Some(name),
                    nice: Some([own, beside.nice]),
                },
                beside: Some(beside),
            })
        });
        std::iter::once(Ok(alone)).chain(beside).collect()
    }

    /// What rows say.
    pub(super) const fn about(&self) -> About {
        self.about
    }

    /// Does something with the other process at work.
    pub(super) fn during(&mut self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        match &mut self.beside {
            None => work(),
            Some(beside) => beside.during(work)?,
        }
    }
}
