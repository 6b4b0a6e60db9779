//~ E0277 `String`
//~ E0277 `*const [u8]`
//~ E0277 `&'static u32`
//~ E0277 `fn()`
//~ E0277 `char`
//~ E0277 `Option<u32>`
//~ E0277 `[NonZero<u32>; 2]`
//~ E0277 `(u8, Cell<u32>)`
//~ E0277 `AtomicU32`
//~ E0277 `PhantomData<*const u32>`
//~ E0277 `MaybeUninit<u32>`
//~ E0277 `ManuallyDrop<u32>`
// Types of which not all bytes are a value, with bytes that nobody has written, or with addresses in them.
use std::{
    cell::Cell,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    num::NonZero,
    sync::atomic::AtomicU32,
};

use mpi::traits::*;

#[derive(Equivalence)]
struct Letter {
    text: String,
}

#[derive(Equivalence)]
struct Pointer(*const [u8]);

#[derive(Equivalence)]
struct Reference(&'static u32);

#[derive(Equivalence)]
struct Function(fn());

#[derive(Equivalence)]
struct Character(char);

#[derive(Equivalence)]
struct Optional(Option<u32>);

#[derive(Equivalence)]
struct Niche([NonZero<u32>; 2]);

#[derive(Equivalence)]
struct Shared((u8, Cell<u32>));

#[derive(Equivalence)]
struct Atomic(AtomicU32);

#[derive(Equivalence)]
struct Bound(u32, PhantomData<*const u32>);

#[derive(Equivalence)]
struct Unwritten(MaybeUninit<u32>);

#[derive(Equivalence)]
struct Kept(ManuallyDrop<u32>);

fn main() {}
