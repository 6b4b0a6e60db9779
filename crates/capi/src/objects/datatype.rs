//! Datatypes, with what programs attach to them.

use std::sync::{
    Arc, LazyLock, Mutex,
    atomic::{AtomicBool, Ordering},
};

use hikyaku::mpi::datatype::{self, Kind};

use super::{Attributes, Object, Type, lock};
use crate::{abi::Handle, border::Failure};

/// In the word of a datatype, beside the handle: it was made with counts of type `MPI_Count`.
const LARGE: u64 = 1 << 32;

/// The predefined datatypes: the standard's number, name, and kind.
pub const PREDEFINED: &[(u32, &str, Kind)] = &[
    (0x201, "MPI_AINT", Kind::I64),
    (0x202, "MPI_COUNT", Kind::I64),
    (0x203, "MPI_OFFSET", Kind::I64),
    (0x207, "MPI_PACKED", Kind::Packed),
    (0x208, "MPI_SHORT", Kind::I16),
    (0x209, "MPI_INT", Kind::I32),
    (0x20a, "MPI_LONG", Kind::I64),
    (0x20b, "MPI_LONG_LONG", Kind::I64),
    (0x20c, "MPI_UNSIGNED_SHORT", Kind::U16),
    (0x20d, "MPI_UNSIGNED", Kind::U32),
    (0x20e, "MPI_UNSIGNED_LONG", Kind::U64),
    (0x20f, "MPI_UNSIGNED_LONG_LONG", Kind::U64),
    (0x210, "MPI_FLOAT", Kind::F32),
    (0x212, "MPI_C_FLOAT_COMPLEX", Kind::Complex32),
    (0x213, "MPI_CXX_FLOAT_COMPLEX", Kind::Complex32),
    (0x214, "MPI_DOUBLE", Kind::F64),
    (0x216, "MPI_C_DOUBLE_COMPLEX", Kind::Complex64),
    (0x217, "MPI_CXX_DOUBLE_COMPLEX", Kind::Complex64),
    (0x218, "MPI_LOGICAL", Kind::L32),
    (0x219, "MPI_INTEGER", Kind::I32),
    (0x21a, "MPI_REAL", Kind::F32),
    (0x21b, "MPI_COMPLEX", Kind::Complex32),
    (0x21c, "MPI_DOUBLE_PRECISION", Kind::F64),
    (0x21d, "MPI_DOUBLE_COMPLEX", Kind::Complex64),
    (0x21e, "MPI_CHARACTER", Kind::Char),
    (0x220, "MPI_LONG_DOUBLE", Kind::F80),
    (0x224, "MPI_C_LONG_DOUBLE_COMPLEX", Kind::Complex80),
    (0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", Kind::Complex80),
    (0x228, "MPI_FLOAT_INT", Kind::F32I32),
    (0x229, "MPI_DOUBLE_INT", Kind::F64I32),
    (0x22a, "MPI_LONG_INT", Kind::I64I32),
    (0x22b, "MPI_2INT", Kind::I32I32),
    (0x22c, "MPI_SHORT_INT", Kind::I16I32),
    (0x22d, "MPI_LONG_DOUBLE_INT", Kind::F80I32),
    (0x230, "MPI_2REAL", Kind::F32F32),
    (0x231, "MPI_2DOUBLE_PRECISION", Kind::F64F64),
    (0x232, "MPI_2INTEGER", Kind::I32I32),
    (0x238, "MPI_C_BOOL", Kind::Bool),
    (0x239, "MPI_CXX_BOOL", Kind::Bool),
    (0x23c, "MPI_WCHAR", Kind::WideChar),
    (0x240, "MPI_INT8_T", Kind::I8),
    (0x241, "MPI_UINT8_T", Kind::U8),
    (0x243, "MPI_CHAR", Kind::Char),
    (0x244, "MPI_SIGNED_CHAR", Kind::I8),
    (0x245, "MPI_UNSIGNED_CHAR", Kind::U8),
    (0x247, "MPI_BYTE", Kind::Byte),
    (0x248, "MPI_INT16_T", Kind::I16),
    (0x249, "MPI_UINT16_T", Kind::U16),
    (0x250, "MPI_INT32_T", Kind::I32),
    (0x251, "MPI_UINT32_T", Kind::U32),
    (0x258, "MPI_INT64_T", Kind::I64),
    (0x259, "MPI_UINT64_T", Kind::U64),
    (0x2c0, "MPI_LOGICAL1", Kind::Bool),
    (0x2c1, "MPI_INTEGER1", Kind::I8),
    (0x2c8, "MPI_LOGICAL2", Kind::L16),
    (0x2c9, "MPI_INTEGER2", Kind::I16),
    (0x2ca, "MPI_REAL2", Kind::F16),
    (0x2ff, "MPIX_C_FLOAT16", Kind::F16), // MPICH's; the standard ABI has no such number
    (0x2d0, "MPI_LOGICAL4", Kind::L32),
    (0x2d1, "MPI_INTEGER4", Kind::I32),
    (0x2d2, "MPI_REAL4", Kind::F32),
    (0x2d3, "MPI_COMPLEX4", Kind::Complex16),
    (0x2d8, "MPI_LOGICAL8", Kind::L64),
    (0x2d9, "MPI_INTEGER8", Kind::I64),
    (0x2da, "MPI_REAL8", Kind::F64),
    (0x2db, "MPI_COMPLEX8", Kind::Complex32),
    (0x2e0, "MPI_LOGICAL16", Kind::L128),
    (0x2e1, "MPI_INTEGER16", Kind::I128),
    (0x2e2, "MPI_REAL16", Kind::F128),
    (0x2e3, "MPI_COMPLEX16", Kind::Complex64),
    (0x2eb, "MPI_COMPLEX32", Kind::Complex128),
];

/// A datatype of the program.
#[derive(Debug)]
pub struct Datatype {
    /// The engine's; its word is the handle.
    pub datatype: datatype::Datatype,
    /// `MPI_Type_commit` was called.
    committed: AtomicBool,
    /// Its name.
    pub name: Mutex<String>,
    /// Its attributes.
    pub attributes: Attributes,
}

impl Datatype {
    /// The predefined one of this number.
    #[inline(always)]
    pub(super) fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static ALL: LazyLock<Vec<Option<Arc<Datatype>>>> = LazyLock::new(|| {
            let mut all = vec![None; 256];
            for (number, name, kind) in PREDEFINED {
                all[*number as usize - 0x200] = Some(Arc::new(Datatype {
                    datatype: datatype::Datatype::predefined(*kind).with_word((*number).into()),
                    committed: AtomicBool::new(true),
                    name: Mutex::new((*name).to_owned()),
                    attributes: Attributes::default(),
                }));
            }
            all
        });
        ALL.get(number.checked_sub(0x200)? as usize)?.as_ref()
    }

    /// It may be used for messages.
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Lets it be used for messages.
    pub fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// A handle for a new datatype, committed or not.
    pub fn insert(datatype: &datatype::Datatype, committed: bool) -> Type {
        let large = Self::is_large(datatype);
        Self::insert_with(datatype, committed, large, Attributes::default())
    }

    /// A handle for a new datatype: `large` says whether it was made with counts of type `MPI_Count`.
    pub(crate) fn insert_with(
        datatype: &datatype::Datatype,
        committed: bool,
        large: bool,
        attributes: Attributes,
    ) -> Type {
        let make = |handle: Handle| Self {
            datatype: datatype.with_word(u64::from(handle.0) | if large { LARGE } else { 0 }),
            committed: AtomicBool::new(committed),
            name: Mutex::default(),
            attributes,
        };
        Type::new(Self::table().insert_with(make))
    }

    /// It was made by a function whose name ends in `_c`.
    pub(crate) fn is_large(datatype: &datatype::Datatype) -> bool {
        datatype.word() & LARGE != 0
    }

    /// The one that Fortran's kinds select: the same handle each time (MPI 19.1.9).
    pub(crate) fn selected(datatype: &datatype::Datatype) -> Type {
        static ALL: Mutex<Vec<(datatype::Contents, Type)>> = Mutex::new(Vec::new());
        let mut all = lock(&ALL);
        let Some(contents) = datatype.contents() else {
            return Type::NULL;
        };
        let same =
            |known: &datatype::Contents| (known.combiner, &known.integers) == (contents.combiner, &contents.integers);
        if let Some((_, known)) = all.iter().find(|(known, _)| same(known)) {
            return *known;
        }
        let made = Self::insert(datatype, true);
        all.push((contents.clone(), made));
        made
    }

    /// It is such a one.
    pub(crate) fn is_selected(&self) -> bool {
        use datatype::Combiner::{F90Complex, F90Integer, F90Real};
        matches!(self.datatype.combiner(), F90Complex | F90Integer | F90Real)
    }

    /// Calls `f` with a handle of a datatype of the engine's: the one of which it was made, or, if that was freed, one that
    /// there is for this call.
    pub(crate) fn lend<R>(datatype: &datatype::Datatype, f: impl FnOnce(Handle) -> R) -> R {
        let named = Type::new(Handle(datatype.word() as u32));
        if named.find().is_some() {
            return f(named.handle());
        }
        let lent = Self::insert(datatype, true);
        let result = f(lent.handle());
        // (The function may have freed it.)
        let _ = lent.remove();
        result
    }

    /// A handle that the program frees, of a datatype of which another was made: a predefined one, or a new one.
    pub(crate) fn reference_to(datatype: &datatype::Datatype) -> Type {
        let named = Type::new(Handle(datatype.word() as u32));
        match named.find() {
            Some(found) if named.is_predefined() || found.is_selected() => named,
            _ => Self::insert(datatype, true),
        }
    }

    /// The engine's datatype, for a message.
    ///
    /// # Errors
    /// It is not committed.
    #[inline]
    pub fn for_message(&self) -> Result<&datatype::Datatype, Failure> {
        if self.is_committed() {
            return Ok(&self.datatype);
        }
        let text = "the datatype is not committed";
        Err(Failure::text(hikyaku::mpi::error::ErrorClass::Type, text))
    }
}
