//! Requests, guards, immediate probes, and values that are still on their way.

use std::f32::consts::PI;

use mpi::{
    Error,
    request::{CancelGuard, WaitGuard},
    traits::*,
};

pub(crate) fn main() -> Result<(), Error> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (myself, anybody) = (world.this_process(), world.any_process());

    let x = PI;
    let mut y: f32 = 0.0;
    mpi::request::scope(|scope| {
        let mut sending = myself.immediate_send(scope, &x);
        let receiving = anybody.immediate_receive_into(scope, &mut y);
        receiving.wait()?;
        loop {
            match sending.test() {
                Ok(status) => break status,
                Err(request) => sending = request,
            }
        }
    })?;
    assert_eq!(x, y);

    y = 0.0;
    mpi::request::scope(|scope| {
        let _receiving = WaitGuard::from(anybody.immediate_receive_into(scope, &mut y));
        let _sending = WaitGuard::from(myself.immediate_send(scope, &x));
    });
    assert_eq!(x, y);

    assert!(anybody.immediate_probe()?.is_none());
    assert!(anybody.immediate_matched_probe()?.is_none());

    y = 0.0;
    mpi::request::scope(|scope| {
        let _sending: WaitGuard<'_, _, _> = myself.immediate_synchronous_send(scope, &x).into();
        let (message, _) = loop {
            if let Some(found) = anybody.immediate_matched_probe()? {
                break found;
            }
        };
        let _receiving: WaitGuard<'_, _, _> = message.immediate_matched_receive_into(scope, &mut y).into();
        Ok::<_, Error>(())
    })?;
    assert_eq!(x, y);

    let future = anybody.immediate_receive();
    myself.send(&x)?;
    let (letter, _) = future.get()?;
    assert_eq!(x, letter);

    let future = anybody.immediate_receive::<f32>();
    let mut future = future.r#try().expect_err("nothing was sent");
    myself.send(&x)?;
    let (letter, _) = loop {
        match future.r#try() {
            Ok(received) => break received?,
            Err(later) => future = later,
        }
    };
    assert_eq!(x, letter);

    mpi::request::scope(|scope| {
        let _never = CancelGuard::from(myself.immediate_receive_into(scope, &mut y));
    });
    assert_eq!(x, y, "nothing was received");
    Ok(())
}
