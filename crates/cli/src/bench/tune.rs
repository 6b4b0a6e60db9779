//! placeholder
use crate::{args, failure::Failure};
pub(crate) fn run(_: &args::World) -> Result<(), Failure> {
    Ok(())
}
