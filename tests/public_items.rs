//! The public items of the crates that programs use, in a text that is kept: a change of the surface shows as a change
//! of `tests/public_items.txt`.
//!
//! (The lint `unreachable_pub` sees to it that what is written `pub` can be reached; so the sources tell it all. The
//! list has the part of the crate that declares an item, not the path under which it is exported.)

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{Attribute, Field, Fields, FnArg, ImplItem, Item, Signature, TraitItem, Visibility};

const KEPT: &str = "tests/public_items.txt";
/// Set, the test writes the list.
const BLESS: &str = "BLESS";
const CRATES: [(&str, &str); 3] = [
    ("hikyaku", "src"),
    ("hikyaku-mpi", "crates/mpi/src"),
    ("hikyaku-mpi-derive", "crates/mpi-derive/src"),
];

#[test]
fn the_surface_is_as_it_was() {
    let mut items = BTreeSet::new();
    let internals = internals();
    for (name, folder) in CRATES {
        for file in rust_files(&root().join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let inside = file.strip_prefix(root().join(folder)).unwrap();
            let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
            let at = format!("{name} {room}");
            let module = inside.with_extension("").to_str().unwrap().replace('/', "::");
            let is_internal = internals.iter().any(|internal| is_within(&module, internal));
            if !is_hidden(&parsed.attrs) && (name != "hikyaku" || !is_internal) {
                list(&parsed.items, &at, &mut items);
            }
        }
    }
    let lines: Vec<&str> = items.iter().map(String::as_str).collect();
    let text = lines.join("\n") + "\n";
    let path = root().join(KEPT);
    if env::var_os(BLESS).is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let kept: BTreeSet<&str> = kept.lines().collect();
    let now: BTreeSet<&str> = lines.iter().copied().collect();
    let gone = kept.difference(&now).map(|line| format!("- {line}"));
    let new = now.difference(&kept).map(|line| format!("+ {line}"));
    let changes: Vec<String> = gone.chain(new).collect();
    assert!(
        changes.is_empty(),
        "\nthe public items have changed:\n{}\n\nIf that is meant, say so in CHANGELOG.md, and write the list anew:\n    \
         {BLESS}=1 cargo test --test public_items\nIf not, write pub(crate) or pub(super), or put it into \
         `internals`.\n",
        changes.join("\n")
    );
}

/// The modules that are reached only through `internals`, which names them as `crate::a::b::*` or `crate::a::b`.
fn internals() -> Vec<String> {
    let text = fs::read_to_string(root().join("src/internals.rs")).unwrap();
    let paths = text.split("pub use crate::").skip(1);
    let paths = paths.filter_map(|rest| rest.split(';').next());
    let mut all: Vec<String> = paths.map(|path| path.trim_end_matches("::*").to_owned()).collect();
    all.push("internals".to_owned());
    all
}

fn is_within(module: &str, outer: &str) -> bool {
    let rest = module.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The public items among these.
fn list(all: &[Item], at: &str, items: &mut BTreeSet<String>) {
    for item in all {
        let (attributes, visibility, kind, name, rest): (_, _, &str, String, String) = match item {
            Item::Const(item) => (
                &item.attrs,
                &item.vis,
                "const",
                item.ident.to_string(),
                format!(": {}", of(&item.ty)),
            ),
            Item::Static(item) => (
                &item.attrs,
                &item.vis,
                "static",
                item.ident.to_string(),
                format!(": {}", of(&item.ty)),
            ),
            Item::Type(item) => (
                &item.attrs,
                &item.vis,
                "type",
                item.ident.to_string(),
                format!(" = {}", of(&item.ty)),
            ),
            Item::Fn(item) => (
                &item.attrs,
                &item.vis,
                "fn",
                item.sig.ident.to_string(),
                signature(&item.sig),
            ),
            Item::Struct(item) => {
                if is_public(&item.attrs, &item.vis) {
                    fields(&item.fields, at, &item.ident.to_string(), items);
                }
                (
                    &item.attrs,
                    &item.vis,
                    "struct",
                    item.ident.to_string(),
                    of(&item.generics),
                )
            }
            Item::Enum(item) => {
                if is_public(&item.attrs, &item.vis) {
                    for variant in item.variants.iter().filter(|variant| !is_hidden(&variant.attrs)) {
                        let fields: Vec<String> = variant.fields.iter().map(variant_field).collect();
                        let line = format!("{at}: {}::{}({})", item.ident, variant.ident, fields.join(", "));
                        items.insert(line.replace("()", ""));
                    }
                }
                (
                    &item.attrs,
                    &item.vis,
                    "enum",
                    item.ident.to_string(),
                    of(&item.generics),
                )
            }
            Item::Trait(item) => {
                if is_public(&item.attrs, &item.vis) {
                    for inner in &item.items {
                        trait_item(inner, at, &item.ident.to_string(), items);
                    }
                }
                (
                    &item.attrs,
                    &item.vis,
                    "trait",
                    item.ident.to_string(),
                    of(&item.generics),
                )
            }
            Item::Mod(item) => {
                if let Some((_, inner)) = &item.content
                    && !is_hidden(&item.attrs)
                {
                    list(inner, at, items);
                }
                (&item.attrs, &item.vis, "mod", item.ident.to_string(), String::new())
            }
            Item::Impl(item) if item.trait_.is_none() && !is_hidden(&item.attrs) => {
                let of_type = of(&item.self_ty);
                for inner in &item.items {
                    impl_item(inner, at, &of_type, items);
                }
                continue;
            }
            Item::Macro(item) => {
                let exported = item
                    .attrs
                    .iter()
                    .any(|attribute| attribute.path().is_ident("macro_export"));
                if let (Some(name), true, false) = (&item.ident, exported, is_hidden(&item.attrs)) {
                    items.insert(format!("{at}: macro {name}"));
                }
                continue;
            }
            _ => continue,
        };
        if is_public(attributes, visibility) {
            items.insert(format!("{at}: {kind} {name}{rest}"));
        }
    }
}

fn fields(fields: &Fields, at: &str, of_type: &str, items: &mut BTreeSet<String>) {
    for (
        index,
        Field {
            attrs, vis, ident, ty, ..
        },
    ) in fields.iter().enumerate()
    {
        if is_public(attrs, vis) {
            let name = ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
            items.insert(format!("{at}: {of_type}.{name}: {}", of(ty)));
        }
    }
}

fn variant_field(field: &Field) -> String {
    let name = field.ident.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    name + &of(&field.ty)
}

fn impl_item(item: &ImplItem, at: &str, of_type: &str, items: &mut BTreeSet<String>) {
    match item {
        ImplItem::Fn(item) if is_public(&item.attrs, &item.vis) => {
            items.insert(format!("{at}: {of_type}::{}{}", item.sig.ident, signature(&item.sig)));
        }
        ImplItem::Const(item) if is_public(&item.attrs, &item.vis) => {
            items.insert(format!("{at}: {of_type}::{}: {}", item.ident, of(&item.ty)));
        }
        _ => {}
    }
}

fn trait_item(item: &TraitItem, at: &str, of_trait: &str, items: &mut BTreeSet<String>) {
    match item {
        TraitItem::Fn(item) if !is_hidden(&item.attrs) => {
            let provided = if item.default.is_some() { " (provided)" } else { "" };
            items.insert(format!(
                "{at}: {of_trait}::{}{}{provided}",
                item.sig.ident,
                signature(&item.sig)
            ));
        }
        TraitItem::Type(item) => {
            items.insert(format!("{at}: {of_trait}::{}", item.ident));
        }
        TraitItem::Const(item) => {
            items.insert(format!("{at}: {of_trait}::{}: {}", item.ident, of(&item.ty)));
        }
        _ => {}
    }
}

/// Arguments by their types, and the result.
fn signature(signature: &Signature) -> String {
    let arguments: Vec<String> = signature
        .inputs
        .iter()
        .map(|argument| match argument {
            FnArg::Receiver(receiver) => of(receiver),
            FnArg::Typed(argument) => of(&argument.ty),
        })
        .collect();
    let mut text = format!("({}) {}", arguments.join(", "), of(&signature.output));
    if of(signature).contains("unsafe fn ") {
        text.insert_str(0, " unsafe");
    }
    text.trim_end().to_owned()
}

/// As it is written, with few spaces.
fn of(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (long, short) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("->(", "-> ("),
    ] {
        text = text.replace(long, short);
    }
    text
}

fn is_public(attributes: &[Attribute], visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_)) && !is_hidden(attributes)
}

/// Hidden from the documentation, or only in tests.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let says = |name: &str, text: &str| {
        let mut of_name = attributes.iter().filter(|attribute| attribute.path().is_ident(name));
        of_name.any(|attribute| {
            let tokens = attribute.meta.to_token_stream().to_string().replace(' ', "");
            tokens.contains(text)
        })
    };
    says("doc", "doc(hidden)") || says("cfg", "cfg(test)") || says("cfg", "cfg(all(test")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // Only for tests.
            if name != "tests.rs" && !name.ends_with("_tests.rs") {
                files.push(path);
            }
        }
    }
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
