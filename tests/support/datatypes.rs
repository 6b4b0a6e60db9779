//! Checks any datatype. A fuzz target calls this function, too.

use hikyaku::mpi::datatype::{Datatype, Kind, Order};

/// Where elements are looked for.
const MEMORY: usize = 1 << 14;
/// Bytes of data in one element; more is not tried.
const LARGEST: u64 = 1 << 16;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number with sign: small ones mostly, sometimes any.
    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::from_be_bytes(std::array::from_fn(|_| self.byte())),
            254 => i64::MAX,
            253 => i64::MIN,
            byte @ 128.. => i64::from(byte) - 192,
            byte => i64::from(byte),
        }
    }

    fn numbers(&mut self) -> Vec<i64> {
        let len = self.byte() % 6;
        (0..len).map(|_| self.number()).collect()
    }

    /// A datatype, if what these bytes say makes one.
    fn datatype(&mut self, depth: u32) -> Option<Datatype> {
        let kind = Kind::ALL[usize::from(self.byte()) % Kind::ALL.len()];
        let code = if depth == 0 { 0 } else { self.byte() % 11 };
        if code == 0 {
            return Some(Datatype::predefined(kind));
        }
        let child = self.datatype(depth - 1)?;
        let made = match code {
            1 => Datatype::contiguous(self.number(), &child),
            2 => Datatype::vector(self.number(), self.number(), self.number(), &child),
            3 => Datatype::hvector(self.number(), self.number(), self.number(), &child),
            4 => Datatype::indexed(&self.numbers(), &self.numbers(), &child),
            5 => Datatype::hindexed(&self.numbers(), &self.numbers(), &child),
            6 => Datatype::indexed_block(self.number(), &self.numbers(), &child),
            7 => Datatype::hindexed_block(self.number(), &self.numbers(), &child),
            8 => {
                let other = self.datatype(depth - 1)?;
                Datatype::structure(&self.numbers(), &self.numbers(), &[child, other])
            }
            9 => {
                let order = if self.byte().is_multiple_of(2) {
                    Order::C
                } else {
                    Order::Fortran
                };
                Datatype::subarray(&self.numbers(), &self.numbers(), &self.numbers(), order, &child)
            }
            _ => Datatype::resized(self.number(), self.number(), &child),
        };
        // An error says what is wrong.
        made.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
    }
}

/// Makes a datatype from bytes, packs elements of it and unpacks them again, piece by piece.
pub(crate) fn datatype(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    let Some(datatype) = reader.datatype(5) else { return };
    let count = u64::from(reader.byte() % 4);
    let (low, high) = (
        datatype.true_lower_bound(),
        datatype.true_lower_bound() + datatype.true_extent(),
    );
    assert!(low <= high);
    let Ok(size) = datatype.packed_size(count) else { return };
    let origin = MEMORY / 2;
    let memory: Vec<u8> = (0..MEMORY).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut packed = vec![0; size.min(LARGEST) as usize];
    // Only what lies in memory is touched, or nothing at all.
    let Ok(len) = datatype.pack(&memory, origin, count, 0, &mut packed) else {
        return;
    };
    assert_eq!(len, packed.len());
    let segments = datatype.segments(count, 0..packed.len() as u64);
    let places: Vec<usize> = segments
        .flat_map(|segment| segment.offset..segment.offset + segment.len as i64)
        .map(|offset| (origin as i64 + offset) as usize)
        .collect();
    assert_eq!(places.len(), packed.len());
    assert!(places.iter().zip(&packed).all(|(place, byte)| memory[*place] == *byte));
    if size > LARGEST || datatype.check_receive(count).is_err() {
        return;
    }
    let mut again = vec![0xee; MEMORY];
    let piece = usize::from(reader.byte()) + 1;
    for (number, bytes) in packed.chunks(piece).enumerate() {
        let offset = (number * piece) as u64;
        let unpacked = datatype.unpack(&mut again, origin, count, offset, bytes);
        assert_eq!(unpacked, Ok(bytes.len()));
    }
    let mut expected = vec![0xee; MEMORY];
    for place in places {
        expected[place] = memory[place];
    }
    assert!(again == expected, "not what was packed, or beside it");
}
