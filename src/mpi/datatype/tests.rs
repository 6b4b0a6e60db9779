//! Datatypes against their definition: the type map written out, entry by entry.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use proptest::prelude::*;

use super::*;

/// How a datatype is made.
#[derive(Clone, Debug)]
enum Recipe {
    Predefined(Kind),
    Contiguous(i64, Box<Self>),
    Vector(i64, i64, i64, Box<Self>),
    Hvector(i64, i64, i64, Box<Self>),
    Indexed(Vec<(i64, i64)>, Box<Self>),
    Hindexed(Vec<(i64, i64)>, Box<Self>),
    IndexedBlock(i64, Vec<i64>, Box<Self>),
    HindexedBlock(i64, Vec<i64>, Box<Self>),
    Structure(Vec<(i64, i64, Self)>),
    Subarray(Vec<(i64, i64, i64)>, Order, Box<Self>),
    Resized(i64, i64, Box<Self>),
}

/// An entry of a type map.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Data(Kind),
    LowerBound,
    UpperBound,
    /// The end of the data with padding, which marks win over.
    End,
}

/// A type map as the standard defines it, with the padding of parts.
#[derive(Clone, Debug, Default)]
struct Model(Vec<(Entry, i64)>);

impl Recipe {
    fn build(&self) -> Result<Datatype, DatatypeError> {
        match self {
            Self::Predefined(kind) => Ok(Datatype::predefined(*kind)),
            Self::Contiguous(count, child) => Datatype::contiguous(*count, &child.build()?),
            Self::Vector(count, length, stride, child) => Datatype::vector(*count, *length, *stride, &child.build()?),
            Self::Hvector(count, length, stride, child) => Datatype::hvector(*count, *length, *stride, &child.build()?),
            Self::Indexed(blocks, child) => {
                let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::indexed(&lengths, &places, &child.build()?)
            }
            Self::Hindexed(blocks, child) => {
                let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::hindexed(&lengths, &places, &child.build()?)
            }
            Self::IndexedBlock(length, places, child) => Datatype::indexed_block(*length, places, &child.build()?),
            Self::HindexedBlock(length, places, child) => Datatype::hindexed_block(*length, places, &child.build()?),
            Self::Structure(blocks) => {
                let lengths: Vec<_> = blocks.iter().map(|(length, ..)| *length).collect();
                let places: Vec<_> = blocks.iter().map(|(_, place, _)| *place).collect();
                let types: Result<Vec<_>, _> = blocks.iter().map(|(.., child)| child.build()).collect();
                Datatype::structure(&lengths, &places, &types?)
            }
            Self::Subarray(dimensions, order, child) => {
                let sizes: Vec<_> = dimensions.iter().map(|(size, ..)| *size).collect();
                let subsizes: Vec<_> = dimensions.iter().map(|(_, subsize, _)| *subsize).collect();
                let starts: Vec<_> = dimensions.iter().map(|(.., start)| *start).collect();
                Datatype::subarray(&sizes, &subsizes, &starts, *order, &child.build()?)
            }
            Self::Resized(low, extent, child) => Datatype::resized(*low, *extent, &child.build()?),
        }
    }

    fn model(&self) -> Model {
        match self {
            Self::Predefined(kind) => {
                let entries = match kind.pair() {
                    Some((value, index)) => {
                        vec![(Entry::Data(value), 0), (Entry::Data(index), kind.alignment() as i64)]
                    }
                    None => vec![(Entry::Data(*kind), 0)],
                };
                Model(entries).padded()
            }
            Self::Contiguous(count, child) => child.model().blocks([(*count, 0)]),
            Self::Vector(count, length, stride, child) => {
                let child = child.model();
                let extent = child.extent();
                child.blocks((0..*count).map(|block| (*length, block * stride * extent)))
            }
            Self::Hvector(count, length, stride, child) => {
                child.model().blocks((0..*count).map(|block| (*length, block * stride)))
            }
            Self::Indexed(blocks, child) => {
                let child = child.model();
                let extent = child.extent();
                child.blocks(blocks.iter().map(|(length, place)| (*length, place * extent)))
            }
            Self::Hindexed(blocks, child) => child.model().blocks(blocks.iter().copied()),
            Self::IndexedBlock(length, places, child) => {
                let child = child.model();
                let extent = child.extent();
                child.blocks(places.iter().map(|place| (*length, place * extent)))
            }
            Self::HindexedBlock(length, places, child) => {
                child.model().blocks(places.iter().map(|place| (*length, *place)))
            }
            Self::Structure(blocks) => {
                let entries = blocks
                    .iter()
                    .flat_map(|(length, place, child)| child.model().blocks([(*length, *place)]).0);
                Model(entries.collect()).padded()
            }
            Self::Subarray(dimensions, order, child) => {
                let child = child.model();
                let mut dimensions = dimensions.clone();
                if *order == Order::Fortran {
                    dimensions.reverse();
                }
                // Elements of the array in the order of memory, of which some belong to the subarray.
                let mut places = vec![0];
                for (size, subsize, start) in &dimensions {
                    let inside = *start..start + subsize;
                    let next = |place: &i64| inside.clone().map(|index| place * size + index).collect::<Vec<_>>();
                    places = places.iter().flat_map(next).collect();
                }
                let extent = child.extent();
                let whole = dimensions.iter().map(|(size, ..)| size).product::<i64>() * extent;
                child
                    .blocks(places.into_iter().map(|place| (1, place * extent)))
                    .resized(0, whole)
            }
            Self::Resized(low, extent, child) => child.model().resized(*low, *extent),
        }
    }
}

impl Model {
    /// Copies of all entries: blocks of so many elements at a place.
    fn blocks(&self, blocks: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let extent = self.extent();
        let mut entries = Vec::new();
        for (length, place) in blocks {
            for element in 0..length {
                let shifted = |(entry, at): &(Entry, i64)| (*entry, at + place + element * extent);
                entries.extend(self.0.iter().map(shifted));
            }
        }
        Self(entries).padded()
    }

    /// With the end of the padding, instead of those of parts before.
    fn padded(self) -> Self {
        let end = self.true_bounds().0 + self.padded_extent();
        let mut entries = self.0;
        entries.retain(|(entry, _)| *entry != Entry::End);
        if entries.iter().any(|(entry, _)| matches!(entry, Entry::Data(_))) {
            entries.push((Entry::End, end));
        }
        Self(entries)
    }

    fn resized(self, low: i64, extent: i64) -> Self {
        let mut entries = self.0;
        entries.retain(|(entry, _)| matches!(entry, Entry::Data(_)));
        entries.extend([(Entry::LowerBound, low), (Entry::UpperBound, low + extent)]);
        Self(entries)
    }

    fn data(&self) -> impl Iterator<Item = (Kind, i64)> + '_ {
        self.0.iter().filter_map(|(entry, at)| match entry {
            Entry::Data(kind) => Some((*kind, *at)),
            _ => None,
        })
    }

    fn marks(&self, wanted: Entry) -> impl Iterator<Item = i64> + '_ {
        let marks = self.0.iter().filter(move |(entry, _)| *entry == wanted);
        marks.map(|(_, at)| *at)
    }

    fn true_bounds(&self) -> (i64, i64) {
        let low = self.data().map(|(_, at)| at).min();
        let high = self.data().map(|(kind, at)| at + kind.size() as i64).max();
        (low.unwrap_or(0), high.unwrap_or(0))
    }

    fn lower_bound(&self) -> i64 {
        self.marks(Entry::LowerBound)
            .min()
            .unwrap_or_else(|| self.true_bounds().0)
    }

    fn extent(&self) -> i64 {
        if let Some(high) = self.marks(Entry::UpperBound).max() {
            return high - self.lower_bound();
        }
        self.padded_extent()
    }

    fn padded_extent(&self) -> i64 {
        let (low, high) = self.true_bounds();
        let high = self.marks(Entry::End).max().map_or(high, |end| end.max(high));
        let alignment = self.data().map(|(kind, _)| kind.alignment()).max().unwrap_or(1);
        ((high - low) as u64).next_multiple_of(alignment) as i64
    }

    /// Where each packed byte of `count` elements lies.
    fn bytes(&self, count: u64) -> Vec<i64> {
        let elements = self.blocks([(count as i64, 0)]);
        let bytes = elements.data().flat_map(|(kind, at)| at..at + kind.size() as i64);
        bytes.collect()
    }

    fn signature(&self) -> Signature {
        let kinds = self.data().map(|(kind, _)| Signature::of(kind));
        kinds.fold(Signature::EMPTY, Signature::then)
    }
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let leaf = kind.prop_map(Recipe::Predefined);
    // Not often nothing.
    let some = |most: i64| prop_oneof![1 => Just(0), 19 => 1..=most];
    let recipe = leaf.prop_recursive(5, 24, 3, move |child| {
        let boxed = || child.clone().prop_map(Box::new);
        let blocks = move |place: Range<i64>| prop::collection::vec((some(3), place), 1..6);
        let places = |place: Range<i64>| prop::collection::vec(place, 0..12);
        let dimension = (1..4_i64, 1..4_i64, 1..3_i64)
            .prop_map(|(subsize, start, rest)| (subsize + start + rest - 2, subsize, start - 1));
        let dimensions = prop::collection::vec(dimension, 0..4);
        let order = prop::sample::select(vec![Order::C, Order::Fortran]);
        prop_oneof![
            (some(4), boxed()).prop_map(|(n, t)| Recipe::Contiguous(n, t)),
            (some(11), some(3), -4..6_i64, boxed()).prop_map(|(n, b, s, t)| Recipe::Vector(n, b, s, t)),
            (some(11), some(3), -40..99_i64, boxed()).prop_map(|(n, b, s, t)| Recipe::Hvector(n, b, s, t)),
            (blocks(-5..9), boxed()).prop_map(|(b, t)| Recipe::Indexed(b, t)),
            (blocks(-50..90), boxed()).prop_map(|(b, t)| Recipe::Hindexed(b, t)),
            (some(3), places(-5..9), boxed()).prop_map(|(b, p, t)| Recipe::IndexedBlock(b, p, t)),
            (some(3), places(-50..90), boxed()).prop_map(|(b, p, t)| Recipe::HindexedBlock(b, p, t)),
            prop::collection::vec((some(2), -20..99_i64, child.clone()), 1..4).prop_map(Recipe::Structure),
            (dimensions, order, boxed()).prop_map(|(d, o, t)| Recipe::Subarray(d, o, t)),
            (-20..20_i64, -20..90_i64, boxed()).prop_map(|(l, e, t)| Recipe::Resized(l, e, t)),
        ]
    });
    recipe.prop_filter("small enough to be written out", |recipe| {
        recipe.build().is_ok_and(|datatype| datatype.size() < 4_000) && recipe.model().0.len() < 4_000
    })
}

/// The offsets that `segments` gives, byte by byte.
fn bytes(segments: Segments<'_>) -> Vec<i64> {
    segments
        .flat_map(|segment| segment.offset..segment.offset + segment.len as i64)
        .collect()
}

fn slice<T>(list: &[T], range: Range<u64>) -> &[T] {
    let end = list.len().min(range.end as usize);
    &list[end.min(range.start as usize)..end]
}

#[test]
fn parts_keep_their_padding() {
    let part = Datatype::hvector(3, 4, 25, &Datatype::predefined(Kind::I32)).unwrap();
    assert_eq!((part.true_extent(), part.extent()), (66, 68));
    let whole = Datatype::hvector(2, 3, 4 * 68 + 1, &part).unwrap();
    assert_eq!((whole.true_extent(), whole.extent()), (273 + 2 * 68 + 66, 480));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn model(recipe in recipes(), count in 0..4_u64, from in 0..300_u64, len in 0..300_u64) {
        let (datatype, model) = (recipe.build().unwrap(), recipe.model());
        let (low, high) = model.true_bounds();
        prop_assert_eq!(datatype.size(), model.bytes(1).len() as u64);
        prop_assert_eq!(datatype.lower_bound(), model.lower_bound());
        prop_assert_eq!(datatype.extent(), model.extent());
        prop_assert_eq!((datatype.true_lower_bound(), datatype.true_extent()), (low, high - low));
        prop_assert_eq!(datatype.signature(1), model.signature());

        let expected = model.bytes(count);
        let span = (expected.iter().min().copied(), expected.iter().max().map(|last| last + 1));
        prop_assert_eq!(datatype.span(count), Ok((span.0.unwrap_or(0), span.1.unwrap_or(0))));
        prop_assert_eq!(datatype.packed_size(count), Ok(expected.len() as u64));
        prop_assert_eq!(&bytes(datatype.segments(count, 0..u64::MAX)), &expected);
        let range = from..from + len;
        prop_assert_eq!(bytes(datatype.segments(count, range.clone())), slice(&expected, range));
        prop_assert!(!datatype.is_contiguous(count) || datatype.segments(count, 0..u64::MAX).count() <= 1);
    }

    #[test]
    fn segments_can_be_resumed_anywhere(recipe in recipes(), count in 1..4_u64) {
        let datatype = recipe.build().unwrap();
        let mut segments = datatype.segments(count, 0..u64::MAX);
        let mut position = 0;
        while let Some(segment) = segments.next() {
            prop_assert!(segment.len > 0);
            let again = datatype.segments(count, position..position + segment.len).next();
            prop_assert_eq!(again, Some(segment));
            position += segment.len;
            prop_assert_eq!(segments.position(), position);
        }
    }

    #[test]
    fn round_trip(
        recipe in recipes(),
        count in 0..4_u64,
        order in prop::collection::vec((1..400_usize, any::<u32>()), 1..20),
        margin in 0..9_usize,
    ) {
        let (datatype, model) = (recipe.build().unwrap(), recipe.model());
        let places = model.bytes(count);
        let (low, high) = datatype.span(count).unwrap();
        let origin = margin + low.min(0).unsigned_abs() as usize;
        let len = (origin as i64 + high.max(0)) as usize + margin;
        let memory: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
        let index = |place: i64| (origin as i64 + place) as usize;
        let expected: Vec<u8> = places.iter().map(|place| memory[index(*place)]).collect();

        // Fragments that arrive in any order.
        let mut fragments = Vec::new();
        let (mut at, mut sizes) = (0, order.iter().cycle());
        while at < expected.len() {
            let (len, key) = *sizes.next().unwrap();
            let end = expected.len().min(at + len);
            fragments.push((key.wrapping_mul(at as u32 | 1), at..end));
            at = end;
        }
        fragments.sort_by_key(|(key, _)| *key);

        let mut packed = vec![0xa5; expected.len()];
        let mut landed = vec![0x5a; memory.len()];
        for (_, range) in fragments {
            let (at, len) = (range.start as u64, range.len());
            let out = &mut packed[range.clone()];
            prop_assert_eq!(datatype.pack(&memory, origin, count, at, out), Ok(len));
            prop_assert_eq!(datatype.unpack(&mut landed, origin, count, at, &expected[range]), Ok(len));
        }
        prop_assert_eq!(&packed, &expected);
        let mut unpacked = vec![0x5a; memory.len()];
        for place in &places {
            unpacked[index(*place)] = memory[index(*place)];
        }
        prop_assert_eq!(landed, unpacked, "data are there, and nothing else was touched");

        // Neither reads nor writes go beyond the data.
        let mut long = vec![0xa5; expected.len() + 3];
        prop_assert_eq!(datatype.pack(&memory, origin, count, 0, &mut long), Ok(expected.len()));
        prop_assert_eq!(&long[expected.len()..], &[0xa5; 3]);
        if low < high {
            let short = &memory[..index(high) - 1];
            prop_assert!(datatype.pack(short, origin, count, 0, &mut packed).is_err());
            if low < 0 {
                let early = low.unsigned_abs() as usize - 1;
                prop_assert!(datatype.pack(&memory, early, count, 0, &mut packed).is_err());
            }
        }
    }

    #[test]
    fn overlaps_are_found(recipe in recipes(), count in 0..4_u64) {
        let mut places = recipe.model().bytes(count);
        let len = places.len();
        places.sort_unstable();
        places.dedup();
        let found = recipe.build().unwrap().check_receive(count);
        prop_assert_eq!(found.is_err(), places.len() < len);
    }

    #[test]
    fn element_kinds_are_those_of_the_map(recipe in recipes()) {
        fn kinds(recipe: &Recipe, found: &mut Vec<Kind>) {
            match recipe {
                _ if recipe.model().data().next().is_none() => {}
                Recipe::Predefined(kind) => found.push(*kind),
                Recipe::Structure(blocks) => {
                    let blocks = blocks.iter().filter(|(length, ..)| *length > 0);
                    blocks.for_each(|(.., child)| kinds(child, found));
                }
                Recipe::Contiguous(_, child)
                | Recipe::Vector(_, _, _, child)
                | Recipe::Hvector(_, _, _, child)
                | Recipe::Indexed(_, child)
                | Recipe::Hindexed(_, child)
                | Recipe::IndexedBlock(_, _, child)
                | Recipe::HindexedBlock(_, _, child)
                | Recipe::Subarray(_, _, child)
                | Recipe::Resized(_, _, child) => kinds(child, found),
            }
        }
        let mut found = Vec::new();
        kinds(&recipe, &mut found);
        let expected = found.first().filter(|first| found.iter().all(|kind| kind == *first));
        prop_assert_eq!(recipe.build().unwrap().element_kind(), expected.copied());
    }

    /// Numbers at the ends of their ranges: refused or right, never an overflow.
    #[test]
    fn extreme_arguments(
        numbers in prop::collection::vec(prop_oneof![
            -3..4_i64,
            any::<i64>(),
            prop::sample::select(vec![i64::MAX, i64::MIN, i64::MAX / 2, 1 << 32, -(1 << 32), i64::MAX / 8, 1 << 60]),
        ], 8),
        kind in prop::sample::select(Kind::ALL.to_vec()),
        count in any::<u64>(),
        position in any::<u64>(),
    ) {
        let [a, b, c, d, e, f, g, h] = numbers[..] else { unreachable!("eight of them") };
        let small = Datatype::predefined(kind);
        let child = Datatype::hvector(a, b, c, &small).or_else(|_| Datatype::resized(a, b, &small)).unwrap_or(small);
        let types = [child.clone(), Datatype::predefined(kind)];
        let made = [
            Datatype::contiguous(d, &child),
            Datatype::vector(d, e, f, &child),
            Datatype::hvector(d, e, f, &child),
            Datatype::indexed(&[d, e], &[f, g], &child),
            Datatype::hindexed(&[d, e], &[f, g], &child),
            Datatype::indexed_block(d, &[e, f, g], &child),
            Datatype::hindexed_block(d, &[e, f, g], &child),
            Datatype::structure(&[d, e], &[f, g], &types),
            Datatype::subarray(&[d, e], &[f, 1], &[g, 0], Order::C, &child),
            Datatype::subarray(&[d, e], &[1, f], &[h, g], Order::Fortran, &child),
            Datatype::resized(d, e, &child),
        ];
        for datatype in made.into_iter().flatten() {
            let size = datatype.size();
            prop_assert!(size <= i64::MAX as u64 && datatype.true_extent() >= 0);
            let _ = (datatype.lower_bound(), datatype.extent(), datatype.signature(count));
            let _ = (datatype.packed_size(count), datatype.is_contiguous(count));
            let _ = datatype.segments(count, position..u64::MAX).take(10).count();
            let _ = datatype.check_memory(1 << 20, 1 << 10, count);
            if let Ok((low, high)) = datatype.span(count.min(3)) {
                prop_assert!(low <= high);
                let some = position.checked_rem(size).unwrap_or(0)..u64::MAX;
                for segment in datatype.segments(count.min(3), some).take(10) {
                    prop_assert!(segment.offset >= low && segment.offset <= high - segment.len as i64);
                }
            }
            if size > 0 && datatype.run_bound() < 1_000 {
                let _ = datatype.check_receive(count.min(3));
            }
        }
    }

    #[test]
    fn extreme_vectors_are_right_or_refused(count in 0..=i64::MAX, length in 0..=i64::MAX, stride: i64, shift in 0..62) {
        let (count, length) = (count >> shift, length >> (62 - shift));
        let places = [0, (i128::from(count) - 1).checked_mul(i128::from(stride)).unwrap()];
        let (low, high) = (places[0].min(places[1]), places[0].max(places[1]) + i128::from(length));
        let fits = i64::try_from(low).is_ok() && i64::try_from(high).is_ok() && i64::try_from(high - low).is_ok();
        let size = i128::from(count) * i128::from(length);
        match Datatype::hvector(count, length, stride, &Kind::Byte.into()) {
            Ok(datatype) if size > 0 => {
                prop_assert!(fits);
                prop_assert_eq!(i128::from(datatype.true_lower_bound()), low);
                prop_assert_eq!(i128::from(datatype.true_extent()), high - low);
                prop_assert_eq!(i128::from(datatype.size()), size);
            }
            Ok(datatype) => prop_assert_eq!((datatype.size(), datatype.extent()), (0, 0)),
            Err(error) => prop_assert!(size > i128::from(i64::MAX) || !fits, "{}", error),
        }
    }
}

impl Datatype {
    fn run_bound(&self) -> u64 {
        self.0.node.shape.run_count()
    }
}

fn float() -> Datatype {
    Kind::F64.into()
}

#[test]
fn vectors_of_any_length_are_as_small_as_short_ones() {
    let vector = Datatype::vector(1_000_000_000, 1, 2, &float()).unwrap();
    assert!(matches!(&vector.0.node.shape, Shape::Loop(inner) if matches!(inner.child, Shape::Run(_))));
    assert_eq!(vector.size(), 8_000_000_000);
    let last = vector.segments(1, 7_999_999_996..u64::MAX).next();
    let offset = 999_999_999 * 16 + 4;
    assert_eq!(last, Some(Segment { offset, len: 4 }));
    assert_eq!(vector.check_receive(1 << 20), Ok(()));
}

#[test]
fn what_is_contiguous_becomes_one_run() {
    let is_run = |datatype: &Datatype| matches!(datatype.0.node.shape, Shape::Run(_));
    let row = Datatype::contiguous(100, &float()).unwrap();
    assert!(is_run(&row) && row.is_contiguous(7));
    assert!(is_run(&Datatype::vector(5, 2, 2, &row).unwrap()));
    assert!(is_run(&Datatype::indexed(&[1, 2, 3], &[4, 5, 7], &row).unwrap()));
    let types = [Kind::I32.into(), Kind::F32.into(), float()];
    assert!(is_run(&Datatype::structure(&[1, 1, 1], &[0, 4, 8], &types).unwrap()));
    let slab = Datatype::subarray(&[8, 8, 8], &[2, 8, 8], &[3, 0, 0], Order::C, &float()).unwrap();
    assert!(is_run(&slab) && !slab.is_contiguous(2) && slab.true_lower_bound() == 3 * 64 * 8);
}

#[test]
fn regular_lists_become_loops_and_nested_loops_join() {
    let is_loop_of_runs = |datatype: &Datatype| matches!(&datatype.0.node.shape, Shape::Loop(inner) if matches!(inner.child, Shape::Run(_)));
    let places: Vec<i64> = (0..1_000).map(|index| index * 3).collect();
    assert!(is_loop_of_runs(&Datatype::indexed_block(1, &places, &float()).unwrap()));
    // A face of a cube whose elements are all at equal distances.
    assert!(is_loop_of_runs(
        &Datatype::subarray(&[16, 16, 16], &[16, 16, 1], &[0, 0, 5], Order::C, &float()).unwrap()
    ));
    // Nested structures become one list, which arrays of them repeat.
    let inner = Datatype::structure(&[1, 1], &[0, 8], &[Kind::I32.into(), float()]).unwrap();
    let outer = Datatype::structure(&[1, 2], &[0, 8], &[Kind::I8.into(), inner]).unwrap();
    assert!(matches!(&outer.0.node.shape, Shape::Runs(runs) if runs.list.len() == 4));
    assert_eq!(outer.extent(), 40);
}

#[test]
fn transposed_matrices_can_be_received() {
    let column = Datatype::vector(1_000, 1, 1_000, &float()).unwrap();
    let column = Datatype::resized(0, 8, &column).unwrap();
    let transposed = Datatype::contiguous(1_000, &column).unwrap();
    assert_eq!(transposed.check_receive(1), Ok(()));
    assert_eq!(column.check_receive(1_000), Ok(()));
    assert!(matches!(column.check_receive(1_001), Ok(())), "too many runs to tell");
    let close = Datatype::hvector(1 << 20, 1, 7, &float()).unwrap();
    assert_eq!(close.check_receive(1), Err(DatatypeError::Overlap { offset: 7 }));
    let twice = Datatype::indexed(&[2, 1], &[0, 1], &float()).unwrap();
    assert_eq!(twice.check_receive(1), Err(DatatypeError::Overlap { offset: 8 }));
}

#[test]
fn errors_name_the_argument() {
    let negative = |argument, index, value| Err(DatatypeError::Negative { argument, index, value });
    let result = |result: Result<Datatype, DatatypeError>| result.map(|_| ());
    assert_eq!(result(Datatype::contiguous(-1, &float())), negative("count", None, -1));
    assert_eq!(
        result(Datatype::vector(1, -2, 0, &float())),
        negative("blocklength", None, -2)
    );
    assert_eq!(
        result(Datatype::hindexed(&[1, -7], &[0, 0], &float())),
        negative("blocklengths", Some(1), -7)
    );
    assert_eq!(
        result(Datatype::indexed_block(-1, &[], &float())),
        negative("blocklength", None, -1)
    );
    let overflow = |argument, index, quantity| {
        Err(DatatypeError::Overflow {
            argument,
            index,
            quantity,
        })
    };
    assert_eq!(
        result(Datatype::contiguous(i64::MAX, &float())),
        overflow("count", None, Quantity::Size)
    );
    assert_eq!(
        result(Datatype::hvector(3, 1, i64::MAX, &float())),
        overflow("stride", None, Quantity::Bound)
    );
    assert_eq!(
        result(Datatype::indexed(&[1, 1], &[0, i64::MAX], &float())),
        overflow("displacements", Some(1), Quantity::Bound)
    );
    assert_eq!(
        result(Datatype::hindexed(&[1, 1], &[i64::MIN, 0], &float())),
        overflow("displacements", None, Quantity::Extent)
    );
    assert!(matches!(
        Datatype::structure(&[1, 1], &[0, 0], &[float()]),
        Err(DatatypeError::Lengths {
            argument: "types",
            len: 1,
            expected: 2
        })
    ));
    assert!(matches!(
        Datatype::subarray(&[4, 4], &[2, 2], &[0, 3], Order::C, &float()),
        Err(DatatypeError::Subarray { dimension: 1, .. })
    ));
}

#[test]
fn nesting_has_a_limit() {
    let mut datatype = Datatype::resized(0, 16, &float()).unwrap();
    let error = loop {
        // Each level has another stride, so none can be joined with the next.
        let stride = datatype.true_extent() / 2 + 3;
        match Datatype::hvector(2, 1, stride, &datatype) {
            Ok(next) => datatype = Datatype::resized(0, 1, &next).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, DatatypeError::Depth | DatatypeError::Overflow { .. }));
}

#[test]
fn messages_match_by_signature() {
    let pairs = Datatype::structure(&[1, 1], &[0, 8], &[Kind::I32.into(), float()]).unwrap();
    let ints = Datatype::predefined(Kind::I32);
    assert!(pairs.accepts(pairs.signature(3)));
    assert!(!pairs.accepts(ints.signature(6)));
    assert!(pairs.accepts(Datatype::predefined(Kind::Packed).signature(100)));
    // Two that take as many bytes as one.
    assert!(!Datatype::predefined(Kind::I64).accepts(ints.signature(2)));
    let spread = Datatype::vector(3, 2, 5, &pairs).unwrap();
    assert!(pairs.accepts(spread.signature(1)) && spread.accepts(pairs.signature(6)));
    assert!(Datatype::contiguous(0, &ints).unwrap().accepts(Signature::EMPTY));
}

#[test]
fn same_types_are_found_to_be() {
    let (f64s, i64s) = (Datatype::predefined(Kind::F64), Datatype::predefined(Kind::I64));
    let structure = |first: &Datatype| Datatype::structure(&[1, 2], &[0, 16], &[first.clone(), i64s.clone()]).unwrap();
    assert!(f64s.is_same(&f64s) && !f64s.is_same(&i64s));
    assert!(structure(&f64s).is_same(&structure(&f64s)));
    assert!(!structure(&f64s).is_same(&structure(&i64s)));
    let vector = |stride| Datatype::vector(100, 3, stride, &structure(&f64s)).unwrap();
    assert!(vector(5).is_same(&vector(5)) && !vector(5).is_same(&vector(6)));
    assert!(!Datatype::resized(0, 64, &f64s).unwrap().is_same(&f64s));
}

#[test]
fn datatypes_remember_how_they_were_made() {
    let int = Datatype::from(Kind::I32);
    assert_eq!((int.combiner(), int.contents()), (Combiner::Named, None));
    let vector = Datatype::vector(3, 2, 5, &int).unwrap();
    let contents = vector.contents().unwrap();
    assert_eq!(
        (contents.combiner, &contents.integers[..]),
        (Combiner::Vector, &[3, 2, 5][..])
    );
    let pair = Datatype::structure(&[1, 2], &[0, 64], &[int.clone(), vector.with_word(7)]).unwrap();
    let contents = pair.contents().unwrap();
    assert_eq!(
        (&contents.integers[..], &contents.addresses[..]),
        (&[2, 1, 2][..], &[0, 64][..])
    );
    assert_eq!(contents.datatypes[1].word(), 7, "the owner finds its handle again");
    let duplicate = pair.duplicate();
    assert!(duplicate.contents().unwrap().datatypes[0].is_same(&pair));
    assert_eq!(duplicate.combiner(), Combiner::Dup);
    let part = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], Order::Fortran, &int).unwrap();
    assert_eq!(part.contents().unwrap().integers, [2, 4, 6, 2, 3, 1, 2, 1]);
    let resized = Datatype::resized(-4, 12, &int).unwrap();
    assert_eq!(resized.contents().unwrap().addresses, [-4, 12]);
    let named = int.with_word(9);
    assert_eq!((named.kind(), named.word(), int.word()), (Some(Kind::I32), 9, 0));
    assert!(named.is_same(&int));
}

/// All parts of a distributed array together are the array, each element once.
#[test]
fn the_parts_of_a_distributed_array_are_the_array() {
    let distributions = [
        (Distribution::Block, None),
        (Distribution::Block, Some(4)),
        (Distribution::Cyclic, None),
        (Distribution::Cyclic, Some(3)),
    ];
    for order in [Order::C, Order::Fortran] {
        for first in distributions {
            for second in distributions {
                let dimension = |size, processes, (distribution, block)| Distributed {
                    size,
                    distribution,
                    block,
                    processes,
                };
                let whole = dimension(2, 1, (Distribution::None, None));
                let grid = [dimension(7, 2, first), whole, dimension(10, 3, second)];
                let mut seen = [0_u32; 7 * 2 * 10];
                for rank in 0..6 {
                    let part = Datatype::darray(rank, &grid, order, &Kind::I32.into()).unwrap();
                    assert_eq!((part.lower_bound(), part.extent()), (0, 4 * 140));
                    let place = [rank / 3, 0, rank % 3];
                    let mut last = -1;
                    for segment in part.segments(1, 0..u64::MAX) {
                        assert!(segment.offset > last, "in the order of memory");
                        last = segment.offset;
                        for at in (segment.offset / 4)..((segment.offset + segment.len as i64) / 4) {
                            seen[at as usize] += 1;
                            let index = match order {
                                Order::C => [at / 20, at / 10 % 2, at % 10],
                                Order::Fortran => [at % 7, at / 7 % 2, at / 14],
                            };
                            for ((one, index), place) in grid.iter().zip(index).zip(place) {
                                let block = match (one.distribution, one.block) {
                                    (_, Some(block)) => block,
                                    (Distribution::Block, None) => (one.size + one.processes - 1) / one.processes,
                                    (Distribution::Cyclic, None) => 1,
                                    (Distribution::None, None) => one.size,
                                };
                                assert_eq!(index / block % one.processes, place, "{grid:?} {order:?}");
                            }
                        }
                    }
                }
                assert_eq!(seen, [1; 140], "{grid:?} {order:?}");
            }
        }
    }
    let wrong = Distributed {
        size: 10,
        distribution: Distribution::Block,
        block: Some(2),
        processes: 3,
    };
    assert!(Datatype::darray(0, &[wrong], Order::C, &Kind::I32.into()).is_err());
    let right = Distributed { block: None, ..wrong };
    assert!(Datatype::darray(3, &[right], Order::C, &Kind::I32.into()).is_err());
}
