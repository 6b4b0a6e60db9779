//! Variables that `hikyaku run` sets for each rank. The first one shows that it has started the rank.

/// Where the wire-up server of this host listens: `127.0.0.1:port`.
pub const RUN_ADDRESS: &str = "HIKYAKU_RUN_ADDRESS";
/// The ticket with which the wire-up server admits a rank.
pub const RUN_TICKET: &str = "HIKYAKU_RUN_TICKET";
/// The number of this process in the job, from 0.
pub const RANK: &str = "HIKYAKU_RANK";
/// The number of processes in the job.
pub const SIZE: &str = "HIKYAKU_SIZE";
/// The number of this process among those of the job on this host, from 0.
pub const LOCAL_RANK: &str = "HIKYAKU_LOCAL_RANK";
/// The number of processes of the job on this host.
pub const LOCAL_SIZE: &str = "HIKYAKU_LOCAL_SIZE";
/// The number of this process's program in the job, from 0.
pub const APP: &str = "HIKYAKU_APP";
/// The number of this world's first process in the job, if processes of the job have spawned it.
pub const FIRST: &str = "HIKYAKU_FIRST";
/// What those processes tell the ones that they spawn.
pub const SPAWNED_BY: &str = "HIKYAKU_SPAWNED_BY";
/// How a process finds those that have spawned it by another launcher.
pub const CONTACT: &str = "HIKYAKU_CONTACT";
/// `continue`: the job goes on without failed ranks, and the launcher reports them.
pub const ON_FAILURE: &str = "HIKYAKU_ON_FAILURE";
/// 32 hexadecimal digits.
pub const JOB_KEY: &str = "HIKYAKU_JOB_KEY";
/// The address of this host as the launcher's hosts reach it.
pub const HOST_ADDRESS: &str = "HIKYAKU_HOST_ADDRESS";
/// Where rank 0 waits for the others if there is no launcher: `host:port`.
pub const RENDEZVOUS: &str = "HIKYAKU_RENDEZVOUS";
/// Set by users: the way to start up, for instance `pmi1`.
pub const BOOTSTRAP: &str = "HIKYAKU_BOOTSTRAP";
/// Set by users: how long to wait for other processes, seconds.
pub const TIMEOUT: &str = "HIKYAKU_BOOTSTRAP_TIMEOUT";
/// Set by users: the network interface to use (name, CIDR or address).
pub const IFACE: &str = "HIKYAKU_IFACE";
/// Set by users: the first of the ports to use.
pub const PORT_BASE: &str = "HIKYAKU_PORT_BASE";

/// All of them.
#[cfg(test)]
pub(super) const ALL: [&str; 18] = [
    RUN_ADDRESS,
    RUN_TICKET,
    RANK,
    SIZE,
    LOCAL_RANK,
    LOCAL_SIZE,
    APP,
    FIRST,
    SPAWNED_BY,
    CONTACT,
    ON_FAILURE,
    JOB_KEY,
    HOST_ADDRESS,
    RENDEZVOUS,
    BOOTSTRAP,
    TIMEOUT,
    IFACE,
    PORT_BASE,
];
