//! Two drivers over the loopback backend.
