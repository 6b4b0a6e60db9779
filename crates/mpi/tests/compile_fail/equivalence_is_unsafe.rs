//~ E0200 requires an `unsafe impl` declaration
use mpi::{datatype::SystemDatatype, traits::*};

struct Niche(bool);

impl Equivalence for Niche {
    type Out = SystemDatatype;

    fn equivalent_datatype() -> SystemDatatype {
        u8::equivalent_datatype()
    }
}

fn main() {}
