//! Categories of variables (MPI 15.3.9): settings and counters.

use super::{
    counters, settings,
    state::{self, by_index, tell},
    trouble::{Told, Trouble},
};
use crate::border::{Int, NewString, Out, OutInts, Text};

/// The categories: name and meaning.
const CATEGORIES: [(&str, &str); 2] = [
    ("settings", "settings of this process, which the environment gives"),
    ("counters", "counters of messages, windows and packets of this process"),
];

/// The numbers of control variables and of performance variables of a category.
fn sizes(category: usize) -> [usize; 2] {
    [[settings::all().len(), 0], [0, counters::ALL.len()]][category]
}

pub fn get_num(num: Out<i32>) -> Told {
    state::check()?;
    num.set(CATEGORIES.len() as i32);
    Ok(())
}

pub fn get_num_events(index: Int, num: Out<i32>) -> Told {
    by_index(&CATEGORIES, index)?;
    num.set(0);
    Ok(())
}

pub fn get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    desc: NewString,
    desc_len: Out<i32>,
    num_cvars: Out<i32>,
    num_pvars: Out<i32>,
    num_categories: Out<i32>,
) -> Told {
    let (found, (text, meaning)) = by_index(&CATEGORIES, index)?;
    tell(text, name, name_len);
    tell(meaning, desc, desc_len);
    let [cvars, pvars] = sizes(found);
    num_cvars.set(cvars as i32);
    num_pvars.set(pvars as i32);
    num_categories.set(0);
    Ok(())
}

pub fn get_index(name: Text, index: Out<i32>) -> Told {
    state::check()?;
    let name = name.text();
    let found = CATEGORIES.iter().position(|category| category.0 == name);
    index.set(found.ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn get_cvars(index: Int, len: Int, indices: OutInts) -> Told {
    let [cvars, _] = sizes(by_index(&CATEGORIES, index)?.0);
    indices
        .fill((0..len.0.max(0)).take(cvars))
        .map_err(|_| Trouble::Invalid)?;
    Ok(())
}

pub fn get_pvars(index: Int, len: Int, indices: OutInts) -> Told {
    let [_, pvars] = sizes(by_index(&CATEGORIES, index)?.0);
    indices
        .fill((0..len.0.max(0)).take(pvars))
        .map_err(|_| Trouble::Invalid)?;
    Ok(())
}

pub fn get_none(index: Int) -> Told {
    by_index(&CATEGORIES, index).map(drop)
}

pub fn changed(update_number: Out<i32>) -> Told {
    state::check()?;
    update_number.set(0);
    Ok(())
}
