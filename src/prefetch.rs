//! Where state lies, for a program that handles thousands of endpoints and asks the memory for the next one's state
//! ahead: the simulator. Nothing else asks, so this costs nothing.

/// Something that knows where the state about a `What` lies.
pub trait Locate<What> {
    /// Passes the addresses and the lengths in bytes of that state to `tell`, as far as there is some.
    fn locate(&self, what: What, tell: impl FnMut(*const u8, usize));
}
