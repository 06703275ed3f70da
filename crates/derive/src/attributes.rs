//! What stands in `#[event(…)]`.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitStr, Path, Result};

/// The settings of a type or of one variant, each at most once.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) event_type: Option<LitStr>,
    pub(crate) aggregate: Option<LitStr>,
    pub(crate) key: Option<LitStr>,
    pub(crate) aggregate_id: Option<LitStr>,
    names: Option<LitStr>,
    krate: Option<LitStr>,
}

impl Attributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("event")) {
            attribute.parse_nested_meta(|meta| parsed.take(&meta))?;
        }
        Ok(parsed)
    }

    /// Whether names off the convention are allowed.
    pub(crate) fn free_names(&self) -> Result<bool> {
        match self.names.as_ref().map(|word| (word, word.value())) {
            None => Ok(false),
            Some((_, word)) if word == "free" => Ok(true),
            Some((_, word)) if word == "convention" => Ok(false),
            Some((at, _)) => {
                Err(Error::new(at.span(), "names are \"free\" or by \"convention\" (the default)"))
            }
        }
    }

    /// Where the trait is.
    pub(crate) fn krate(&self) -> Result<Path> {
        match &self.krate {
            Some(path) => path.parse(),
            None => Ok(syn::parse_quote!(::postrider)),
        }
    }

    /// Refuses on a variant what only the whole type can say.
    pub(crate) fn check_variant(&self) -> Result<()> {
        match self.names.as_ref().or(self.krate.as_ref()) {
            Some(at) => Err(Error::new(at.span(), "this holds for the whole type: write it above the enum")),
            None => Ok(()),
        }
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let place = match name.as_str() {
            "type" => &mut self.event_type,
            "aggregate" => &mut self.aggregate,
            "key" => &mut self.key,
            "aggregate_id" => &mut self.aggregate_id,
            "names" => &mut self.names,
            "crate" => &mut self.krate,
            _ => {
                return Err(meta.error(
                    "not a setting of an event: there are type, aggregate, key, aggregate_id, names and crate",
                ));
            }
        };
        let value: LitStr = meta.value()?.parse()?;
        if value.value().is_empty() {
            return Err(Error::new(
                value.span(),
                format!("`{name}` is empty: leave it out, or give it a value"),
            ));
        }
        match place.replace(value) {
            Some(_) => Err(meta.error(format!("`{name}` is given twice"))),
            None => Ok(()),
        }
    }
}
