//! Control variables (MPI 15.3.6): the settings of this process.

use std::sync::OnceLock;

use hikyaku::environment::{Environment, VARIABLES, Variable};

use super::{
    state::{self, by_index, tell},
    trouble::{Told, Trouble},
};
use crate::{
    abi::{Bind, SettingScope, Verbosity},
    border::{InOut, Int, NewString, Out, OutConstant, OutPointer, Pointer, Text},
    objects::{Datatype, Type},
};

/// `MPI_CHAR`: all are texts.
const CHAR: Type = Type::number(0x243);

/// A setting, and its value.
type Setting = (&'static Variable, String);

/// The settings, as they stand since the first look.
pub(super) fn all() -> &'static [Setting] {
    static ALL: OnceLock<Vec<Setting>> = OnceLock::new();
    ALL.get_or_init(|| {
        let environment = Environment::of_process();
        let of_users = VARIABLES.iter().filter(|variable| variable.part.is_for_users());
        let value = |variable: &'static Variable| {
            let set = environment.text(variable.name).map(String::from);
            (variable, set.unwrap_or_else(|| variable.default.to_owned()))
        };
        of_users.map(value).collect()
    })
}

pub fn get_num(num: Out<i32>) -> Told {
    state::check()?;
    num.set(all().len() as i32);
    Ok(())
}

pub fn get_info(
    index: Int,
    name: NewString,
    name_len: Out<i32>,
    verbosity: OutConstant<Verbosity>,
    datatype: InOut<Datatype>,
    enumtype: OutPointer,
    desc: NewString,
    desc_len: Out<i32>,
    bind: OutConstant<Bind>,
    scope: OutConstant<SettingScope>,
) -> Told {
    let (_, (variable, _)) = by_index(all(), index)?;
    tell(variable.name, name, name_len);
    tell(&format!("{} ({})", variable.meaning, variable.takes), desc, desc_len);
    verbosity.set(Verbosity::USER_BASIC);
    datatype.set(CHAR);
    enumtype.set(core::ptr::null_mut());
    bind.set(Bind::NO_OBJECT);
    scope.set(SettingScope::READONLY);
    Ok(())
}

pub fn get_index(name: Text, index: Out<i32>) -> Told {
    state::check()?;
    let name = name.text();
    let found = all().iter().position(|(variable, _)| variable.name == name);
    index.set(found.ok_or(Trouble::Name)? as i32);
    Ok(())
}

pub fn handle_alloc(index: Int, _object: Pointer, handle: OutPointer, count: Out<i32>) -> Told {
    let (index, (_, value)) = by_index(all(), index)?;
    state::make_setting(index, handle)?;
    count.set(value.len() as i32 + 1);
    Ok(())
}

pub fn handle_free(handle: OutPointer) -> Told {
    state::free_setting(handle)
}

pub fn read(handle: Pointer, buf: NewString) -> Told {
    let (_, value) = &all()[state::setting(handle.0)?];
    buf.set(value.as_bytes(), value.len() + 1);
    Ok(())
}

pub fn write(handle: Pointer) -> Told {
    state::setting(handle.0)?;
    Err(Trouble::SetNever)
}
