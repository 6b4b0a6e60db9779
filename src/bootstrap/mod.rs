//! Start-up of a job: how its processes find each other before they can exchange messages.
//!
//! A [`World`] knows the number of its process and the size of the job, and has a small key-value store that all
//! processes share: each puts its data for the others (its address), all meet at a fence, and then each can get the
//! data of any other. It works with whichever launcher has started the job:
//!
//! | launcher | how it is recognised | what is spoken |
//! |---|---|---|
//! | `hikyaku run` | `HIKYAKU_RUN_ADDRESS` | PMI-1 over TCP behind a ticket |
//! | Open MPI's `mpirun`, PRRTE | `PMIX_NAMESPACE`, `PMIX_RANK` | PMIx: `libpmix.so.2`, loaded when it is needed |
//! | MPICH's `mpiexec` | `PMI_FD`, or `PMI_PORT` | PMI-1 |
//! | Slurm's `srun --mpi=pmi2` | `PMI_FD` and `SLURM_STEP_ID` | PMI-2 |
//! | none: a rendezvous | `HIKYAKU_RENDEZVOUS` | PMI-1 over TCP; rank 0 is the server |
//! | Slurm's `srun` alone | `SLURM_STEP_ID` | the same, at an address made of Slurm's variables |
//! | torchrun | `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` | the same, at the port after `MASTER_PORT` |
//! | nothing | none of the above | a world of one |
//!
//! `HIKYAKU_BOOTSTRAP` chooses by name instead. Every wait ends after `HIKYAKU_BOOTSTRAP_TIMEOUT` seconds (60), and
//! every error names the step and the launcher.
//!
//! ```
//! use hikyaku::bootstrap::{self, Environment};
//!
//! # fn main() -> Result<(), bootstrap::BootstrapError> {
//! // Started alone: a world of one.
//! let mut world = bootstrap::discover(&Environment::default())?;
//! let address = world.bind_address()?;
//! world.put("address", address.to_string().as_bytes())?;
//! world.fence()?;
//! for rank in 0..world.size() {
//!     let address = world.get(rank, "address")?;
//!     println!("rank {rank} is at {}", String::from_utf8_lossy(&address));
//! }
//! world.finalize()
//! # }
//! ```

pub(crate) mod address;
mod alone;
mod channel;
mod deadline;
mod descriptor;
mod driver;
pub(crate) mod environment;
mod error;
mod exchange;
mod failures;
mod family;
mod identity;
pub(crate) mod interfaces;
mod key;
mod launcher;
pub(crate) mod message;
mod news;
mod pmi;
mod pmix;
mod rendezvous;
#[cfg(test)]
mod replay_tests;
pub(crate) mod server;
mod world;

pub use address::AddressError;
pub use environment::Environment;
pub use error::{BootstrapError, Cause};
pub use exchange::{MAX_KEY, MAX_PROCESSES, MAX_VALUE, Program};
pub use failures::{Failures, FailuresEnd};
pub use key::JobKey;
pub use launcher::Launcher;
pub use message::MessageError;
pub use world::World;

use environment::names;
use exchange::Exchange;
use family::Family;
use identity::Identity;
use message::Version;

/// The launcher that an environment belongs to.
fn recognise(environment: &Environment) -> Result<Launcher, BootstrapError> {
    let wanted = environment.wanted();
    if let Some(wanted) = wanted.map_err(|cause| BootstrapError::new(Launcher::Alone, "the environment", cause))? {
        return Ok(wanted);
    }
    let set = |name| environment.get(name).is_some();
    let in_slurm = set("SLURM_STEP_ID") && set("SLURM_PROCID");
    Ok(if set(names::RUN_ADDRESS) {
        Launcher::Hikyaku
    } else if set(names::RENDEZVOUS) {
        Launcher::Rendezvous
    } else if set("PMIX_NAMESPACE") && set("PMIX_RANK") {
        Launcher::Pmix
    } else if set("PMI_FD") || set("PMI_PORT") {
        if in_slurm { Launcher::Pmi2 } else { Launcher::Pmi1 }
    } else if in_slurm {
        Launcher::Slurm
    } else if ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
        .into_iter()
        .all(set)
    {
        Launcher::Torch
    } else {
        not_alone(environment)?;
        Launcher::Alone
    })
}

/// Several processes that each take themselves for a world of one would be a trap: a hint at a launcher that cannot be
/// used is an error.
fn not_alone(environment: &Environment) -> Result<(), BootstrapError> {
    /// In a job of one, the launcher does not matter.
    const ONE: Option<&str> = Some("1");
    let hints = [
        (
            "OMPI_COMM_WORLD_SIZE",
            ONE,
            "PMIX_NAMESPACE as well, from the same mpirun",
        ),
        ("PMI_SIZE", ONE, "PMI_FD or PMI_PORT as well, from the same launcher"),
        ("PMIX_NAMESPACE", None, "PMIX_RANK as well, from the same launcher"),
        ("PMIX_RANK", None, "PMIX_NAMESPACE as well, from the same launcher"),
    ];
    for (name, harmless, expected) in hints {
        let value = environment.get(name);
        if value.is_some() && value != harmless {
            let cause = Cause::Variable {
                name: name.to_owned(),
                value: value.map(str::to_owned),
                expected,
            };
            return Err(BootstrapError::new(Launcher::Alone, "finding the launcher", cause));
        }
    }
    Ok(())
}

/// Recognises the launcher of this process, and joins its job. Meets all other processes once.
///
/// # Errors
/// The launcher cannot be recognised or reached, or other processes do not come within the time-out.
pub fn discover(environment: &Environment) -> Result<World, BootstrapError> {
    let launcher = recognise(environment)?;
    let fail = |cause| BootstrapError::new(launcher, "the environment", cause);
    let timeout = environment.timeout().map_err(fail)?;
    let (exchange, identity): (Box<dyn Exchange>, Identity) = match launcher {
        Launcher::Hikyaku => rendezvous::join_run(environment, timeout)?,
        Launcher::Pmi1 | Launcher::Pmi2 => {
            let version = if launcher == Launcher::Pmi1 {
                Version::One
            } else {
                Version::Two
            };
            let (mut pmi, mut identity) = pmi::Pmi::join(environment, version, timeout)?;
            identity.local = pmi::local(environment);
            let contact = pmi.contact(environment, &mut identity)?;
            Family::join(launcher, Box::new(pmi), identity, contact.as_deref(), timeout)?
        }
        Launcher::Pmix => {
            let (pmix, identity) = pmix::join(environment, timeout)?;
            let contact = environment.get(names::CONTACT);
            Family::join(launcher, pmix, identity, contact, timeout)?
        }
        Launcher::Slurm | Launcher::Torch | Launcher::Rendezvous => rendezvous::join(launcher, environment, timeout)?,
        Launcher::Alone => alone::join(),
    };
    World::new(launcher, exchange, identity, environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        variables.iter().map(owned).collect()
    }

    fn recognised(variables: &[(&str, &str)]) -> Launcher {
        recognise(&environment(variables)).unwrap()
    }

    #[test]
    fn launchers_are_recognised() {
        assert_eq!(recognised(&[]), Launcher::Alone);
        assert_eq!(recognised(&[("PMI_FD", "3"), ("PMI_RANK", "0")]), Launcher::Pmi1);
        assert_eq!(recognised(&[("PMI_PORT", "a:1")]), Launcher::Pmi1);
        let slurm = [("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1")];
        assert_eq!(recognised(&slurm), Launcher::Slurm);
        assert_eq!(recognised(&[&slurm[..], &[("PMI_FD", "3")]].concat()), Launcher::Pmi2);
        let pmix = [("PMIX_NAMESPACE", "x"), ("PMIX_RANK", "0")];
        assert_eq!(recognised(&[&slurm[..], &pmix[..]].concat()), Launcher::Pmix);
        let ours = [("HIKYAKU_RUN_ADDRESS", "127.0.0.1:1")];
        assert_eq!(recognised(&[&pmix[..], &ours[..]].concat()), Launcher::Hikyaku);
        assert_eq!(
            recognised(&[&ours[..], &[("HIKYAKU_BOOTSTRAP", "alone")]].concat()),
            Launcher::Alone
        );
        let torch = [
            ("RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "a"),
            ("MASTER_PORT", "1"),
        ];
        assert_eq!(recognised(&torch), Launcher::Torch);
        assert_eq!(recognised(&torch[..3]), Launcher::Alone);
        assert_eq!(recognised(&[&torch[..], &pmix[..]].concat()), Launcher::Pmix);
        // A batch script is one process, although Slurm tells it the number of tasks.
        assert_eq!(
            recognised(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]),
            Launcher::Alone
        );
    }

    #[test]
    fn half_a_launcher_is_an_error() {
        for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
            let error = recognise(&environment(&[(name, "4")])).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(recognised(&[(name, "1")]), Launcher::Alone);
        }
        for (name, missing) in [("PMIX_NAMESPACE", "PMIX_RANK"), ("PMIX_RANK", "PMIX_NAMESPACE")] {
            let error = recognise(&environment(&[(name, "1")])).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(missing), "{error}");
            let alone = [(name, "1"), ("HIKYAKU_BOOTSTRAP", "alone")];
            assert_eq!(recognised(&alone), Launcher::Alone);
        }
        let error = recognise(&environment(&[("HIKYAKU_BOOTSTRAP", "mpd")])).unwrap_err();
        assert!(error.to_string().contains("HIKYAKU_BOOTSTRAP=mpd"), "{error}");
    }

    #[test]
    fn a_world_of_one() {
        let mut world = discover(&Environment::default()).unwrap();
        assert_eq!((world.rank(), world.size(), world.local_size()), (0, 1, 1));
        world.put("a", b"b").unwrap();
        assert!(matches!(
            world.get(0, "a").unwrap_err().cause(),
            Cause::NoSuchKey { .. }
        ));
        world.fence().unwrap();
        assert_eq!(world.get(0, "a").unwrap(), b"b");
        assert!(matches!(world.get(1, "a").unwrap_err().cause(), Cause::Argument(_)));
        assert!(matches!(world.put("a b", b"").unwrap_err().cause(), Cause::Argument(_)));
        assert!(matches!(
            world.put("b", &[0; 512]).unwrap_err().cause(),
            Cause::Argument(_)
        ));
        assert!(world.bind_address().unwrap().ip().is_loopback());
        world.finalize().unwrap();
    }

    #[test]
    fn bad_variables_are_named() {
        for (name, value) in [
            ("HIKYAKU_BOOTSTRAP_TIMEOUT", "-1"),
            ("HIKYAKU_BOOTSTRAP_TIMEOUT", "soon"),
            ("HIKYAKU_PORT_BASE", "70000"),
            ("HIKYAKU_JOB_KEY", "xyz"),
        ] {
            let error = discover(&environment(&[(name, value)])).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}={value}")), "{error}");
        }
        let error = discover(&environment(&[
            ("PMI_FD", "9999"),
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "1"),
        ]));
        assert!(error.unwrap_err().to_string().contains("PMI_FD=9999"));
        let error = discover(&environment(&[("HIKYAKU_RUN_ADDRESS", "127.0.0.1:1")]));
        assert!(error.unwrap_err().to_string().contains("HIKYAKU_RANK is not set"));
    }
}
