//! The field that an event's key or aggregate id is taken from, as `order_id`, `0` or `0.order_id`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Error, Fields, LitStr, Member, Result};

/// A path that starts at one of a variant's own fields.
#[derive(Clone)]
pub(crate) struct Field {
    own: Member,
    inner: Vec<Member>,
    span: Span,
}

impl Field {
    /// Finds the path's first step among the fields; `owner` is whose fields they are, for the message.
    pub(crate) fn find(path: &LitStr, fields: &Fields, owner: &str, span: Span) -> Result<Self> {
        let text = path.value();
        let mut steps = text.split('.');
        let first = steps.next().unwrap_or_default();
        let own = fields.members().find(|member| plain(member) == first).ok_or_else(|| {
            Error::new(
                span,
                format!("{owner} has no field `{first}` to take its key from: {}", remedy(fields)),
            )
        })?;
        let inner =
            steps.map(|step| syn::parse_str(step).map_err(|_| no_path(path))).collect::<Result<_>>()?;
        Ok(Self { own, inner, span: path.span() })
    }

    /// The field of a pattern that binds it.
    pub(crate) fn binding(&self) -> TokenStream {
        let own = &self.own;
        quote!(#own: field)
    }

    /// The bound field's text.
    pub(crate) fn text(&self) -> TokenStream {
        let inner = &self.inner;
        let value = quote_spanned!(self.span=> &field #(.#inner)*);
        quote_spanned!(self.span=> ::std::borrow::Cow::Owned(::std::string::ToString::to_string(#value)))
    }
}

fn plain(member: &Member) -> String {
    match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

fn remedy(fields: &Fields) -> String {
    let names: Vec<_> = fields.members().map(|member| format!("`{}`", plain(&member))).collect();
    if names.is_empty() {
        return "give it a field with the id of what it happened to".to_owned();
    }
    format!("write #[event(key = \"…\")] on it with one of {}", names.join(", "))
}

fn no_path(path: &LitStr) -> Error {
    Error::new(path.span(), "not a path to a field: write `order_id`, or `0.order_id` for a field inside one")
}
