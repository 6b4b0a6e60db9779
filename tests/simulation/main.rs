//! Deterministic simulation of the protocol: virtual time, a seeded bad network, and contracts checked at every step.

mod harness;
