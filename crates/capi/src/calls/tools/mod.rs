//! The interface of tools (MPI 15.3). Control variables are the settings of this process, which stand since its start;
//! performance variables are the engine's counters, which always run. There are no events.
//!
//! The functions can be called before MPI begins and after it is over. No error handler is called.

pub mod categories;
pub mod counters;
pub mod events;
pub mod settings;
pub mod state;
pub mod trouble;

#[doc(hidden)]
#[macro_export]
macro_rules! tools {
    ($abi:ty) => {
        const _: () = {
            use $crate::{abi::*, border::*, objects::*};
            $crate::tool_functions! { $abi;
                "T_init_thread" => state::init_thread(required: Constant<ThreadLevel>, provided: OutConstant<ThreadLevel>);
                "T_finalize" => state::finalize();
                "T_enum_get_info" => events::no_handle();
                "T_enum_get_item" => events::no_handle();
                "T_cvar_get_num" => settings::get_num(num: Out<i32>);
                "T_cvar_get_info" => settings::get_info(
                    index: Int, name: NewString, name_len: Out<i32>, verbosity: OutConstant<Verbosity>,
                    datatype: InOut<Datatype>, enumtype: OutPointer, desc: NewString, desc_len: Out<i32>,
                    bind: OutConstant<Bind>, scope: OutConstant<SettingScope>);
                "T_cvar_get_index" => settings::get_index(name: Text, index: Out<i32>);
                "T_cvar_handle_alloc" => settings::handle_alloc(
                    index: Int, object: Pointer, handle: OutPointer, count: Out<i32>);
                "T_cvar_handle_free" => settings::handle_free(handle: OutPointer);
                "T_cvar_read" => settings::read(handle: Pointer, buf: NewString);
                "T_cvar_write" => settings::write(handle: Pointer);
                "T_pvar_get_num" => counters::get_num(num: Out<i32>);
                "T_pvar_get_info" => counters::get_info(
                    index: Int, name: NewString, name_len: Out<i32>, verbosity: OutConstant<Verbosity>,
                    var_class: OutConstant<PvarClass>, datatype: InOut<Datatype>, enumtype: OutPointer,
                    desc: NewString, desc_len: Out<i32>, bind: OutConstant<Bind>, readonly: Out<i32>,
                    continuous: Out<i32>, atomic: Out<i32>);
                "T_pvar_get_index" => counters::get_index(name: Text, var_class: Constant<PvarClass>, index: Out<i32>);
                "T_pvar_session_create" => counters::session_create(session: OutPointer);
                "T_pvar_session_free" => counters::session_free(session: OutPointer);
                "T_pvar_handle_alloc" => counters::handle_alloc(
                    session: Pointer, index: Int, object: Pointer, handle: OutPointer, count: Out<i32>);
                "T_pvar_handle_free" => counters::handle_free(session: Pointer, handle: OutPointer);
                "T_pvar_start" => counters::switch(session: Pointer, handle: Pointer);
                "T_pvar_stop" => counters::switch(session: Pointer, handle: Pointer);
                "T_pvar_read" => counters::read(session: Pointer, handle: Pointer, buf: Buffer);
                "T_pvar_write" => counters::write(session: Pointer, handle: Pointer);
                "T_pvar_reset" => counters::reset(session: Pointer, handle: Pointer);
                "T_pvar_readreset" => counters::write(session: Pointer, handle: Pointer);
                "T_category_get_num" => categories::get_num(num: Out<i32>);
                "T_category_get_num_events" => categories::get_num_events(index: Int, num: Out<i32>);
                "T_category_get_info" => categories::get_info(
                    index: Int, name: NewString, name_len: Out<i32>, desc: NewString, desc_len: Out<i32>,
                    num_cvars: Out<i32>, num_pvars: Out<i32>, num_categories: Out<i32>);
                "T_category_get_index" => categories::get_index(name: Text, index: Out<i32>);
                "T_category_get_cvars" => categories::get_cvars(index: Int, len: Int, indices: OutInts);
                "T_category_get_pvars" => categories::get_pvars(index: Int, len: Int, indices: OutInts);
                "T_category_get_events" => categories::get_none(index: Int);
                "T_category_get_categories" => categories::get_none(index: Int);
                "T_category_changed" => categories::changed(update_number: Out<i32>);
                "T_event_get_num" => events::none(num: Out<i32>);
                "T_event_get_info" => events::no_index();
                "T_event_get_index" => events::no_name();
                "T_event_handle_alloc" => events::no_index();
                "T_event_handle_free" => events::no_handle();
                "T_event_handle_get_info" => events::no_handle();
                "T_event_handle_set_info" => events::no_handle();
                "T_event_register_callback" => events::no_handle();
                "T_event_callback_get_info" => events::no_handle();
                "T_event_callback_set_info" => events::no_handle();
                "T_event_set_dropped_handler" => events::no_handle();
                "T_event_read" => events::no_handle();
                "T_event_copy" => events::no_handle();
                "T_event_get_timestamp" => events::no_handle();
                "T_event_get_source" => events::no_handle();
                "T_source_get_num" => events::none(num: Out<i32>);
                "T_source_get_info" => events::no_index();
                "T_source_get_timestamp" => events::no_index();
            }
        };
    };
}
