//! Error handlers. One lives as long as the program has its handle or an object has it (MPI 9.3.4).

use std::sync::{Arc, LazyLock, Mutex};

use hikyaku::mpi::error_code::ErrorHandler;

use super::{Errhandler, Held, Object, lock};
use crate::{abi::Sort, border::Failure};

/// The number of `MPI_ERRORS_ARE_FATAL`, after which the other predefined ones are.
const FIRST: u32 = 0x141;

/// A function of the program that is told of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Its address.
    pub function: usize,
    /// The sort of objects that it is for.
    pub sort: Sort,
}

/// An error handler.
#[derive(Debug)]
pub struct Handler {
    /// What it does.
    pub does: ErrorHandler<Callback>,
    given: Mutex<Given>,
}

/// The handle by which the program knows it.
#[derive(Debug)]
struct Given {
    /// Null while the program has none.
    handle: Errhandler,
    /// How often the program has been given it and has not freed it.
    times: u32,
}

impl Handler {
    /// The predefined handler of this number.
    pub(super) fn predefined(number: u32) -> Option<&'static Arc<Self>> {
        static ALL: LazyLock<[Arc<Handler>; 3]> = LazyLock::new(|| {
            let all = [ErrorHandler::Fatal, ErrorHandler::Abort, ErrorHandler::Return];
            let mut numbers = FIRST..;
            all.map(|does| {
                Arc::new(Handler::given(
                    does,
                    Errhandler::number(numbers.next().unwrap_or_default()),
                ))
            })
        });
        ALL.get(number.checked_sub(FIRST)? as usize)
    }

    /// `MPI_ERRORS_ARE_FATAL`.
    pub(crate) fn fatal() -> Held<Self> {
        Errhandler::number(FIRST).find().expect("it is predefined")
    }

    /// A new one, which calls this function of the program. The program has its handle.
    pub(crate) fn calling(function: usize, sort: Sort) -> Errhandler {
        let does = ErrorHandler::Call(Callback { function, sort });
        let make = |handle| Self::given(does, Errhandler::new(handle));
        Errhandler::new(Self::table().insert_with(make))
    }

    /// The handler with this handle, for an object of this sort.
    ///
    /// # Errors
    /// It is the handle of none, or of one for objects of another sort.
    pub(crate) fn for_sort(sort: Sort, handle: Errhandler) -> Result<Held<Self>, Failure> {
        let handler = handle.get()?;
        match handler.does {
            ErrorHandler::Call(callback) if callback.sort != sort => Err(Failure::text(
                Self::CLASS,
                "the error handler is for objects of another sort",
            )),
            _ => Ok(handler),
        }
    }

    fn given(does: ErrorHandler<Callback>, handle: Errhandler) -> Self {
        Self {
            does,
            given: Mutex::new(Given { handle, times: 1 }),
        }
    }

    /// Gives the program the handle of a handler that an object has: the one that it has already, if it has one. The
    /// program frees it as if it were new.
    pub(crate) fn give(handler: &Held<Self>) -> Errhandler {
        let mut given = lock(&handler.given);
        if given.handle.is_null() {
            given.handle = Errhandler::new(Self::table().insert_shared(handler));
        }
        if !given.handle.is_predefined() {
            given.times += 1;
        }
        given.handle
    }

    /// The program frees a handle that it was given. Predefined ones stay.
    ///
    /// # Errors
    /// It is the handle of none, or was freed as often as it was given.
    pub(crate) fn free(handle: Errhandler) -> Result<(), Failure> {
        let handler = handle.get()?;
        if handle.is_predefined() {
            return Ok(());
        }
        let mut given = lock(&handler.given);
        if given.handle != handle {
            return Err(handle.missing());
        }
        given.times -= 1;
        if given.times == 0 {
            given.handle = Errhandler::NULL;
            handle.remove()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_lives_while_the_program_or_an_object_has_it() {
        let handle = Handler::calling(1, Sort::Comm);
        let attached = handle.get().unwrap();
        let watched = Arc::downgrade(&attached);
        assert_eq!(Handler::give(&attached), handle);
        Handler::free(handle).unwrap();
        assert!(handle.get().is_ok(), "the program was given it twice");
        Handler::free(handle).unwrap();
        assert!(handle.get().is_err());
        assert!(Handler::free(handle).is_err());
        assert!(watched.upgrade().is_some(), "the object has it");

        let again = Handler::give(&attached);
        assert!(again != handle && Arc::ptr_eq(&again.get().unwrap(), &attached));
        drop(attached);
        assert!(watched.upgrade().is_some(), "the program has it");
        Handler::free(again).unwrap();
        assert!(watched.upgrade().is_none());
    }

    #[test]
    fn predefined_handlers_stay() {
        let fatal = Handler::fatal();
        let handle = Handler::give(&fatal);
        assert_eq!(handle, Errhandler::number(0x141));
        Handler::free(handle).unwrap();
        assert!(matches!(handle.get().unwrap().does, ErrorHandler::Fatal));
    }
}
