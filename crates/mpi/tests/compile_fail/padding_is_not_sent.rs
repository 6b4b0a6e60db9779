//~ E0277 `Padded: mpi::datatype::Buffer`
// A struct is no buffer of its bytes: between its fields nobody has written any.
use mpi::traits::*;

#[repr(C)]
struct Padded {
    small: u8,
    large: u64,
}

fn main() {
    let world = mpi::initialize().unwrap().world();
    world.this_process().send(&Padded { small: 1, large: 2 }).unwrap();
}
