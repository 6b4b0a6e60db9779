//! Functions that are not there yet. Each fails with `MPI_ERR_UNSUPPORTED_OPERATION`.

use crate::{
    border::{Call, Failure, Scope},
    errors,
};

#[doc(hidden)]
#[macro_export]
macro_rules! missing_calls {
    ($abi:ty) => {
        const _: () = {
            $crate::missing! { $abi;
                "File_call_errhandler" "File_close" "File_create_errhandler" "File_delete" "File_get_amode"
                "File_get_atomicity" "File_get_byte_offset" "File_get_errhandler" "File_get_group" "File_get_info"
                "File_get_position" "File_get_position_shared" "File_get_size" "File_get_type_extent" + c
                "File_get_view" "File_iread" + c "File_iread_all" + c "File_iread_at" + c "File_iread_at_all" + c
                "File_iread_shared" + c "File_iwrite" + c "File_iwrite_all" + c "File_iwrite_at" + c
                "File_iwrite_at_all" + c "File_iwrite_shared" + c "File_open" "File_preallocate" "File_read" + c
                "File_read_all" + c "File_read_all_begin" + c "File_read_all_end" "File_read_at" + c
                "File_read_at_all" + c "File_read_at_all_begin" + c "File_read_at_all_end" "File_read_ordered" + c
                "File_read_ordered_begin" + c "File_read_ordered_end" "File_read_shared" + c "File_seek"
                "File_seek_shared" "File_set_atomicity" "File_set_errhandler" "File_set_info" "File_set_size"
                "File_set_view" "File_sync" "File_write" + c "File_write_all" + c "File_write_all_begin" + c
                "File_write_all_end" "File_write_at" + c "File_write_at_all" + c "File_write_at_all_begin" + c
                "File_write_at_all_end" "File_write_ordered" + c "File_write_ordered_begin" + c "File_write_ordered_end"
                "File_write_shared" + c "Register_datarep" + c
            }
        };
    };
}

/// The failure of a function that is not there yet. Those of files have no communicator whose error handler would
/// be called, and return the code.
#[must_use]
pub fn fail(call: Call) -> i32 {
    let failure = Failure::unsupported("this function is not there yet");
    if call.name.starts_with("MPI_File_") {
        return errors::code(call, None, &failure);
    }
    errors::raise(call, None::<Scope>, failure)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn the_page_lists_what_is_missing() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capi.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, list) = page.split_once("## Functions that are missing").unwrap();
        let listed: BTreeSet<&str> = list.split('`').filter(|name| name.starts_with("MPI_")).collect();
        let source = include_str!("missing.rs");
        let (_, table) = source.split_once("missing! { $abi;").unwrap();
        let (table, _) = table.split_once('}').unwrap();
        let mut words = table.split_whitespace().peekable();
        let mut missing = BTreeSet::new();
        while let Some(word) = words.next() {
            let name = format!("MPI_{}", word.trim_matches('"'));
            if words.next_if(|next| *next == "+").is_some() {
                words.next();
                missing.insert(format!("{name}_c"));
            }
            missing.insert(name);
        }
        let missing: BTreeSet<&str> = missing.iter().map(String::as_str).collect();
        let without = listed
            .symmetric_difference(&missing)
            .filter(|name| **name != "MPI_ERR_UNSUPPORTED_OPERATION");
        assert_eq!(without.collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
