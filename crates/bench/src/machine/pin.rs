//! Puts each end on a core of its own.

use std::{fs, sync::OnceLock};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// The CPUs that this process may use, one of each physical core first, then the siblings; as it was before the first
/// call of [`pin`].
pub fn places() -> Vec<usize> {
    static PLACES: OnceLock<Vec<usize>> = OnceLock::new();
    let find = || {
        let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
            return Vec::new();
        };
        let allowed: Vec<usize> = (0..CpuSet::count())
            .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
            .collect();
        order(&allowed, core_of)
    };
    PLACES.get_or_init(find).clone()
}

/// The place of an end that answers a driver and chooses itself: the second, if there is one. The driver takes the first, and
/// both may be on one host.
pub fn answering() -> Option<usize> {
    let places = places();
    places.get(1).or_else(|| places.first()).copied()
}

/// First CPUs of every core, then the rest, each in order of number.
fn order(allowed: &[usize], core_of: impl Fn(usize) -> String) -> Vec<usize> {
    let mut seen = Vec::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for &cpu in allowed {
        let core = core_of(cpu);
        if seen.contains(&core) {
            rest.push(cpu);
        } else {
            seen.push(core);
            first.push(cpu);
        }
    }
    first.append(&mut rest);
    first
}

fn core_of(cpu: usize) -> String {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(file).unwrap_or_else(|_| cpu.to_string())
}

/// The CPU on which the calling thread stays, if it is one.
pub(crate) fn pinned() -> Option<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut allowed = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false));
    let first = allowed.next()?;
    allowed.next().is_none().then_some(first)
}

/// Pins the calling thread to a CPU; gives its number back, or nothing if it cannot be done.
pub fn pin(cpu: usize) -> Option<usize> {
    let mut set = CpuSet::new();
    set.set(cpu).ok()?;
    sched_setaffinity(Pid::from_raw(0), &set).ok()?;
    Some(cpu)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn physical_cores_come_before_siblings() {
        let core = |cpu: usize| (cpu / 2).to_string();
        assert_eq!(order(&[0, 1, 2, 3], core), [0, 2, 1, 3]);
        assert_eq!(order(&[1, 4, 5], core), [1, 4, 5]);
    }
}
