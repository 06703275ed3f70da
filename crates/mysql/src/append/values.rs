//! Envelopes as parameters, for whichever driver binds them; what the table would refuse is refused here (F5).

use std::borrow::Cow;

use postrider_core::append::{Cell, Slot, cell};
use postrider_core::layout::Zone;
use postrider_core::rows::Field;
use postrider_core::{Envelope, Fault, Layout};

use crate::sql::append::{AppendSql, Parameter};
use crate::table::Kind;

/// A parameter.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Int(i64),
}

/// The parameters of one row.
pub(crate) fn one<'a>(
    layout: &Layout,
    sql: &'a AppendSql,
    envelope: &'a Envelope,
) -> Result<Vec<Value<'a>>, Fault> {
    sql.parameters.iter().map(|parameter| value(layout, parameter, envelope)).collect()
}

fn value<'a>(layout: &Layout, parameter: &'a Parameter, envelope: &'a Envelope) -> Result<Value<'a>, Fault> {
    let column = &parameter.column;
    let field = match &parameter.slot {
        Slot::Part(field) => *field,
        Slot::Word(word) => return Ok(Value::Text(Cow::Borrowed(word))),
        Slot::Zero => return Ok(Value::Int(0)),
    };
    let found = match (field, column.kind) {
        // A moment is written in UTC, which the statement's own zone is; a column of times takes no number.
        (Field::Time, Kind::Moment) => Cell::Text(Zone::default().write(envelope.time).into()),
        (Field::Time, Kind::Local | Kind::Date) => Cell::Text(layout.zone.write(envelope.time).into()),
        // With its zone, where the column would keep it; one without keeps the layout's.
        (Field::Time, Kind::Text) => match cell(layout, &parameter.slot, envelope) {
            Cell::Text(written) => Cell::Text(format!("{written}{}", offset(layout)).into()),
            number => number,
        },
        _ => cell(layout, &parameter.slot, envelope),
    };
    let refused =
        |is: &str, takes: &str, remedy: &str| Err(refused(column, field, envelope, is, takes, remedy));
    match found {
        Cell::Null if column.not_null && !column.has_default => {
            refused("is missing", "takes no NULL", "Give the event one, or let the column take NULL")
        }
        Cell::Null => Ok(Value::Null),
        Cell::Int(number) => Ok(Value::Int(number)),
        Cell::Bytes(bytes) if column.kind == Kind::Bytes => {
            fits_bytes(parameter, field, envelope, bytes.len())?;
            Ok(Value::Bytes(bytes.into()))
        }
        Cell::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if column.kind != Kind::Json => {
                fits(parameter, field, envelope, text)?;
                Ok(Value::Text(text.into()))
            }
            _ => refused(
                "is neither JSON nor plain text",
                &format!("is of type {}", column.declared),
                "Append JSON, or make the column longblob and set payload = \"bytes\" in the layout",
            ),
        },
        Cell::Text(text) => {
            fits(parameter, field, envelope, &text)?;
            Ok(Value::Text(text))
        }
    }
}

/// What [`Zone::write`] writes in.
pub(crate) fn offset(layout: &Layout) -> String {
    if layout.zone == Zone::default() { "+00:00".into() } else { layout.zone.to_string() }
}

fn fits_bytes(parameter: &Parameter, field: Field, envelope: &Envelope, bytes: usize) -> Result<(), Fault> {
    match parameter.column.bytes_max.filter(|most| bytes > *most) {
        None => Ok(()),
        Some(most) => Err(refused(
            &parameter.column,
            field,
            envelope,
            &format!("has {bytes} bytes"),
            &format!("takes {most}"),
            "Make it smaller, or widen the column",
        )),
    }
}

fn fits(parameter: &Parameter, field: Field, envelope: &Envelope, text: &str) -> Result<(), Fault> {
    let column = &parameter.column;
    match column.kind {
        Kind::Integer if text.parse::<i64>().is_err() && text.parse::<u64>().is_err() => Err(refused(
            column,
            field,
            envelope,
            "is no number",
            &format!("is of type {}", column.declared),
            "Give it a number, or make the column text",
        )),
        Kind::Other if column.declared == "uuid" && !is_uuid(text) => Err(refused(
            column,
            field,
            envelope,
            "is no UUID",
            "is of type uuid",
            "Give it a UUID such as 018f3b0c-7d4e-7abc-8def-0123456789ab, or make the column text",
        )),
        Kind::Text => {
            // Bytes first: they are known, and a text of no more bytes has no more characters.
            let most = column.characters_max.filter(|most| text.len() > *most);
            let characters = most.map_or(0, |_| text.chars().count());
            match most.filter(|most| characters > *most) {
                None => fits_bytes(parameter, field, envelope, text.len()),
                Some(most) => Err(refused(
                    column,
                    field,
                    envelope,
                    &format!("has {characters} characters"),
                    &format!("takes {most}"),
                    "Shorten it, or widen the column",
                )),
            }
        }
        Kind::Bytes => fits_bytes(parameter, field, envelope, text.len()),
        _ => Ok(()),
    }
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
fn refused(
    column: &super::shape::LiveColumn,
    field: Field,
    envelope: &Envelope,
    is: &str,
    takes: &str,
    remedy: &str,
) -> Fault {
    Fault::new(
        format!("event \"{}\"", envelope.event_type),
        format!("its {} {is}, and column \"{}\" {takes}", field.key(), column.name),
        remedy,
    )
}
