//! The derive macro of `hikyaku-mpi`. Use it as `mpi::traits::Equivalence`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::{
    Data, DataStruct, DeriveInput, Error, Index, LitStr, Member, Path, Result, parse_macro_input, spanned::Spanned,
};

/// Implements `mpi::datatype::Equivalence` for a struct, so that it can be sent and received.
///
/// Fields may be numbers, `bool`, other types with `Equivalence`, and arrays and tuples of these. The struct keeps the
/// layout that the compiler has chosen; padding is not sent. If two structs have the same fields in the same order, one
/// can be sent and received as the other.
///
/// Enums, unions and structs with parameters are refused. `#[mpi(crate = "::other::mpi")]` names the library if it has
/// another name.
#[proc_macro_derive(Equivalence, attributes(mpi))]
pub fn equivalence(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens> {
    let fields = match &input.data {
        Data::Struct(DataStruct { fields, .. }) => fields,
        Data::Enum(data) => {
            let text = "an enum cannot derive Equivalence: not all bytes that may be received are one of its values; \
                        send a number instead";
            return Err(Error::new(data.enum_token.span(), text));
        }
        Data::Union(data) => {
            let text = "a union cannot derive Equivalence: which of its fields is to be sent is not known";
            return Err(Error::new(data.union_token.span(), text));
        }
    };
    if !input.generics.params.is_empty() {
        let text = "a struct with parameters cannot derive Equivalence: its datatype is made once; derive it for a \
                    struct without them that holds the one that is needed";
        return Err(Error::new(input.generics.params.span(), text));
    }
    let (name, path) = (&input.ident, crate_path(input)?);
    let internal = quote!(#path::datatype::internal);
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let places = fields.iter().enumerate().map(|(index, field)| match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index::from(index)),
    });
    let offsets: Vec<_> = places
        .map(|member| quote!(::core::mem::offset_of!(#name, #member)))
        .collect();
    // At the field's type, so that the compiler points there if it cannot be sent.
    let fields_of: Vec<_> = types
        .iter()
        .map(|field| quote_spanned!(field.span()=> <#field as #internal::Field>))
        .collect();
    Ok(quote! {
        const _: () = {
            const PARTS: &[#internal::Part] = &[#((#offsets, #fields_of::CHECK)),*];

            unsafe fn is_valid(place: *const u8) -> bool {
                // SAFETY: the caller's contract, of this struct.
                unsafe { #internal::is_valid(place, PARTS) }
            }

            unsafe fn make_valid(place: *mut u8) {
                // SAFETY: the caller's contract, of this struct.
                unsafe { #internal::make_valid(place, PARTS) }
            }

            #[automatically_derived]
            // SAFETY: the datatype is made of those of the fields, where they are; and `CHECK` of theirs.
            unsafe impl #path::datatype::Equivalence for #name {
                type Out = #path::datatype::DatatypeRef<'static>;

                const CHECK: ::core::option::Option<#internal::Check> = if false #(|| #fields_of::CHECK.is_some())* {
                    ::core::option::Option::Some(#internal::Check { is_valid, make_valid })
                } else {
                    ::core::option::Option::None
                };

                fn equivalent_datatype() -> Self::Out {
                    static DATATYPE: ::std::sync::OnceLock<#path::datatype::UserDatatype> = ::std::sync::OnceLock::new();
                    DATATYPE
                        .get_or_init(|| {
                            let fields = [#((#offsets, #fields_of::datatype())),*];
                            #internal::structure(::core::mem::size_of::<#name>(), &fields)
                        })
                        .as_ref()
                }
            }
        };
    })
}

/// The path of the library: `::mpi`, or the one in `#[mpi(crate = "…")]`.
fn crate_path(input: &DeriveInput) -> Result<Path> {
    let mut path = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("mpi")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("only `crate = \"path\"` can be said here"));
            }
            let text: LitStr = meta.value()?.parse()?;
            if path.replace(text.parse()?).is_some() {
                return Err(meta.error("the path of the library is said twice"));
            }
            Ok(())
        })?;
    }
    Ok(path.unwrap_or_else(|| syn::parse_quote!(::mpi)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: &DeriveInput) -> String {
        expand(input).unwrap_err().to_string()
    }

    #[test]
    fn what_can_not_be_sent_is_refused_with_a_reason() {
        assert!(
            refused(&syn::parse_quote!(
                enum Choice {
                    A,
                    B,
                }
            ))
            .contains("send a number instead")
        );
        assert!(refused(&syn::parse_quote!(union Either { a: u32, b: f32 })).contains("which of its fields"));
        for generic in [
            "struct A<T>(T);",
            "struct A<const N: usize>([u8; N]);",
            "struct A<'a>(&'a u8);",
        ] {
            let input = syn::parse_str(generic).unwrap();
            assert!(refused(&input).contains("a struct with parameters"), "{generic}");
        }
    }

    #[test]
    fn the_path_of_the_library_can_be_said() {
        let said = |input: &DeriveInput| crate_path(input).map(|path| quote!(#path).to_string().replace(' ', ""));
        let of = |input| said(&input).unwrap();
        assert_eq!(
            of(syn::parse_quote!(
                struct A;
            )),
            "::mpi"
        );
        assert_eq!(
            of(syn::parse_quote!(
                #[mpi(crate = "::other::mpi")]
                struct A;
            )),
            "::other::mpi"
        );
        for wrong in [
            "#[mpi(name = \"x\")] struct A;",
            "#[mpi(crate = \"a\", crate = \"b\")] struct A;",
        ] {
            assert!(said(&syn::parse_str(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
