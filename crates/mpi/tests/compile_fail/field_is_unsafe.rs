//~ E0200 requires an `unsafe impl` declaration
// The derive macro believes what the type of a field says of itself.
use mpi::datatype::internal::{Check, Field};

struct Niche(&'static str);

impl Field for Niche {
    const CHECK: Option<Check> = None;

    fn datatype() -> hikyaku::mpi::datatype::Datatype {
        <[u64; 2] as Field>::datatype()
    }
}

fn main() {}
