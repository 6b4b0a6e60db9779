//! How C declares the arguments of the tables' functions (MPI 5.0, appendix A.3).

use crate::tables::Function;

/// An argument's declaration.
pub(crate) fn argument(function: &Function, name: &str, kind: &str) -> String {
    let wide = function.wide;
    let plain = function.name.strip_suffix("_c").filter(|_| wide);
    let plain = plain.unwrap_or(&function.name);
    let count = if wide { "MPI_Count" } else { "int" };
    let address = if wide { "MPI_Count" } else { "MPI_Aint" };
    let one = |kind: &str| format!("{kind} {name}");
    let pointer = |kind: &str| format!("{kind} *{name}");
    let list = |kind: &str| format!("{kind} {name}[]");
    match kind {
        "Buffer" if is_read(plain, name) => pointer("const void"),
        "Buffer" | "OutPointer" => pointer("void"),
        "Pointer" => pointer_of(function, plain, name),
        "Int" | "Flag" | "Rank" | "Tag" => one("int"),
        "Count" if wide && name == "disp_unit" => one("MPI_Aint"),
        "Count" => one(count),
        "Offset" => one("MPI_Count"),
        "Address" if is_in_type(plain) => one(address),
        "Address" => one("MPI_Aint"),
        "Addresses" if plain == "Type_get_contents" => list("MPI_Aint"),
        "Addresses" if is_in_type(plain) => list(&format!("const {address}")),
        "Addresses" => list("const MPI_Aint"),
        "Ints" if name == "ranges" => "int ranges[][3]".to_owned(),
        // Compilers warn of `MPI_UNWEIGHTED` in the place of an array.
        "Ints" if name.ends_with("weights") => pointer("const int"),
        "OutInts" if name.ends_with("weights") => pointer("int"),
        "Ints" | "Flags" => list("const int"),
        "Counts" if wide && name.ends_with("displs") => list("const MPI_Aint"),
        "Counts" => list(&format!("const {count}")),
        "OutInts" => list("int"),
        "OutCounts" => list(count),
        "Out<i32>" => pointer("int"),
        "Out<i64>" => pointer(long(function, plain, name)),
        "OutCount" if wide && name == "disp_unit" => pointer("MPI_Aint"),
        "OutCount" => pointer(count),
        "OutStatus" => pointer("MPI_Status"),
        "InStatus" if plain.contains("set_") => pointer("MPI_Status"),
        "InStatus" => pointer("const MPI_Status"),
        "OutStatuses" => list("MPI_Status"),
        "Text" => pointer("const char"),
        "NewString" => pointer("char"),
        "Handles<Datatype>" if plain == "Type_get_contents" => list("MPI_Datatype"),
        "Handles<Datatype>" => list("const MPI_Datatype"),
        "Handles<InfoObject>" => list("const MPI_Info"),
        "Handles<RequestObject>" if plain.starts_with("Request_get_status") => list("const MPI_Request"),
        "Handles<RequestObject>" => list("MPI_Request"),
        "Handle" => one(&named_handle(plain)),
        "*mut c_void" => one("MPI_File"),
        "i32" => one("int"),
        "i64" => one("MPI_Aint"),
        _ if kind.starts_with("Constant<") => one("int"),
        _ if kind.starts_with("OutConstant<") => pointer("int"),
        _ => match kind.strip_prefix("InOut<").and_then(|kind| kind.strip_suffix('>')) {
            Some(object) => pointer(handle(object).unwrap_or_else(|| unknown(function, name, kind))),
            None => one(handle(kind).unwrap_or_else(|| unknown(function, name, kind))),
        },
    }
}

/// The type of a result that is no error code.
pub(crate) fn result(function: &Function) -> String {
    match function.result.as_deref() {
        None | Some("i32") => "int".to_owned(),
        Some("f64") => "double".to_owned(),
        Some("i64") => "MPI_Aint".to_owned(),
        Some("Handle" | "*mutc_void") => named_handle(&function.name),
        Some(other) => panic!("{}: no type of C for {other}", function.name),
    }
}

fn unknown(function: &Function, name: &str, kind: &str) -> ! {
    panic!(
        "MPI_{}: no type of C for {name}: {kind} (crates/capi/tests/header/types.rs)",
        function.name
    );
}

/// The type of handle that a function converts.
fn named_handle(function: &str) -> String {
    let (object, _) = function.split_once('_').expect("such a name has two parts");
    format!("MPI_{}", if object == "Type" { "Datatype" } else { object })
}

/// The type of a handle, by that of the object or by that of the argument.
fn handle(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Comm" | "Communicator" => "MPI_Comm",
        "Type" | "Datatype" => "MPI_Datatype",
        "Errhandler" | "Handler" => "MPI_Errhandler",
        "Ranks" | "Group" => "MPI_Group",
        "Info" | "InfoObject" => "MPI_Info",
        "Matched" => "MPI_Message",
        "Op" | "Operation" => "MPI_Op",
        "Pending" | "RequestObject" => "MPI_Request",
        "Session" | "SessionObject" => "MPI_Session",
        "Win" | "Window" => "MPI_Win",
        _ => return None,
    })
}

/// Whether a function only reads this buffer.
fn is_read(function: &str, name: &str) -> bool {
    match name {
        "sendbuf" | "compare_addr" | "inbuf" => true,
        "base" => function == "Win_detach",
        "origin_addr" => !["Get", "Rget"].contains(&function),
        "buf" => {
            let function = function.trim_end_matches("_init").to_lowercase();
            function.ends_with("send")
        }
        _ => false,
    }
}

/// Whether addresses of a function are `MPI_Count` where counts are.
fn is_in_type(function: &str) -> bool {
    function.starts_with("Type_") || function.starts_with("Pack_external") || function == "Unpack_external"
}

/// What a result of 64 bits is.
fn long(function: &Function, plain: &str, name: &str) -> &'static str {
    let is_count = plain.ends_with("_x") || name == "count" || (function.wide && is_in_type(plain));
    if is_count { "MPI_Count" } else { "MPI_Aint" }
}

/// A pointer that only the program understands.
fn pointer_of(function: &Function, plain: &str, name: &str) -> String {
    let end = if function.wide { "_c" } else { "" };
    let object = plain.split('_').next().unwrap();
    let of_function = match (plain, name) {
        ("Keyval_create", "copy_fn") => "Copy".to_owned(),
        ("Keyval_create", "delete_fn") => "Delete".to_owned(),
        (_, "copy_fn") => format!("{object}_copy_attr"),
        (_, "delete_fn") => format!("{object}_delete_attr"),
        ("Grequest_start", "query_fn") => "Grequest_query".to_owned(),
        ("Grequest_start", "free_fn") => "Grequest_free".to_owned(),
        ("Grequest_start", "cancel_fn") => "Grequest_cancel".to_owned(),
        ("Op_create", _) => "User".to_owned(),
        (_, "function") if plain.ends_with("_create_errhandler") => format!("{object}_errhandler"),
        ("Errhandler_create", "function") => "Comm_errhandler".to_owned(),
        ("Info_create_env" | "Comm_spawn", "argv") => return "char *argv[]".to_owned(),
        (_, "command" | "port_name") => return format!("const char *{name}"),
        (_, "array_of_commands") => return "char *array_of_commands[]".to_owned(),
        (_, "array_of_argv") => return "char **array_of_argv[]".to_owned(),
        (_, "argc") => return "int *argc".to_owned(),
        (_, "argv") => return "char ***argv".to_owned(),
        (_, "location") => return "const void *location".to_owned(),
        _ => return format!("void *{name}"),
    };
    format!("MPI_{of_function}_function{end} *{name}")
}

/// The arguments of a function, out of the list of those whose table does not have them. Some words stand for more there.
pub(crate) fn listed(list: &str, name: &str, wide: bool) -> Option<Vec<String>> {
    let row = list
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('('))?;
    let row = row.strip_suffix(')').expect("a row ends with a parenthesis");
    let (count, conversion) = if wide { ("MPI_Count", "_c") } else { ("int", "") };
    let argument = |argument: &str| {
        let kind = match argument {
            "comm" => "MPI_Comm",
            "datatype" => "MPI_Datatype",
            "fh" => "MPI_File",
            "info" => "MPI_Info",
            "offset" => "MPI_Offset",
            "session" => "MPI_Session",
            "enumtype" => "MPI_T_enum",
            "event" => "MPI_T_event_instance",
            "registration" => "MPI_T_event_registration",
            "safety" => "MPI_T_cb_safety",
            "pvar" => "MPI_T_pvar_handle",
            "pvars" => "MPI_T_pvar_session",
            "request" => return "MPI_Request *request".to_owned(),
            "status" => return "MPI_Status *status".to_owned(),
            "newtype" => return "MPI_Datatype *newtype".to_owned(),
            "into" => return "void *buf".to_owned(),
            "from" => return "const void *buf".to_owned(),
            "count" => count,
            "key" => return "const char *name".to_owned(),
            "name" | "desc" => return format!("char *{argument}"),
            "name_len" | "desc_len" => return format!("int *{argument}"),
            "root" => "int",
            _ if argument.ends_with("_index") && !argument.contains(' ') => "int",
            _ => {
                let address = if wide { "MPI_Count" } else { "MPI_Aint" };
                let argument = argument.replace("COUNT", count).replace("ADDRESS", address);
                return argument.replace("CONVERSION", &format!("MPI_Datarep_conversion_function{conversion}"));
            }
        };
        format!("{kind} {argument}")
    };
    Some(row.split(", ").filter(|row| !row.is_empty()).map(argument).collect())
}
