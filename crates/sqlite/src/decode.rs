//! Rows become entries: a batch is copied once, into one buffer, and its entries borrow from there.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use postrider_core::entry::Flaw;
use postrider_core::envelope::Trace;
use postrider_core::layout::{Column, Order, Payload, TimeForm, Zone};
use postrider_core::{Arena, Entry, EntryId, Envelope, Key, Layout, Text, limits};
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

/// Rows of one claim, as entries.
#[derive(Debug)]
pub(crate) struct Batch<'d> {
    decoder: &'d Decoder,
    arena: Arena,
    entries: Vec<Entry>,
    bytes: usize,
    /// What the row before had: most rows of a table have the same source, type and kind of aggregate.
    before: [Option<Text>; Field::Payload as usize],
}

/// How large a batch was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    bytes: usize,
    rows: usize,
}

impl<'d> Batch<'d> {
    pub(crate) fn new(decoder: &'d Decoder) -> Self {
        Self::sized(decoder, Size::default())
    }

    /// One that will be about as large as one before it.
    pub(crate) fn sized(decoder: &'d Decoder, size: Size) -> Self {
        let arena = Arena::with_capacity(size.bytes + size.bytes / 8);
        Self { decoder, arena, entries: Vec::with_capacity(size.rows), bytes: 0, before: Default::default() }
    }

    pub(crate) fn size(&self) -> Size {
        Size { bytes: self.arena.len(), rows: self.entries.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes gathered so far, as the limits count them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn finish(self) -> Vec<Entry> {
        self.entries
    }

    /// Copies a row in; one whose id is neither number nor text cannot be settled and is left out.
    pub(crate) fn read(
        &mut self,
        row: &Row<'_>,
        retries: u32,
        retries_max: Option<u32>,
    ) -> rusqlite::Result<()> {
        let id = match row.get_ref(Field::Id as usize)? {
            ValueRef::Integer(id) => EntryId::Int(id),
            ValueRef::Text(text) => match self.arena.text(text) {
                Some(id) => EntryId::Text(id),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let mut flaw = None;
        let (arena, before) = (&mut self.arena, &mut self.before);
        let mut reader = Reader { decoder: self.decoder, arena, before, row, flaw: &mut flaw };
        let own_key = reader.text(Field::Key)?.filter(|key| !key.is_empty());
        let envelope = reader.envelope(own_key.as_ref())?;
        let key = if self.decoder.keeps_order { key(&envelope, own_key) } else { None };
        let entry = Entry { id, envelope, key, retries, retries_max, flaw: flaw.map(Flaw) };
        self.bytes += entry.bytes();
        self.entries.push(entry);
        Ok(())
    }
}

/// Reads the parts of one row; the first that is none is its flaw.
struct Reader<'a, 'r> {
    decoder: &'a Decoder,
    arena: &'a mut Arena,
    before: &'a mut [Option<Text>; Field::Payload as usize],
    row: &'a Row<'r>,
    flaw: &'a mut Option<String>,
}

/// The parts that an event is not one without.
const REQUIRED: [Field; 5] =
    [Field::EventId, Field::Type, Field::Source, Field::AggregateType, Field::AggregateId];

/// The parts that neighbours often share.
const REPEATED: [Field; 4] = [Field::Source, Field::Type, Field::AggregateType, Field::ContentType];

impl Reader<'_, '_> {
    fn envelope(&mut self, own_key: Option<&Text>) -> rusqlite::Result<Envelope> {
        let aggregate_id = self.text(Field::AggregateId)?.unwrap_or_default();
        let trace = match self.text(Field::Trace)? {
            Some(parent) => Some(Trace { parent, state: self.text(Field::TraceState)? }),
            None => None,
        };
        Ok(Envelope {
            id: self.text(Field::EventId)?.unwrap_or_default(),
            source: self.text(Field::Source)?.unwrap_or_default(),
            event_type: self.text(Field::Type)?.unwrap_or_default(),
            time: self.time()?,
            content_type: self.text(Field::ContentType)?,
            aggregate_type: self.text(Field::AggregateType)?.unwrap_or_default(),
            partition_key: own_key.filter(|key| **key != aggregate_id).cloned(),
            aggregate_id,
            sequence: self.sequence()?,
            trace,
            extensions: self.extensions()?,
            data: self.payload()?,
        })
    }

    fn text(&mut self, field: Field) -> rusqlite::Result<Option<Text>> {
        let at = field as usize;
        if let Some(constant) = &self.decoder.constants[at] {
            return Ok(Some(constant.clone()));
        }
        Ok(match self.row.get_ref(at)? {
            ValueRef::Text(text) if REPEATED.contains(&field) => {
                if self.before[at].as_ref().is_none_or(|before| before.as_bytes() != text) {
                    self.before[at] = self.utf_8(field, text);
                }
                self.before[at].clone()
            }
            ValueRef::Text(text) => self.utf_8(field, text),
            ValueRef::Integer(number) => self.arena.text(number.to_string().as_bytes()),
            ValueRef::Real(number) => self.arena.text(number.to_string().as_bytes()),
            ValueRef::Blob(_) => {
                self.blame(|| format!("column {} holds bytes where a text is expected", field.key()));
                None
            }
            ValueRef::Null => {
                if self.decoder.mapped[at] && REQUIRED.contains(&field) {
                    self.blame(|| format!("column {} is NULL", field.key()));
                }
                None
            }
        })
    }

    fn utf_8(&mut self, field: Field, text: &[u8]) -> Option<Text> {
        let text = self.arena.text(text);
        if text.is_none() {
            self.blame(|| format!("column {} is not UTF-8", field.key()));
        }
        text
    }

    fn time(&mut self) -> rusqlite::Result<Timestamp> {
        let decoder = self.decoder;
        let time = match &decoder.constants[Field::Time as usize] {
            Some(constant) => decoder.zone.read(constant),
            None => decoder.time(self.row.get_ref(Field::Time as usize)?, decoder.time_form),
        };
        if time.is_none() {
            self.blame(|| "column time holds no time of the layout's form".into());
        }
        Ok(time.unwrap_or_default())
    }

    fn sequence(&mut self) -> rusqlite::Result<Option<i64>> {
        let parsed = |text: &str| text.parse().ok();
        let value = self.row.get_ref(Field::Sequence as usize)?;
        let sequence = match value {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(parsed),
            ValueRef::Null => self.decoder.constants[Field::Sequence as usize].as_deref().and_then(parsed),
            _ => None,
        };
        if sequence.is_none() && value != ValueRef::Null {
            self.blame(|| "column sequence holds no whole number".into());
        }
        Ok(sequence)
    }

    fn extensions(&mut self) -> rusqlite::Result<BTreeMap<Text, Text>> {
        let Some(json) = self.text(Field::Extensions)? else { return Ok(BTreeMap::new()) };
        Ok(attributes(&json).unwrap_or_else(|why| {
            self.blame(|| why);
            BTreeMap::new()
        }))
    }

    fn payload(&mut self) -> rusqlite::Result<Bytes> {
        Ok(match self.row.get_ref(Field::Payload as usize)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => self.arena.bytes(bytes),
            ValueRef::Null if self.decoder.payload == Payload::Bytes => Bytes::new(),
            ValueRef::Null => {
                self.blame(|| "column payload is NULL".into());
                Bytes::new()
            }
            // A number is a JSON document too, and SQLite keeps one as such.
            ValueRef::Integer(number) => self.arena.bytes(number.to_string().as_bytes()),
            ValueRef::Real(number) => self.arena.bytes(number.to_string().as_bytes()),
        })
    }

    fn blame(&mut self, why: impl FnOnce() -> String) {
        self.flaw.get_or_insert_with(why);
    }
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
