//! Error codes: the numbers that C programs get for errors, and those that programs add (MPI 9.4, 9.5).

use alloc::{
    borrow::{Cow, ToOwned},
    collections::BTreeMap,
    string::{String, ToString},
};

use super::error::{Detail, Error, ErrorClass};

/// What becomes of an error on a communicator, window, file or session (MPI 9.3). The interface looks here when a call
/// fails; `F` is its callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorHandler<F> {
    /// `MPI_ERRORS_ARE_FATAL`: all processes of the job are aborted.
    #[default]
    Fatal,
    /// `MPI_ERRORS_ABORT`: the processes of the communicator, window or file are.
    Abort,
    /// `MPI_ERRORS_RETURN`: the call returns a code.
    Return,
    /// The program is called, and then the call returns a code (`MPI_Comm_create_errhandler`).
    Call(F),
}

/// The numbers of error classes as an ABI has them.
pub type Numbers = fn(ErrorClass) -> i32;

/// Error codes of a process. There are three sorts:
/// - an error class of MPI, as the ABI numbers it, 0 to 127;
/// - the code of an [`Error`] that has been noted: its text is remembered until [`NOTED`](Self::NOTED) more have been.
///   It is the class plus a multiple of 128, and at most 16,383, which is `MPI_ERR_LASTCODE` of the standard ABI;
/// - classes and codes that the program has added, which come after the ABI's `MPI_ERR_LASTCODE`.
#[derive(Debug)]
pub struct ErrorCodes {
    numbers: Numbers,
    /// The last errors, by their number among [`NOTED`](Self::NOTED).
    noted: [Option<Error>; Self::NOTED],
    /// Errors noted so far.
    count: usize,
    /// What the program has added: the class of each code (a class is a code of its own class), and its text.
    added: BTreeMap<i32, (i32, String)>,
    /// The next code to be given out.
    next: i32,
}

/// An addition or removal that is not possible.
const WRONG: &str = "the program has added no such class or code, or still uses it";

impl ErrorCodes {
    /// Errors whose texts are remembered.
    pub const NOTED: usize = 127;
    /// Codes of errors are classes plus a multiple of this.
    const CLASSES: i32 = 128;

    /// `last`: the ABI's `MPI_ERR_LASTCODE`, at least 16,383.
    #[must_use]
    pub fn new(numbers: Numbers, last: i32) -> Self {
        Self {
            numbers,
            noted: [None; Self::NOTED],
            count: 0,
            added: BTreeMap::new(),
            next: last + 1,
        }
    }

    /// Notes an error that a call returns, and gives its code. For that of a callback ([`Detail::Code`]) it is the
    /// callback's.
    pub fn note(&mut self, error: &Error) -> i32 {
        if let Detail::Code(code) = *error.detail() {
            return code;
        }
        let place = self.count % Self::NOTED;
        self.count += 1;
        self.noted[place] = Some(*error);
        (place as i32 + 1) * Self::CLASSES + (self.numbers)(error.class())
    }

    fn class_numbered(&self, number: i32) -> Option<ErrorClass> {
        let mut all = ErrorClass::ALL.iter().copied();
        all.find(|class| (self.numbers)(*class) == number)
    }

    /// The class of a code (`MPI_Error_class`); `None` if it is no code.
    #[must_use]
    pub fn class(&self, code: i32) -> Option<i32> {
        if let Some((class, _)) = self.added.get(&code) {
            return Some(*class);
        }
        let number = code % Self::CLASSES;
        let is_code = (0..(Self::NOTED as i32 + 1) * Self::CLASSES).contains(&code);
        self.class_numbered(number).filter(|_| is_code).map(|_| number)
    }

    /// The text of a code (`MPI_Error_string`); `None` if it is no code.
    #[must_use]
    pub fn text(&self, code: i32) -> Option<Cow<'_, str>> {
        if let Some((_, text)) = self.added.get(&code) {
            return Some(Cow::Borrowed(text));
        }
        let class = self.class_numbered(self.class(code)?)?;
        let place = usize::try_from(code / Self::CLASSES - 1).ok();
        let noted = place.and_then(|place| self.noted[place]);
        Some(match noted.filter(|error| error.class() == class) {
            Some(error) => Cow::Owned(error.to_string()),
            None => Cow::Owned(class.to_string()),
        })
    }

    /// The largest code in use (`MPI_LASTUSEDCODE`).
    #[must_use]
    pub fn last_used(&self) -> i32 {
        self.next - 1
    }

    /// Adds a class (`MPI_Add_error_class`), without a text.
    pub fn add_class(&mut self) -> i32 {
        self.added.insert(self.next, (self.next, String::new()));
        self.next += 1;
        self.next - 1
    }

    /// Adds a code to a class (`MPI_Add_error_code`), without a text.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if there is no such class.
    pub fn add_code(&mut self, class: i32) -> Result<i32, Error> {
        if self.class(class) != Some(class) {
            return Err(wrong("MPI_Add_error_code"));
        }
        let code = self.add_class();
        self.added.insert(code, (class, String::new()));
        Ok(code)
    }

    /// Gives a class or code that has been added a text (`MPI_Add_error_string`); an empty one removes it
    /// (`MPI_Remove_error_string`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it has not been added.
    pub fn set_text(&mut self, code: i32, text: &str) -> Result<(), Error> {
        let added = self.added.get_mut(&code);
        let (_, place) = added.ok_or_else(|| wrong("MPI_Add_error_string"))?;
        text.clone_into(place);
        Ok(())
    }

    /// Removes a class (`MPI_Remove_error_class`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it has not been added, or has codes or a text.
    pub fn remove_class(&mut self, class: i32) -> Result<(), Error> {
        let codes = self.added.values().filter(|(of, _)| *of == class).count();
        match self.added.get(&class) {
            Some((_, text)) if codes == 1 && text.is_empty() => {
                self.added.remove(&class);
                Ok(())
            }
            _ => Err(wrong("MPI_Remove_error_class")),
        }
    }

    /// Removes a code (`MPI_Remove_error_code`).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it has not been added, is a class, or has a text.
    pub fn remove_code(&mut self, code: i32) -> Result<(), Error> {
        match self.added.get(&code) {
            Some((class, text)) if *class != code && text.is_empty() => {
                self.added.remove(&code);
                Ok(())
            }
            _ => Err(wrong("MPI_Remove_error_code")),
        }
    }
}

fn wrong(call: &'static str) -> Error {
    Error::new(ErrorClass::Arg, call).with_detail(Detail::Text(WRONG))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: i32 = 0x3fff;

    fn codes() -> ErrorCodes {
        ErrorCodes::new(ErrorClass::number, LAST)
    }

    #[test]
    fn classes_are_codes() {
        let codes = codes();
        for class in ErrorClass::ALL {
            let number = class.number();
            assert_eq!(codes.class(number), Some(number), "{class}");
            assert_eq!(codes.text(number).unwrap(), class.to_string());
        }
        for other in [-1, 90, LAST, LAST + 1, i32::MAX] {
            assert_eq!((codes.class(other), codes.text(other)), (None, None), "{other}");
        }
    }

    #[test]
    fn errors_are_remembered_for_a_while() {
        let mut codes = codes();
        let first = Error::rank("MPI_Send", 7, 4);
        let code = codes.note(&first);
        assert!(code > 127);
        assert_eq!(codes.class(code), Some(ErrorClass::Rank.number()));
        assert_eq!(codes.text(code).unwrap(), first.to_string());
        let most = (0..ErrorCodes::NOTED)
            .map(|_| codes.note(&Error::new(ErrorClass::Count, "MPI_Recv")))
            .max();
        assert!(most.unwrap() <= LAST);
        // Its place has been taken: the class is still right.
        assert_eq!(codes.text(code).unwrap(), ErrorClass::Rank.to_string());
        assert_eq!(codes.class(code), Some(ErrorClass::Rank.number()));
        assert_eq!(
            codes.note(&Error::new(ErrorClass::Other, "MPI_Comm_dup").with_detail(Detail::Code(99))),
            99
        );
    }

    #[test]
    fn programs_add_and_remove() {
        let mut codes = codes();
        let class = codes.add_class();
        let code = codes.add_code(class).unwrap();
        let also = codes.add_code(ErrorClass::Io.number()).unwrap();
        assert_eq!([class, code, also], [LAST + 1, LAST + 2, LAST + 3]);
        assert_eq!(codes.last_used(), also);
        assert_eq!(
            [class, code, also].map(|code| codes.class(code).unwrap()),
            [class, class, 35]
        );
        assert!(codes.add_code(code).is_err() && codes.set_text(35, "x").is_err());
        codes.set_text(code, "too hot").unwrap();
        assert_eq!(
            (codes.text(code).unwrap(), codes.text(class).unwrap()),
            ("too hot".into(), "".into())
        );
        assert!(codes.remove_class(class).is_err(), "it has a code");
        assert!(codes.remove_code(class).is_err() && codes.remove_class(code).is_err());
        assert!(codes.remove_code(code).is_err(), "it has a text");
        codes.set_text(code, "").unwrap();
        codes.remove_code(code).unwrap();
        codes.set_text(class, "heat").unwrap();
        assert!(codes.remove_class(class).is_err(), "it has a text");
        codes.set_text(class, "").unwrap();
        codes.remove_class(class).unwrap();
        assert_eq!((codes.class(code), codes.class(class)), (None, None));
        assert!(codes.remove_code(code).is_err());
    }
}
