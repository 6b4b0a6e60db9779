//! Datatypes by precision and range, as Fortran selects kinds (MPI 19.1.9).

use alloc::{sync::Arc, vec::Vec};

use super::{Combiner, Contents, Datatype, DatatypeError, Kind};

/// Kinds of reals with their decimal digits and exponents, the smallest first.
const REALS: [(i64, i64, Kind, Kind); 4] = [
    (6, 37, Kind::F32, Kind::Complex32),
    (15, 307, Kind::F64, Kind::Complex64),
    (18, 4931, Kind::F80, Kind::Complex80),
    (33, 4931, Kind::F128, Kind::Complex128),
];

/// Kinds of integers with the powers of ten that they hold.
const INTEGERS: [(i64, Kind); 5] = [
    (2, Kind::I8),
    (4, Kind::I16),
    (9, Kind::I32),
    (18, Kind::I64),
    (38, Kind::I128),
];

/// Datatypes of Fortran's kinds. They are predefined, and know their arguments.
impl Datatype {
    /// The smallest real with at least `precision` decimal digits and the exponent `range`
    /// (`MPI_Type_create_f90_real`); `None` demands nothing.
    ///
    /// # Errors
    /// No kind is so large, or both are `None`.
    pub fn f90_real(precision: Option<i64>, range: Option<i64>) -> Result<Self, DatatypeError> {
        let found = real(precision, range)?;
        Ok(Self::selected(Combiner::F90Real, &[precision, range], found.2))
    }

    /// The complex of two such reals (`MPI_Type_create_f90_complex`).
    ///
    /// # Errors
    /// As [`f90_real`](Self::f90_real).
    pub fn f90_complex(precision: Option<i64>, range: Option<i64>) -> Result<Self, DatatypeError> {
        let found = real(precision, range)?;
        Ok(Self::selected(Combiner::F90Complex, &[precision, range], found.3))
    }

    /// The smallest integer that holds all numbers of `range` decimal digits (`MPI_Type_create_f90_integer`).
    ///
    /// # Errors
    /// No kind is so large.
    pub fn f90_integer(range: i64) -> Result<Self, DatatypeError> {
        let found = INTEGERS.iter().find(|row| row.0 >= range);
        let found = found.ok_or(DatatypeError::NoSuchKind)?;
        Ok(Self::selected(Combiner::F90Integer, &[Some(range)], found.1))
    }

    fn selected(combiner: Combiner, arguments: &[Option<i64>], kind: Kind) -> Self {
        let contents = Contents {
            combiner,
            integers: arguments.iter().map(|argument| argument.unwrap_or(-1)).collect(),
            addresses: Vec::new(),
            datatypes: Vec::new(),
        };
        let mut inner = (*Self::predefined(kind).0).clone();
        inner.contents = Some(Arc::new(contents));
        Self::from(inner)
    }
}

fn real(precision: Option<i64>, range: Option<i64>) -> Result<&'static (i64, i64, Kind, Kind), DatatypeError> {
    let is_enough = |has: i64, wanted: Option<i64>| wanted.is_none_or(|wanted| has >= wanted);
    let mut all = REALS.iter();
    all.find(|row| is_enough(row.0, precision) && is_enough(row.1, range))
        .filter(|_| precision.or(range).is_some())
        .ok_or(DatatypeError::NoSuchKind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_kind_is_taken() {
        let kind = |made: Result<Datatype, DatatypeError>| made.unwrap().kind().unwrap();
        assert_eq!(kind(Datatype::f90_real(Some(6), Some(30))), Kind::F32);
        assert_eq!(kind(Datatype::f90_real(Some(7), None)), Kind::F64);
        assert_eq!(kind(Datatype::f90_real(None, Some(400))), Kind::F80);
        assert_eq!(kind(Datatype::f90_complex(Some(20), Some(1))), Kind::Complex128);
        assert_eq!(kind(Datatype::f90_integer(9)), Kind::I32);
        assert_eq!(kind(Datatype::f90_integer(10)), Kind::I64);
        for none in [
            Datatype::f90_real(None, None),
            Datatype::f90_real(Some(34), None),
            Datatype::f90_integer(39),
        ] {
            assert_eq!(none.unwrap_err(), DatatypeError::NoSuchKind);
        }
        let made = Datatype::f90_real(Some(15), None).unwrap();
        assert_eq!(made.combiner(), Combiner::F90Real);
        assert_eq!(made.contents().unwrap().integers, [15, -1]);
    }
}
