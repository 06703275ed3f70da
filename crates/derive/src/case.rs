//! One kind of event: a struct, or a variant of an enum.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, LitStr, Result, Variant};

use crate::attributes::Attributes;
use crate::convention;
use crate::field::Field;

/// Everything the trait asks of one kind of event.
pub(crate) struct Case {
    owner: String,
    pub(crate) pattern: TokenStream,
    pub(crate) event_type: LitStr,
    pub(crate) aggregate: LitStr,
    pub(crate) aggregate_id: Field,
    /// Only where it is not the aggregate's id.
    pub(crate) key: Option<Field>,
}

/// The cases of a type. Every variant's fault is reported, not the first alone.
pub(crate) fn cases(input: &DeriveInput, whole: &Attributes) -> Result<Vec<Case>> {
    match &input.data {
        Data::Enum(data) => of_enum(&input.ident, data, whole),
        Data::Struct(data) => {
            let owner = Owner { ident: &input.ident, word: "struct", pattern: quote!(Self) };
            Ok(vec![owner.case(&Attributes::default(), whole, &data.fields)?])
        }
        Data::Union(_) => {
            Err(Error::new(input.ident.span(), "a union is no event: make it an enum or a struct"))
        }
    }
}

fn of_enum(ident: &Ident, data: &DataEnum, whole: &Attributes) -> Result<Vec<Case>> {
    if let Some(at) = &whole.event_type {
        return Err(Error::new(
            at.span(),
            "each variant has a type name of its own: write it above the variant",
        ));
    }
    if data.variants.is_empty() {
        return Err(Error::new(ident.span(), "no variant, no event: add one for each thing that can happen"));
    }
    let mut cases: Vec<Case> = Vec::new();
    let mut faults: Option<Error> = None;
    for variant in &data.variants {
        match of_variant(variant, whole).and_then(|case| new_among(&cases, case)) {
            Ok(case) => cases.push(case),
            Err(fault) => match &mut faults {
                Some(faults) => faults.combine(fault),
                None => faults = Some(fault),
            },
        }
    }
    faults.map_or(Ok(cases), Err)
}

fn of_variant(variant: &Variant, whole: &Attributes) -> Result<Case> {
    let own = Attributes::parse(&variant.attrs)?;
    own.check_variant()?;
    let ident = &variant.ident;
    Owner { ident, word: "variant", pattern: quote!(Self::#ident) }.case(&own, whole, &variant.fields)
}

fn new_among(cases: &[Case], case: Case) -> Result<Case> {
    match cases.iter().find(|other| other.event_type.value() == case.event_type.value()) {
        Some(other) => Err(Error::new(
            case.event_type.span(),
            format!(
                "{} has this type name already: consumers could not tell the two apart; give each its own",
                other.owner
            ),
        )),
        None => Ok(case),
    }
}

/// Whose attributes and fields are looked at.
struct Owner<'a> {
    ident: &'a Ident,
    word: &'static str,
    pattern: TokenStream,
}

impl Owner<'_> {
    fn case(&self, own: &Attributes, whole: &Attributes, fields: &Fields) -> Result<Case> {
        let owner = format!("{} `{}`", self.word, self.ident);
        let event_type = own.event_type.as_ref().or(whole.event_type.as_ref()).ok_or_else(|| {
            self.fault(format!(
                "{owner} has no type name, by which consumers know it: write #[event(type = \"company.domain.action.v1\")] above it"
            ))
        })?;
        check_name(event_type, whole.free_names()?)?;
        let aggregate = own.aggregate.as_ref().or(whole.aggregate.as_ref()).ok_or_else(|| {
            self.fault(format!(
                "{owner} does not say what it happens to: write #[event(aggregate = \"…\")] above it or above the type"
            ))
        })?;
        let key = self.field(own.key.as_ref(), whole.key.as_ref(), fields, &owner)?.ok_or_else(|| {
            self.fault(format!(
                "{owner} has no key, which keeps its events in order: write #[event(key = \"…\")] above it or above the type, with the field that holds the aggregate's id"
            ))
        })?;
        let aggregate_id =
            self.field(own.aggregate_id.as_ref(), whole.aggregate_id.as_ref(), fields, &owner)?;
        let (aggregate_id, key) = match aggregate_id {
            Some(aggregate_id) => (aggregate_id, Some(key)),
            None => (key, None),
        };
        let pattern = self.pattern.clone();
        Ok(Case {
            owner,
            pattern,
            event_type: event_type.clone(),
            aggregate: aggregate.clone(),
            aggregate_id,
            key,
        })
    }

    /// A fault in what was inherited from the type is shown at the variant, which is where it must be mended.
    fn field(
        &self,
        own: Option<&LitStr>,
        whole: Option<&LitStr>,
        fields: &Fields,
        owner: &str,
    ) -> Result<Option<Field>> {
        let at = own.map_or(self.ident.span(), LitStr::span);
        own.or(whole).map(|path| Field::find(path, fields, owner, at)).transpose()
    }

    fn fault(&self, message: String) -> Error {
        Error::new(self.ident.span(), message)
    }
}

fn check_name(event_type: &LitStr, free: bool) -> Result<()> {
    /// As `limits::TYPE_BYTES_MAX`, which would refuse it at the write.
    const TYPE_BYTES_MAX: usize = 255;
    let text = event_type.value();
    if text.len() > TYPE_BYTES_MAX {
        return Err(Error::new(event_type.span(), format!("a type name has at most {TYPE_BYTES_MAX} bytes")));
    }
    match convention::fault(&text) {
        Some(fault) if !free => Err(Error::new(
            event_type.span(),
            format!(
                "{fault}: rename it, or write #[event(names = \"free\")] above the type to allow any name"
            ),
        )),
        _ => Ok(()),
    }
}
