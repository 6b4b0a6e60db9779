//! Whether processes of this host can talk through memory.

use std::error::Error;

/// Tries it: something is sent from one end to another, both in this process.
///
/// # Errors
/// The reason why not.
#[cfg(feature = "shm")]
pub(crate) fn attempt() -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    use hikyaku::transport::Transport;

    let open = |processor| Transport::builder().processor(processor).bind_shm("");
    let (mut a, mut b) = (open(1)?, open(2)?);
    let to_b = a.add_peer(b.local_addr(), 2)?;
    b.add_peer(a.local_addr(), 1)?;
    a.send(to_b, b"here")?;
    a.progress()?;
    b.receive(Duration::from_secs(5))?;
    Ok(())
}

#[cfg(not(feature = "shm"))]
pub(crate) fn attempt() -> Result<(), Box<dyn Error>> {
    Err("this build has no memory between processes (feature shm)".into())
}
