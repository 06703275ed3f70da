//! Rows become entries: a batch is copied once, into one buffer, and its entries borrow from there.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use postrider_core::entry::Flaw;
use postrider_core::envelope::Trace;
use postrider_core::layout::{Column, Order, Payload, TimeForm, Zone};
use postrider_core::text::Sealed;
use postrider_core::{Arena, Entry, EntryId, Envelope, Key, Layout, Span, Text, limits};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::sql::Field;

/// What the layout says of reading.
#[derive(Debug)]
pub(crate) struct Decoder {
    constants: [Option<Text>; Field::Payload as usize],
    mapped: [bool; Field::Payload as usize],
    time_form: TimeForm,
    zone: Zone,
    payload: Payload,
    keeps_order: bool,
    constant_bytes: usize,
}

impl Decoder {
    pub(crate) fn new(layout: &Layout) -> Self {
        let columns = &layout.columns;
        let mut decoder = Self {
            constants: Default::default(),
            mapped: [false; Field::Payload as usize],
            time_form: TimeForm::Text,
            zone: layout.zone,
            payload: layout.payload,
            keeps_order: layout.order == Order::Key,
            constant_bytes: 0,
        };
        let parts = [
            (Field::EventId, &columns.event_id),
            (Field::Type, &columns.event_type),
            (Field::Source, &columns.source),
            (Field::AggregateType, &columns.aggregate_type),
            (Field::AggregateId, &columns.aggregate_id),
            (Field::Key, &columns.key),
            (Field::Time, &columns.time),
            (Field::ContentType, &columns.content_type),
            (Field::Trace, &columns.trace),
            (Field::TraceState, &columns.trace_state),
            (Field::Sequence, &columns.sequence),
            (Field::Extensions, &columns.extensions),
        ];
        for (field, column) in parts {
            match column {
                Some(Column::Constant(constant)) => {
                    decoder.constants[field as usize] = Some(Text::from(constant.as_str()))
                }
                Some(Column::Named(_, form)) if field == Field::Time => decoder.time_form = *form,
                _ => {}
            }
            decoder.mapped[field as usize] = column.is_some();
        }
        if columns.source.is_none() {
            decoder.constants[Field::Source as usize] = Some(Text::from(format!("/{}", layout.name)));
        }
        decoder.constant_bytes = decoder.constants.iter().flatten().map(|text| text.len()).sum();
        decoder
    }

    /// Reads keys even where order is not kept.
    pub(crate) fn with_keys(self) -> Self {
        Self { keeps_order: true, ..self }
    }

    /// The time in a column of the given form; none where it is not one.
    pub(crate) fn time(&self, value: ValueRef<'_>, form: TimeForm) -> Option<Timestamp> {
        match value {
            ValueRef::Integer(number) => form.from_number(number),
            ValueRef::Text(text) if form == TimeForm::Text => self.zone.read(std::str::from_utf8(text).ok()?),
            ValueRef::Real(number) if form != TimeForm::Text => form.from_number(number as i64),
            _ => None,
        }
    }
}

/// Rows of one claim.
#[derive(Debug)]
pub(crate) struct Batch<'d> {
    decoder: &'d Decoder,
    arena: Arena,
    rows: Vec<Raw>,
}

/// How large a batch was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    bytes: usize,
    rows: usize,
}

/// Where the parts of one row stand in the buffer.
#[derive(Debug)]
struct Raw {
    id: RawId,
    parts: [Part; Field::Payload as usize],
    payload: Option<Span>,
    time: Option<Timestamp>,
    sequence: Option<i64>,
    retries: u32,
    retries_max: Option<u32>,
    flaw: Option<String>,
}

#[derive(Debug)]
enum RawId {
    Int(i64),
    Text(Span),
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Absent,
    Constant,
    At(Span),
}

impl<'d> Batch<'d> {
    pub(crate) fn new(decoder: &'d Decoder) -> Self {
        Self { decoder, arena: Arena::default(), rows: Vec::new() }
    }

    /// One that will be about as large as one before it: growing would copy all of it again and again.
    pub(crate) fn sized(decoder: &'d Decoder, size: Size) -> Self {
        let arena = Arena::with_capacity(size.bytes + size.bytes / 8);
        Self { decoder, arena, rows: Vec::with_capacity(size.rows) }
    }

    pub(crate) fn size(&self) -> Size {
        Size { bytes: self.arena.len(), rows: self.rows.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes gathered so far, as the limits count them.
    pub(crate) fn bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 512;
        self.arena.len() + self.rows.len() * (OVERHEAD_BYTES + self.decoder.constant_bytes)
    }

    /// Copies a row in; one whose id is neither number nor text cannot be settled and is left out.
    pub(crate) fn read(
        &mut self,
        row: &Row<'_>,
        retries: u32,
        retries_max: Option<u32>,
    ) -> rusqlite::Result<()> {
        let id = match row.get_ref(Field::Id as usize)? {
            ValueRef::Integer(id) => RawId::Int(id),
            ValueRef::Text(text) => RawId::Text(self.arena.put(text)),
            _ => return Ok(()),
        };
        let mut raw = Raw {
            id,
            parts: [Part::Absent; Field::Payload as usize],
            payload: None,
            time: None,
            sequence: None,
            retries,
            retries_max,
            flaw: None,
        };
        for field in TEXTS {
            raw.parts[field as usize] = self.part(row, field, &mut raw.flaw)?;
        }
        self.numbers(row, &mut raw)?;
        self.payload(row, &mut raw)?;
        self.rows.push(raw);
        Ok(())
    }

    fn part(&mut self, row: &Row<'_>, field: Field, flaw: &mut Option<String>) -> rusqlite::Result<Part> {
        let at = field as usize;
        if self.decoder.constants[at].is_some() {
            return Ok(Part::Constant);
        }
        Ok(match row.get_ref(at)? {
            ValueRef::Text(text) => Part::At(self.arena.put(text)),
            ValueRef::Integer(number) => Part::At(self.arena.put(number.to_string().as_bytes())),
            ValueRef::Real(number) => Part::At(self.arena.put(number.to_string().as_bytes())),
            ValueRef::Blob(_) => {
                blame(flaw, || format!("column {} holds bytes where a text is expected", field.key()));
                Part::Absent
            }
            ValueRef::Null => {
                if REQUIRED.contains(&field) && self.decoder.mapped[at] {
                    blame(flaw, || format!("column {} is NULL", field.key()));
                }
                Part::Absent
            }
        })
    }

    fn numbers(&mut self, row: &Row<'_>, raw: &mut Raw) -> rusqlite::Result<()> {
        let decoder = self.decoder;
        raw.time = match &decoder.constants[Field::Time as usize] {
            Some(constant) => decoder.zone.read(constant),
            None => decoder.time(row.get_ref(Field::Time as usize)?, decoder.time_form),
        };
        if raw.time.is_none() {
            blame(&mut raw.flaw, || "column time holds no time of the layout's form".into());
        }
        let sequence = row.get_ref(Field::Sequence as usize)?;
        raw.sequence = match sequence {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            ValueRef::Null => {
                decoder.constants[Field::Sequence as usize].as_ref().and_then(|number| number.parse().ok())
            }
            _ => None,
        };
        if raw.sequence.is_none() && sequence != ValueRef::Null {
            blame(&mut raw.flaw, || "column sequence holds no whole number".into());
        }
        Ok(())
    }

    fn payload(&mut self, row: &Row<'_>, raw: &mut Raw) -> rusqlite::Result<()> {
        match row.get_ref(Field::Payload as usize)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => raw.payload = Some(self.arena.put(bytes)),
            ValueRef::Null if self.decoder.payload == Payload::Bytes => {}
            ValueRef::Null => blame(&mut raw.flaw, || "column payload is NULL".into()),
            // A number is a JSON document too, and SQLite keeps one as such.
            ValueRef::Integer(number) => raw.payload = Some(self.arena.put(number.to_string().as_bytes())),
            ValueRef::Real(number) => raw.payload = Some(self.arena.put(number.to_string().as_bytes())),
        }
        Ok(())
    }

    /// Freezes the buffer and lends it to the entries.
    pub(crate) fn finish(self) -> Vec<Entry> {
        let (decoder, sealed) = (self.decoder, self.arena.seal());
        self.rows.into_iter().map(|raw| entry(decoder, &sealed, raw)).collect()
    }
}

/// The parts that are texts.
const TEXTS: [Field; 10] = [
    Field::EventId,
    Field::Type,
    Field::Source,
    Field::AggregateType,
    Field::AggregateId,
    Field::Key,
    Field::ContentType,
    Field::Trace,
    Field::TraceState,
    Field::Extensions,
];
/// The parts that an event is not one without.
const REQUIRED: [Field; 5] =
    [Field::EventId, Field::Type, Field::Source, Field::AggregateType, Field::AggregateId];

fn blame(flaw: &mut Option<String>, why: impl FnOnce() -> String) {
    flaw.get_or_insert_with(why);
}

fn entry(decoder: &Decoder, sealed: &Sealed, raw: Raw) -> Entry {
    let mut flaw = raw.flaw;
    let mut text = |field: Field| -> Option<Text> {
        match raw.parts[field as usize] {
            Part::Absent => None,
            Part::Constant => decoder.constants[field as usize].clone(),
            Part::At(span) => sealed.text(span).or_else(|| {
                blame(&mut flaw, || format!("column {} is not UTF-8", field.key()));
                None
            }),
        }
    };
    let aggregate_type = text(Field::AggregateType).unwrap_or_default();
    let aggregate_id = text(Field::AggregateId).unwrap_or_default();
    let own_key = text(Field::Key).filter(|key| !key.is_empty());
    let extensions = text(Field::Extensions);
    let mut envelope = Envelope {
        id: text(Field::EventId).unwrap_or_default(),
        source: text(Field::Source).unwrap_or_default(),
        event_type: text(Field::Type).unwrap_or_default(),
        time: raw.time.unwrap_or_default(),
        content_type: text(Field::ContentType),
        partition_key: own_key.clone().filter(|key| *key != aggregate_id),
        sequence: raw.sequence,
        trace: text(Field::Trace).map(|parent| Trace { parent, state: text(Field::TraceState) }),
        extensions: BTreeMap::new(),
        data: raw.payload.map_or_else(Bytes::new, |span| sealed.bytes(span)),
        aggregate_type,
        aggregate_id,
    };
    match extensions.as_deref().map_or(Ok(BTreeMap::new()), attributes) {
        Ok(attributes) => envelope.extensions = attributes,
        Err(why) => blame(&mut flaw, || why),
    }
    let id = match raw.id {
        RawId::Int(id) => EntryId::Int(id),
        RawId::Text(span) => EntryId::Text(sealed.text(span).unwrap_or_default()),
    };
    let key = if decoder.keeps_order { key(&envelope, own_key) } else { None };
    Entry { id, envelope, key, retries: raw.retries, retries_max: raw.retries_max, flaw: flaw.map(Flaw) }
}

fn key(envelope: &Envelope, own: Option<Text>) -> Option<Key> {
    match own {
        Some(id) => Some(Key { scope: Text::new(), id }),
        None if envelope.aggregate_id.is_empty() => None,
        None => Some(Key { scope: envelope.aggregate_type.clone(), id: envelope.aggregate_id.clone() }),
    }
}

/// A JSON object of texts; numbers and booleans are taken as they are written.
fn attributes(json: &str) -> Result<BTreeMap<Text, Text>, String> {
    let object: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|_| "column extensions holds no JSON object".to_owned())?;
    if object.len() > limits::EXTENSIONS_MAX {
        return Err(format!("column extensions holds more than {} attributes", limits::EXTENSIONS_MAX));
    }
    let attribute = |(name, value): (String, serde_json::Value)| {
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let text = match value {
            serde_json::Value::String(text) => Some(text),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        };
        match text.filter(|_| plain) {
            Some(text) => Ok((Text::from(name), Text::from(text))),
            None => Err("column extensions holds an attribute whose name is not lower-case letters and digits, or whose value is no text".to_owned()),
        }
    };
    object.into_iter().map(attribute).collect()
}
