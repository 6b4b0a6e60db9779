//! The deterministic harness: also included by the fuzz targets, so it names nothing outside of itself.

pub(crate) mod draw;
mod emit;
mod finish;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod messenger;
pub(crate) mod model;
pub(crate) mod node;
pub(crate) mod ops;
pub(crate) mod prng;
mod proxy;
mod record;
pub(crate) mod seal;
pub(crate) mod seeds;
pub(crate) mod stack;
pub(crate) mod tagged;
pub(crate) mod talk;
pub(crate) mod talk_ops;
pub(crate) mod world;

pub(crate) use link::Link;
pub(crate) use model::Job;
pub(crate) use node::{App, NodeOptions};
pub(crate) use prng::Prng;
pub(crate) use seeds::{note, scenario};
pub(crate) use world::World;
