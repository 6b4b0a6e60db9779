//! The objects behind handles. Each sort has a [`Table`]; predefined ones are made when they are first asked for.

mod attribute;
mod buffered;
mod communicator;
mod datatype;
mod error_handler;
mod operation;
mod request;
mod table;
mod window;

use core::marker::PhantomData;
use std::{
    ops::Deref,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use hikyaku::mpi::{engine::MatchedMessage, error::ErrorClass};

pub use hikyaku::mpi::group::Group;

pub use self::{
    attribute::{Attributes, Callbacks, create_key, free_key, key},
    buffered::{Buffered, Owner},
    communicator::{Communicator, Neighbours, Topology},
    datatype::{Datatype, PREDEFINED},
    error_handler::{Callback, Handler},
    operation::{Function, Operation},
    request::{Ended, Pair, Place, Request, RequestObject, Work},
    table::{FOREIGN, Table},
    window::Window,
};
use crate::{
    abi::{Handle, Sort},
    border::Failure,
    process,
};

/// A message that a probe has matched.
pub type Matched = Mutex<Option<MatchedMessage>>;

/// An info object.
#[derive(Debug, Default)]
pub struct InfoObject(pub Mutex<hikyaku::mpi::info::Info>);

impl InfoObject {
    /// `MPI_INFO_ENV`.
    fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static ENV: LazyLock<Arc<InfoObject>> =
            LazyLock::new(|| Arc::new(InfoObject(Mutex::new(InfoObject::of_process()))));
        (number == 0x131).then(|| &*ENV)
    }

    /// What is known of this process.
    pub(crate) fn of_process() -> hikyaku::mpi::info::Info {
        let processes = process::joined().map_or(1, |joined| joined.engine.size());
        let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
        hikyaku::mpi::info::Info::of_process(arguments, processes, "MPI_THREAD_MULTIPLE")
    }
}

/// A session.
#[derive(Debug)]
pub struct SessionObject {
    /// Its error handler.
    pub handler: Mutex<Held<Handler>>,
    /// Its buffer for buffered sends.
    pub buffered: Buffered,
}

/// A sort of objects.
pub trait Object: Sized + Send + Sync + 'static {
    /// Its sort of handle.
    const SORT: Sort;
    /// The number of its null handle.
    const NULL: u32;
    /// The class of the error that a handle is none.
    const CLASS: ErrorClass;
    /// Its objects have error handlers.
    const HAS_HANDLER: bool = false;

    /// Its objects.
    fn table() -> &'static Table<Self>;

    /// The predefined object of this number.
    fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        let _ = number;
        None
    }

    /// Puts the object into the table, if its handle was given out elsewhere and it is not there yet.
    #[inline]
    fn call_in(handle: Handle) {
        let _ = handle;
    }
}

/// A handle of an object of sort `T`, as the program has given it: perhaps of none.
#[derive(Debug)]
pub struct Named<T> {
    handle: Handle,
    sort: PhantomData<fn() -> T>,
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Named<T> {}

impl<T> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

/// An object that is in use.
#[derive(Debug)]
pub enum Held<T: 'static> {
    /// A predefined one.
    Static(&'static Arc<T>),
    /// One of the program's.
    Counted(Arc<T>),
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(object) => Self::Static(object),
            Self::Counted(object) => Self::Counted(Arc::clone(object)),
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match self {
            Self::Static(object) => object,
            Self::Counted(object) => object,
        }
    }
}

impl<T: Object> Named<T> {
    /// The null handle.
    pub const NULL: Self = Self::new(Handle(T::NULL));

    /// This handle as one of `T`.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        Self {
            handle,
            sort: PhantomData,
        }
    }

    /// A predefined one.
    #[must_use]
    pub const fn number(number: u32) -> Self {
        Self::new(Handle(number))
    }

    /// One that the engine knows by this number.
    #[must_use]
    #[inline]
    pub fn numbered(number: u32) -> Self {
        debug_assert!(number & FOREIGN != 0);
        Self::number(number)
    }

    /// The number by which the engine knows it, or knew it before it was called in.
    #[must_use]
    #[inline]
    pub fn number_of(self) -> Option<u32> {
        (self.handle.0 & FOREIGN != 0).then_some(self.handle.0)
    }

    /// The handle.
    #[must_use]
    pub const fn handle(self) -> Handle {
        self.handle
    }

    /// It is the null handle.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.handle.0 == T::NULL
    }

    /// It is predefined.
    #[must_use]
    pub fn is_predefined(self) -> bool {
        self.handle.0 < Handle::FIRST
    }

    /// The object, if it is predefined and there is one: it stays as long as the process runs.
    #[inline(always)]
    pub(crate) fn predefined(self) -> Option<&'static Arc<T>> {
        (self.handle.0 < Handle::FIRST)
            .then(|| T::predefined(self.handle.0))
            .flatten()
    }

    /// The object, if there is one.
    #[inline(always)]
    #[must_use]
    pub fn find(self) -> Option<Held<T>> {
        if self.handle.0 < Handle::FIRST {
            return T::predefined(self.handle.0).map(Held::Static);
        }
        self.find_in_table()
    }

    #[inline(never)]
    fn find_in_table(self) -> Option<Held<T>> {
        T::call_in(self.handle);
        T::table().get(self.handle).map(Held::Counted)
    }

    /// The object.
    ///
    /// # Errors
    /// There is none: the handle is null, freed, or of another sort.
    #[inline(always)]
    pub fn get(self) -> Result<Held<T>, Failure> {
        self.find().ok_or_else(|| self.missing())
    }

    #[cold]
    fn missing(self) -> Failure {
        let text = if self.is_null() {
            "the handle is null"
        } else if self.is_predefined() && !process::is_running() {
            "MPI has not begun, or is over"
        } else {
            "the handle is of no object: it was freed, or never was one"
        };
        Failure::text(T::CLASS, text)
    }

    /// A new object.
    #[must_use]
    pub fn insert(object: T) -> Self {
        Self::new(T::table().insert(object))
    }

    /// The objects of these handles, in their order, each with whether its handle was freed: it is not if `stays` says so.
    ///
    /// # Errors
    /// One of the handles is of no object; then none is freed.
    pub fn take(
        all: impl Iterator<Item = Self> + Clone,
        stays: impl Fn(&T) -> bool,
    ) -> Result<Vec<(Arc<T>, bool)>, Failure> {
        all.clone().for_each(|named| T::call_in(named.handle));
        let taken = T::table().take(all.map(Self::handle), stays);
        taken.map_err(|handle| Self::new(handle).missing())
    }

    /// The memory of objects that were taken, and are over, is for the next ones.
    pub fn keep(taken: Vec<(Arc<T>, bool)>) {
        T::table().keep(
            taken
                .into_iter()
                .filter_map(|(object, was_taken)| was_taken.then_some(object)),
        );
    }

    /// Frees the handle; the object lives until nothing uses it any more.
    ///
    /// # Errors
    /// As [`get`](Self::get), and for predefined ones.
    pub fn remove(self) -> Result<Arc<T>, Failure> {
        T::call_in(self.handle);
        T::table().remove(self.handle).ok_or_else(|| {
            if self.is_predefined() && !self.is_null() {
                return Failure::text(T::CLASS, "it is predefined, and cannot be freed");
            }
            self.missing()
        })
    }
}

/// Locks a mutex, whatever has become of a thread that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident = $object:ty: $sort:ident $null:literal $class:ident $handler:literal
        $(, $predefined:expr $(, $call_in:expr)?)?;)*) => {
        $(
            $(#[$doc])*
            pub type $name = Named<$object>;

            impl Object for $object {
                const SORT: Sort = Sort::$sort;
                const NULL: u32 = $null;
                const CLASS: ErrorClass = ErrorClass::$class;
                const HAS_HANDLER: bool = $handler;

                fn table() -> &'static Table<Self> {
                    static TABLE: Table<$object> = Table::new();
                    &TABLE
                }

                $(
                    #[inline]
                    fn predefined(number: u32) -> Option<&'static Arc<Self>> {
                        $predefined(number)
                    }

                    $(
                        #[inline]
                        fn call_in(handle: Handle) {
                            $call_in(handle);
                        }
                    )?
                )?
            }
        )*
    };
}

objects! {
    /// `MPI_Comm`.
    Comm = Communicator: Comm 0x100 Comm true, process::predefined;
    /// `MPI_Datatype`.
    Type = Datatype: Type 0x200 Type false, Datatype::predefined;
    /// `MPI_Group`.
    Ranks = Group: Group 0x108 Group false, empty_group;
    /// `MPI_Op`.
    Op = Operation: Op 0x20 Op false, Operation::predefined;
    /// `MPI_Request`.
    Pending = RequestObject: Request 0x180 Request false, RequestObject::predefined, RequestObject::call_in;
    /// `MPI_Message`.
    Message = Matched: Message 0x128 Request false, no_message, call_in_message;
    /// `MPI_Info`.
    Info = InfoObject: Info 0x130 Info false, InfoObject::predefined;
    /// `MPI_Win`.
    Win = Window: Win 0x110 Win true;
    /// `MPI_Session`.
    Session = SessionObject: Session 0x120 Session true;
    /// `MPI_Errhandler`.
    Errhandler = Handler: Errhandler 0x140 Errhandler false, Handler::predefined;
}

impl Comm {
    /// `MPI_COMM_WORLD`.
    pub(crate) const WORLD: Self = Self::number(0x101);
}

impl Pending {
    /// Any send that ended when it began.
    pub const SENT: Self = Self::number(0x181);
}

const _: () = assert!(FOREIGN == hikyaku::mpi::engine::Engine::NUMBERED);

fn no_message(_: u32) -> Option<&'static Arc<Matched>> {
    None
}

/// A message that the engine knows by a number becomes an object, for calls that need one.
fn call_in_message(handle: Handle) {
    let (Some(number), Some(joined)) = (Message::new(handle).number_of(), process::joined()) else {
        return;
    };
    let Some(comm) = joined.engine.word_of_message(number) else {
        return;
    };
    // (A program may have freed the communicator meanwhile.)
    let found = Comm::number(comm).find().or_else(|| Comm::WORLD.find());
    if let Some(message) = found.and_then(|found| found.comm.adopt_message(number)) {
        Matched::table().adopt(handle, Mutex::new(Some(message)));
    }
}

fn empty_group(number: u32) -> Option<&'static Arc<Group>> {
    static EMPTY: LazyLock<Arc<Group>> = LazyLock::new(|| Arc::new(Group::EMPTY));
    (number == 0x109).then(|| &*EMPTY)
}
