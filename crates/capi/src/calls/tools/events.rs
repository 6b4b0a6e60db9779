//! Events (MPI 15.3.8): there are none, and no sources of them. Variables have no enumerations, either.

use super::{
    state,
    trouble::{Told, Trouble},
};
use crate::border::Out;

pub fn no_handle() -> Told {
    state::check()?;
    Err(Trouble::Handle)
}

pub fn no_index() -> Told {
    state::check()?;
    Err(Trouble::Index)
}

pub fn no_name() -> Told {
    state::check()?;
    Err(Trouble::Name)
}

pub fn none(num: Out<i32>) -> Told {
    state::check()?;
    num.set(0);
    Ok(())
}
