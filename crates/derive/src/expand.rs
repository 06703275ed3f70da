//! The implementation that the macro writes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result};

use crate::attributes::Attributes;
use crate::case::{Case, cases};
use crate::field::Field;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let whole = Attributes::parse(&input.attrs)?;
    let krate = whole.krate()?;
    let names = if whole.free_names()? { quote!(Free) } else { quote!(Convention) };
    let cases = cases(input, &whole)?;

    let event_type = arms(&cases, |case| {
        let name = &case.event_type;
        quote!({ .. } => #name)
    });
    let aggregate_type = arms(&cases, |case| {
        let aggregate = &case.aggregate;
        quote!({ .. } => #aggregate)
    });
    let aggregate_id = arms(&cases, |case| taken(&case.aggregate_id, |text| text));
    let key = arms(&cases, |case| match &case.key {
        Some(field) => taken(field, |text| quote!(::core::option::Option::Some(#text))),
        None => quote!({ .. } => ::core::option::Option::None),
    });

    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics #krate::Event for #ident #arguments #bounds {
            const NAMES: #krate::Names = #krate::Names::#names;

            fn event_type(&self) -> &'static str {
                match self { #event_type }
            }

            fn aggregate_type(&self) -> &'static str {
                match self { #aggregate_type }
            }

            fn aggregate_id(&self) -> ::std::borrow::Cow<'_, str> {
                match self { #aggregate_id }
            }

            fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
                match self { #key }
            }
        }
    })
}

fn arms(cases: &[Case], rest: impl Fn(&Case) -> TokenStream) -> TokenStream {
    cases
        .iter()
        .map(|case| {
            let (pattern, rest) = (&case.pattern, rest(case));
            quote!(#pattern #rest,)
        })
        .collect()
}

fn taken(field: &Field, wrap: impl Fn(TokenStream) -> TokenStream) -> TokenStream {
    let (binding, text) = (field.binding(), wrap(field.text()));
    quote!({ #binding, .. } => #text)
}
