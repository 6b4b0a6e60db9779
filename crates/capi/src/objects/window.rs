//! Windows, with what programs attach to them.

use std::sync::Mutex;

use hikyaku::mpi::engine;

use super::{Attributes, Handler, Held};
use crate::{
    abi::{Encoding, Flavor, Model},
    border::encode_constant,
};

/// A window of the program.
#[derive(Debug)]
pub struct Window {
    /// The engine's.
    pub window: engine::Window,
    /// Its error handler.
    pub handler: Mutex<Held<Handler>>,
    /// Its name.
    pub name: Mutex<String>,
    /// Its attributes.
    pub attributes: Attributes,
    /// The predefined attributes, where programs find them by address.
    pub numbers: Numbers,
}

/// The predefined attributes of a window: their addresses are what programs get.
#[derive(Debug)]
pub struct Numbers {
    /// `MPI_WIN_SIZE`.
    pub size: i64,
    /// `MPI_WIN_DISP_UNIT`.
    pub unit: i32,
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub flavor: i32,
    /// `MPI_WIN_MODEL`.
    pub model: i32,
}

impl Window {
    /// A new window, made in this way.
    #[must_use]
    pub fn new(window: engine::Window, encoding: &Encoding, flavor: i32) -> Self {
        let (size, unit) = window.extent_at(window.communicator().rank()).unwrap_or_default();
        Self {
            handler: Mutex::new(Handler::fatal()),
            name: Mutex::default(),
            attributes: Attributes::default(),
            numbers: Numbers {
                size: size as i64,
                unit: unit as i32,
                flavor: encode_constant::<Flavor>(encoding, flavor),
                model: encode_constant::<Model>(encoding, Model::UNIFIED),
            },
            window,
        }
    }
}
