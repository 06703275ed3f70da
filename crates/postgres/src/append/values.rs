//! Envelopes as parameters, for whichever driver binds them; what the table would refuse is refused here (F5).

use std::borrow::Cow;

use postrider_core::append::{Cell, Slot, cell};
use postrider_core::rows::Field;
use postrider_core::{Envelope, Fault, Layout};

use super::shape::Kind;
use crate::sql::{AppendSql, Form, Parameter, offset};

/// A parameter: one value, or a column of them.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Bytes(Option<Cow<'a, [u8]>>),
    Int(Option<i64>),
    Texts(Vec<Option<Cow<'a, str>>>),
    ManyBytes(Vec<Option<Cow<'a, [u8]>>>),
    Ints(Vec<Option<i64>>),
}

impl Value<'_> {
    fn is_null(&self) -> bool {
        matches!(self, Self::Text(None) | Self::Bytes(None) | Self::Int(None))
    }
}

const EXTENSIONS: &Slot = &Slot::Part(Field::Extensions);

/// The parameters of [`AppendSql::one`].
pub(crate) fn one<'a>(
    layout: &Layout,
    sql: &'a AppendSql,
    envelope: &'a Envelope,
) -> Result<Vec<Value<'a>>, Fault> {
    sql.parameters.iter().map(|parameter| value(layout, parameter, envelope)).collect()
}

/// The statement for one row, and its parameters: without the extra columns where the event has nothing for them.
pub(crate) fn shortest<'a>(
    layout: &Layout,
    sql: &'a AppendSql,
    envelope: &'a Envelope,
) -> Result<(&'a str, Vec<Value<'a>>), Fault> {
    let mut values = one(layout, sql, envelope)?;
    let given = |(parameter, value): (&Parameter, &Value<'_>)| parameter.is_extra && !value.is_null();
    if sql.parameters.iter().zip(&values).any(given) {
        return Ok((&sql.one, values));
    }
    let mut parameters = sql.parameters.iter();
    values.retain(|_| parameters.next().is_none_or(|parameter| !parameter.is_extra));
    Ok((&sql.plain, values))
}

/// The parameters of [`AppendSql::many`].
pub(crate) fn many<'a>(
    layout: &Layout,
    sql: &'a AppendSql,
    envelopes: &'a [Envelope],
) -> Result<Vec<Value<'a>>, Fault> {
    let column = |parameter: &'a Parameter| {
        let mut all = match parameter.form {
            Form::Text => Value::Texts(Vec::with_capacity(envelopes.len())),
            Form::Bytes => Value::ManyBytes(Vec::with_capacity(envelopes.len())),
            Form::Int => Value::Ints(Vec::with_capacity(envelopes.len())),
        };
        for envelope in envelopes {
            match (&mut all, value(layout, parameter, envelope)?) {
                (Value::Texts(all), Value::Text(one)) => all.push(one),
                (Value::ManyBytes(all), Value::Bytes(one)) => all.push(one),
                (Value::Ints(all), Value::Int(one)) => all.push(one),
                _ => unreachable!("a parameter has one form"),
            }
        }
        Ok(all)
    };
    sql.parameters.iter().map(column).collect()
}

/// The arguments of the installed function, in its order.
pub(crate) fn once<'a>(layout: &Layout, envelope: &'a Envelope, key: &'a str) -> [Value<'a>; 15] {
    let text = |text: &'a str| Value::Text(Some(Cow::Borrowed(text)));
    let optional = |text: Option<&'a str>| Value::Text(text.map(Cow::Borrowed));
    let data = (!envelope.data.is_empty()).then_some(&envelope.data[..]);
    let json = data.filter(|_| envelope.is_json()).and_then(|data| std::str::from_utf8(data).ok());
    let extensions = match cell(layout, EXTENSIONS, envelope) {
        Cell::Text(object) => Some(object),
        _ => None,
    };
    [
        text(&envelope.event_type),
        text(&envelope.aggregate_type),
        text(&envelope.aggregate_id),
        optional(json),
        text(key),
        optional(envelope.partition_key.as_deref()),
        text(&envelope.id),
        text(&envelope.source),
        Value::Text(envelope.known_time().map(|time| time.to_string().into())),
        optional(envelope.content_type.as_deref()),
        optional(envelope.trace.as_ref().map(|trace| &*trace.parent)),
        optional(envelope.trace.as_ref().and_then(|trace| trace.state.as_deref())),
        Value::Int(envelope.sequence),
        Value::Text(extensions),
        Value::Bytes(data.filter(|_| json.is_none()).map(Cow::Borrowed)),
    ]
}

fn value<'a>(layout: &Layout, parameter: &'a Parameter, envelope: &'a Envelope) -> Result<Value<'a>, Fault> {
    let cell = match parameter.field {
        // With its zone, whatever the session's is; a column without one drops it and keeps the layout's.
        Field::Time if parameter.form != Form::Int => {
            Cell::Text(format!("{}{}", layout.zone.write(envelope.time), offset(layout.zone)).into())
        }
        _ => cell(layout, &parameter.slot, envelope),
    };
    let column = &parameter.column;
    if matches!(cell, Cell::Null) && column.not_null && column.default.is_none() {
        return Err(refused(
            parameter,
            envelope,
            "is missing",
            "takes no NULL",
            "Give the event one, or let the column take NULL",
        ));
    }
    Ok(match parameter.form {
        Form::Text => Value::Text(text(parameter, envelope, cell)?),
        Form::Bytes => Value::Bytes(bytes(cell)),
        Form::Int => Value::Int(match cell {
            Cell::Int(number) => Some(number),
            _ => None,
        }),
    })
}

fn text<'a>(
    parameter: &Parameter,
    envelope: &Envelope,
    cell: Cell<'a>,
) -> Result<Option<Cow<'a, str>>, Fault> {
    let text = match cell {
        Cell::Null => return Ok(None),
        Cell::Int(number) => number.to_string().into(),
        Cell::Text(text) => text,
        Cell::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if parameter.column.kind != Kind::Json && !bytes.contains(&0) => Cow::Borrowed(text),
            _ => {
                let takes = format!("is of type {}", parameter.column.declared);
                let remedy =
                    "Append JSON, or make the column bytea and set payload = \"bytes\" in the layout";
                return Err(refused(parameter, envelope, "is neither JSON nor plain text", &takes, remedy));
            }
        },
    };
    fits(parameter, envelope, &text)?;
    Ok(Some(text))
}

fn bytes(cell: Cell<'_>) -> Option<Cow<'_, [u8]>> {
    match cell {
        Cell::Null => None,
        Cell::Int(number) => Some(number.to_string().into_bytes().into()),
        Cell::Text(Cow::Borrowed(text)) => Some(text.as_bytes().into()),
        Cell::Text(Cow::Owned(text)) => Some(text.into_bytes().into()),
        Cell::Bytes(bytes) => Some(bytes.into()),
    }
}

fn fits(parameter: &Parameter, envelope: &Envelope, text: &str) -> Result<(), Fault> {
    let column = &parameter.column;
    // Bytes first: they are known, and a text of no more bytes has no more characters.
    if let Some(most) = column.characters_max.filter(|most| text.len() > *most) {
        let characters = text.chars().count();
        if characters > most {
            return Err(refused(
                parameter,
                envelope,
                &format!("has {characters} characters"),
                &format!("takes {most}"),
                "Shorten it, or widen the column",
            ));
        }
    }
    match column.kind {
        Kind::Uuid if !is_uuid(text) => Err(refused(
            parameter,
            envelope,
            "is no UUID",
            "is of type uuid",
            "Give it a UUID such as 018f3b0c-7d4e-7abc-8def-0123456789ab, or make the column text",
        )),
        Kind::Int if text.parse::<i64>().is_err() => Err(refused(
            parameter,
            envelope,
            "is no number",
            &format!("is of type {}", column.declared),
            "Give it a number, or make the column text",
        )),
        Kind::Json if column.declared.contains("jsonb") => match zero_character(text) {
            Some(at) => Err(refused(
                parameter,
                envelope,
                &format!("holds the character \\u0000 at byte {at}"),
                "is of type jsonb, which keeps none",
                "Take it out of the payload, or make the column json, text or bytea",
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Where JSON spells the character zero, which only its escape can: a backslash before it would make it six others.
fn zero_character(json: &str) -> Option<usize> {
    let escapes =
        |at: usize| json.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0;
    json.match_indices("\\u0000").map(|(at, _)| at).find(|at| escapes(*at))
}

/// In the usual spelling, which is how the database writes it.
fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The value itself is not shown: it may be the payload.
fn refused(parameter: &Parameter, envelope: &Envelope, is: &str, takes: &str, remedy: &str) -> Fault {
    Fault::new(
        format!("event \"{}\"", envelope.event_type),
        format!("its {} {is}, and column \"{}\" {takes}", parameter.field.key(), parameter.column.name),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::{is_uuid, zero_character};

    #[test]
    fn the_character_zero_is_told_from_what_looks_like_it() {
        assert_eq!(zero_character(r#"{"a":"\u0000"}"#), Some(6));
        assert_eq!(zero_character(r#"{"a":"\\u0000"}"#), None);
        assert_eq!(zero_character(r#"{"a":"\\\u0000"}"#), Some(8));
        assert_eq!(zero_character(r#"{"a":"u0000\u0001"}"#), None);
    }

    #[test]
    fn uuids_are_known_by_their_usual_spelling() {
        assert!(is_uuid("018f3b0c-7d4e-7abc-8def-0123456789AB"));
        for bad in [
            "",
            "7",
            "018f3b0c7d4e7abc8def0123456789ab",
            "018f3b0c-7d4e-7abc-8def-0123456789ag",
            "{18f3b0c-7d4e-7abc-8def-0123456789a}",
        ] {
            assert!(!is_uuid(bad), "{bad}");
        }
    }
}
