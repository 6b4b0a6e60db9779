//! What the processes of a job say of their rails at the end (`HIKYAKU_STATS=-`).

use serde_json::Value;

/// A path from one process to another.
#[derive(Debug)]
pub(crate) struct Rail {
    pub(crate) of: u64,
    pub(crate) to: u64,
    pub(crate) number: u64,
    /// The address at the other end, without the port.
    pub(crate) address: String,
    /// The peer has answered there.
    pub(crate) is_proven: bool,
    pub(crate) bytes_sent: u64,
}

/// Those of all processes, from what the job has written.
pub(crate) fn rails(written: &str) -> Vec<Rail> {
    let all = written.lines().filter(|line| line.starts_with("{\"processor\""));
    let rails = all.map(|line| {
        let counters: Value = serde_json::from_str(line).expect(line);
        let of = counters["processor"].as_u64().expect(line);
        let rails = counters["rails"].as_array().cloned().unwrap_or_default();
        rails.into_iter().map(move |rail| {
            let (address, _) = rail["address"].as_str().and_then(|all| all.rsplit_once(':')).unwrap();
            Rail {
                of,
                to: rail["peer"].as_u64().unwrap(),
                number: rail["rail"].as_u64().unwrap(),
                address: address.to_owned(),
                is_proven: rail["stats"]["round_trip_ns"] != 0,
                bytes_sent: rail["stats"]["bytes_sent"].as_u64().unwrap(),
            }
        })
    });
    rails.flatten().collect()
}
