//! How a datatype was made (MPI 5.1.13): its constructor and the arguments of that.

use alloc::{sync::Arc, vec::Vec};

use super::{Combiner, Contents, Datatype, layout::Shared};

impl PartialEq for Datatype {
    /// The same layout and kinds, not necessarily made in the same way.
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Datatype {
    /// How it was made (`MPI_Type_get_envelope`).
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.contents().map_or(Combiner::Named, |contents| contents.combiner)
    }

    /// The arguments with which it was made (`MPI_Type_get_contents`); `None` for a predefined one.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        self.0.contents.as_deref()
    }

    /// The same datatype, made anew (`MPI_Type_dup`). It has no [`word`](Self::word).
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let contents = Contents {
            combiner: Combiner::Dup,
            integers: Vec::new(),
            addresses: Vec::new(),
            datatypes: Vec::from([self.clone()]),
        };
        let mut inner = (*self.0).clone();
        (inner.contents, inner.predefined, inner.word) = (Some(Arc::new(contents)), self.kind(), 0);
        Self::from(inner)
    }

    /// The same datatype with a word of the caller: whoever gets the datatype again (an operation of the user, the owner
    /// of a datatype made of it) finds the word in it. So an interface above finds its own handle.
    #[must_use]
    pub fn with_word(&self, word: u64) -> Self {
        let mut inner = (*self.0).clone();
        inner.word = word;
        Self::from(inner)
    }

    /// The word that [`with_word`](Self::with_word) has set; 0 if none.
    #[must_use]
    pub fn word(&self) -> u64 {
        self.0.word
    }

    /// Notes how it was made. It is not shared yet.
    pub(super) fn made(
        mut self,
        combiner: Combiner,
        integers: impl IntoIterator<Item = i64>,
        addresses: &[i64],
        datatypes: &[Self],
    ) -> Self {
        if let Shared::Counted(inner) = &mut self.0
            && let Some(inner) = Arc::get_mut(inner)
        {
            inner.contents = Some(Arc::new(Contents {
                combiner,
                integers: integers.into_iter().collect(),
                addresses: addresses.to_vec(),
                datatypes: datatypes.to_vec(),
            }));
        }
        self
    }
}
