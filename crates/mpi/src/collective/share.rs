#![expect(unsafe_code, reason = "hands buffers that are borrowed to the engine")]
//! Texts and bytes of all ranks, for calls of MPI that compare them.

use hikyaku::mpi::{
    collectives::Collective,
    error::{Detail, Error, ErrorClass},
};

use super::begin::Ready;
use crate::{datatype::Place, topology::Handle};

/// No rank has more to [`share`], bytes.
const LONGEST: u64 = 1 << 16;

/// Collects bytes from each rank, in the order of ranks; lengths may differ.
fn share(handle: &Handle, call: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    if handle.comm.is_inter() {
        return Err(Error::new(ErrorClass::UnsupportedOperation, call));
    }
    let size = handle.comm.size() as usize;
    let len = own.len() as u64;
    let mut lens = vec![0_u64; size];
    let gather = || Ready::of(handle, call, Collective::Allgather);
    // SAFETY: both are borrowed until the operation has ended.
    unsafe { gather().from(&Place::of(&len)).into(&Place::of_mut(&mut lens)).begin() }.wait()?;
    let widest = lens.iter().copied().max().unwrap_or(0);
    if widest > LONGEST {
        return Err(Error::new(ErrorClass::Other, call).with_detail(Detail::Value {
            argument: "bytes of a rank",
            value: i64::try_from(widest).unwrap_or(i64::MAX),
            min: 0,
            max: LONGEST as i64,
        }));
    }
    let widest = widest as usize;
    let mut padded = own.to_vec();
    padded.resize(widest, 0);
    let mut all = vec![0_u8; widest * size];
    // SAFETY: as above.
    unsafe {
        gather()
            .from(&Place::of(&padded))
            .into(&Place::of_mut(&mut all))
            .begin()
    }
    .wait()?;
    let parts = lens
        .iter()
        .enumerate()
        .map(|(rank, len)| all[rank * widest..][..*len as usize].to_vec());
    Ok(parts.collect())
}

/// Collects a text from each rank.
pub(crate) fn share_names(handle: &Handle, call: &'static str, name: &str) -> Result<Vec<String>, Error> {
    share(handle, call, name.as_bytes()).map(|all| {
        all.iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    })
}
