//! Rows become entries, which share the buffer that the rows were copied into.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;

use super::attributes::attributes;
use super::hash::{content_hash, is_unambiguous};
use super::places::places;
use super::{Field, RawRow, RawRows, SealedRows, Value};
use crate::entry::Flaw;
use crate::envelope::Trace;
use crate::layout::{Column, Data, Order, Payload, TimeForm, Zone};
use crate::route::{Kind, order_among};
use crate::{Entry, EntryId, Envelope, Key, Layout, Text, limits};

/// What the layout says of reading.
#[derive(Debug)]
pub struct Decoder {
    constants: [Option<Text>; Field::Payload as usize],
    mapped: [bool; Field::Payload as usize],
    time_form: TimeForm,
    zone: Zone,
    /// Whether NULL is a payload.
    takes_null: bool,
    has_time: bool,
    has_hash: bool,
    /// Each part as people find it in the table, for what is said of a flaw.
    places: Vec<String>,
    keeps_order: bool,
    /// Which types have another order than the layout's.
    orders: Vec<(String, Order)>,
    /// What a row counts for in the limits beside the bytes of its columns.
    row_bytes: usize,
}

impl Decoder {
    /// Reads rows as the layout spells them.
    pub fn new(layout: &Layout) -> Self {
        let mut decoder = Self {
            constants: Default::default(),
            mapped: [false; Field::Payload as usize],
            time_form: TimeForm::Text,
            zone: layout.zone,
            takes_null: layout.payload == Payload::Bytes || layout.data == Data::Optional,
            has_time: layout.columns.time != Some(Column::Absent),
            has_hash: layout.columns.hash.is_some(),
            places: places(layout),
            keeps_order: layout.order == Order::Key,
            orders: layout.orders.clone(),
            row_bytes: Entry::OVERHEAD_BYTES,
        };
        let columns = Field::columns(layout).into_iter().take(Field::Payload as usize).enumerate();
        for (at, column) in columns.skip(1) {
            match column {
                Some(Column::Constant(constant)) => {
                    decoder.constants[at] = Some(Text::from(constant.as_str()))
                }
                Some(Column::Named(_, form)) if at == Field::Time as usize => decoder.time_form = *form,
                _ => {}
            }
            decoder.mapped[at] = column.is_some();
        }
        if layout.columns.source.is_none() {
            decoder.constants[Field::Source as usize] = Some(Text::from(format!("/{}", layout.name)));
        }
        decoder.row_bytes += decoder.constants.iter().flatten().map(|text| text.len()).sum::<usize>();
        decoder
    }

    /// Begins with the first row of a batch.
    pub fn begin(&self) -> Decoding<'_> {
        Decoding { decoder: self, before: Default::default() }
    }

    fn orders_type(&self, event_type: &str) -> bool {
        order_among(&self.orders, event_type).map_or(self.keeps_order, |order| order == Order::Key)
    }

    /// Reads keys even where order is not kept.
    pub fn with_keys(self) -> Self {
        Self { keeps_order: true, orders: Vec::new(), ..self }
    }

    /// The time in a column of the given form; none where it is not one.
    pub fn time(&self, value: Value<'_>, form: TimeForm) -> Option<Timestamp> {
        match value {
            Value::Integer(number) => form.from_number(number),
            Value::Text(text) if form == TimeForm::Text => self.zone.read(std::str::from_utf8(text).ok()?),
            Value::Real(number) if form != TimeForm::Text => form.from_number(number as i64),
            Value::Time(us) => Timestamp::from_microsecond(us).ok(),
            Value::Local(us) => self.zone.moment(us),
            _ => None,
        }
    }
}

/// Rows of one claim.
#[derive(Debug)]
pub struct Batch<'d> {
    decoder: &'d Decoder,
    rows: RawRows,
}

impl<'d> Batch<'d> {
    /// No rows yet.
    pub fn new(decoder: &'d Decoder) -> Self {
        Self { decoder, rows: RawRows::default() }
    }

    /// Rows that were read elsewhere.
    pub fn of(decoder: &'d Decoder, rows: RawRows) -> Self {
        Self { decoder, rows }
    }

    /// The rows, unsealed.
    pub fn into_rows(self) -> RawRows {
        self.rows
    }

    /// The last row's id, where that is a number.
    pub fn last_id(&self) -> Option<i64> {
        self.rows.last_id()
    }

    /// Rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes gathered so far, as the limits count them.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.rows.len() * self.decoder.row_bytes
    }

    /// Copies a row in; one whose id is neither number nor text cannot be settled and is left out.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn read<'r, E>(
        &mut self,
        retries: u32,
        retries_max: Option<u32>,
        value: impl FnMut(usize) -> Result<Value<'r>, E>,
    ) -> Result<(), E> {
        self.rows.read(retries, retries_max, value)
    }

    /// The rows as they are, to be decoded elsewhere.
    pub fn seal(self) -> SealedRows {
        self.rows.seal()
    }

    /// All rows as entries.
    pub fn finish(self) -> Vec<Entry> {
        let (mut entries, mut decoding) = (Vec::with_capacity(self.len()), self.decoder.begin());
        let rows = self.rows.seal();
        entries.extend(rows.iter().map(|row| decoding.entry(row)));
        entries
    }
}

/// Decodes one row after the other.
pub struct Decoding<'d> {
    decoder: &'d Decoder,
    /// What the row before had: most rows of a table have the same source, type and kind of aggregate.
    before: [Option<Text>; Field::Payload as usize],
}

impl Decoding<'_> {
    /// The entry that a row is.
    pub fn entry(&mut self, row: RawRow<'_>) -> Entry {
        let mut reader = self.reader(row);
        let own_key = reader.own_key();
        let envelope = reader.envelope(own_key.as_ref());
        reader.verify(&envelope);
        let flaw = reader.flaw.take().map(Flaw);
        let id = match row.get(Field::Id) {
            Value::Integer(id) => EntryId::Int(id),
            _ => EntryId::Text(Text::try_from(row.share(Field::Id)).unwrap_or_default()),
        };
        let key = match own_key {
            _ if !self.decoder.orders_type(&envelope.event_type) => None,
            Some(id) => Some(Key::new("", id)),
            None => aggregate_key(envelope.aggregate_id.clone(), || envelope.aggregate_type.clone()),
        };
        Entry { id, envelope, key, retries: row.retries(), retries_max: row.retries_max(), flaw }
    }

    /// The key that [`Self::entry`] will find.
    pub fn key(&mut self, row: RawRow<'_>) -> Option<Key> {
        let decoder = self.decoder;
        let mut reader = self.reader(row);
        let event_type = if decoder.orders.is_empty() { None } else { reader.text(Field::Type) };
        if !decoder.orders_type(event_type.as_deref().unwrap_or_default()) {
            return None;
        }
        if let Some(id) = reader.own_key() {
            return Some(Key::new("", id));
        }
        let id = reader.text(Field::AggregateId)?;
        aggregate_key(id, || reader.text(Field::AggregateType).unwrap_or_default())
    }

    /// The kind that its envelope will be of.
    pub fn kind(&mut self, row: RawRow<'_>) -> Kind {
        let mut reader = self.reader(row);
        Kind {
            event_type: reader.text(Field::Type).unwrap_or_default(),
            aggregate_type: reader.text(Field::AggregateType).unwrap_or_default(),
        }
    }

    fn reader<'a>(&'a mut self, row: RawRow<'a>) -> Reader<'a> {
        Reader { decoder: self.decoder, before: &mut self.before, row, flaw: None }
    }
}

/// Reads the parts of one row; the first that is none is its flaw.
struct Reader<'a> {
    decoder: &'a Decoder,
    before: &'a mut [Option<Text>; Field::Payload as usize],
    row: RawRow<'a>,
    flaw: Option<String>,
}

/// The parts that an event is not one without.
const REQUIRED: [Field; 5] =
    [Field::EventId, Field::Type, Field::Source, Field::AggregateType, Field::AggregateId];

/// The parts that neighbours often share.
const REPEATED: [Field; 4] = [Field::Source, Field::Type, Field::AggregateType, Field::ContentType];

impl Reader<'_> {
    fn own_key(&mut self) -> Option<Text> {
        self.text(Field::Key).filter(|key| !key.is_empty())
    }

    fn envelope(&mut self, own_key: Option<&Text>) -> Envelope {
        let aggregate_id = self.text(Field::AggregateId).unwrap_or_default();
        let parent = self.text(Field::Trace);
        Envelope {
            id: self.text(Field::EventId).unwrap_or_default(),
            source: self.text(Field::Source).unwrap_or_default(),
            event_type: self.text(Field::Type).unwrap_or_default(),
            time: self.time(),
            content_type: self.text(Field::ContentType),
            aggregate_type: self.text(Field::AggregateType).unwrap_or_default(),
            partition_key: own_key.filter(|key| **key != aggregate_id).cloned(),
            aggregate_id,
            sequence: self.sequence(),
            trace: parent.map(|parent| Trace { parent, state: self.text(Field::TraceState) }),
            extensions: self.extensions(),
            data: self.payload(),
        }
    }

    fn text(&mut self, field: Field) -> Option<Text> {
        let at = field as usize;
        if let Some(constant) = &self.decoder.constants[at] {
            return Some(constant.clone());
        }
        match self.row.get(field) {
            Value::Text(text) if REPEATED.contains(&field) => {
                if self.before[at].as_ref().is_none_or(|before| before.as_bytes() != text) {
                    self.before[at] = self.utf_8(field);
                }
                self.before[at].clone()
            }
            Value::Text(_) => self.utf_8(field),
            Value::Integer(number) => Some(number.to_string().into()),
            Value::Real(number) => Some(number.to_string().into()),
            Value::Time(us) | Value::Local(us) => Some(us.to_string().into()),
            Value::Blob(_) | Value::Uuid(_) => {
                self.blame(field, || "holds bytes where a text is expected".into());
                None
            }
            Value::Null => {
                if self.decoder.mapped[at] && REQUIRED.contains(&field) {
                    self.blame(field, || "is NULL".into());
                }
                None
            }
        }
    }

    fn utf_8(&mut self, field: Field) -> Option<Text> {
        let text = Text::try_from(self.row.share(field)).ok();
        if text.is_none() {
            self.blame(field, || "is not UTF-8".into());
        }
        text
    }

    fn time(&mut self) -> Timestamp {
        let decoder = self.decoder;
        if !decoder.has_time {
            return Envelope::NO_TIME;
        }
        let time = match (&decoder.constants[Field::Time as usize], self.row.get(Field::Time)) {
            (Some(constant), _) => decoder.zone.read(constant),
            // Nobody wrote it down (D2).
            (None, Value::Null) => return Envelope::NO_TIME,
            (None, value) => decoder.time(value, decoder.time_form),
        };
        if time.is_none() {
            self.blame(Field::Time, || "holds no time of the layout's form".into());
        }
        time.unwrap_or(Envelope::NO_TIME)
    }

    fn sequence(&mut self) -> Option<i64> {
        let parsed = |text: &str| text.parse().ok();
        let value = self.row.get(Field::Sequence);
        let sequence = match value {
            Value::Integer(number) => Some(number),
            Value::Text(text) => std::str::from_utf8(text).ok().and_then(parsed),
            Value::Null => self.decoder.constants[Field::Sequence as usize].as_deref().and_then(parsed),
            _ => None,
        };
        if sequence.is_none() && value != Value::Null {
            self.blame(Field::Sequence, || "holds no whole number".into());
        }
        sequence
    }

    fn extensions(&mut self) -> BTreeMap<Text, Text> {
        let Some(json) = self.text(Field::Extensions) else { return BTreeMap::new() };
        attributes(&json).unwrap_or_else(|why| {
            self.blame(Field::Extensions, || why);
            BTreeMap::new()
        })
    }

    fn payload(&mut self) -> Bytes {
        if let Value::Integer(bytes) = self.row.get(Field::TooLarge) {
            self.blame(Field::Payload, || {
                format!("holds {bytes} bytes, and {} is the most", limits::PAYLOAD_BYTES_MAX)
            });
            return Bytes::new();
        }
        match self.row.get(Field::Payload) {
            Value::Text(_) | Value::Blob(_) => self.row.share(Field::Payload),
            Value::Null if self.decoder.takes_null => Bytes::new(),
            Value::Null => {
                self.blame(Field::Payload, || "is NULL".into());
                Bytes::new()
            }
            // A number is a JSON document too, and SQLite keeps one as such.
            Value::Integer(number) => number.to_string().into(),
            Value::Real(number) => number.to_string().into(),
            Value::Time(us) | Value::Local(us) => us.to_string().into(),
            Value::Uuid(_) => Bytes::new(),
        }
    }

    /// What was changed behind the writer's back is not published (A6).
    fn verify(&mut self, envelope: &Envelope) {
        if !self.decoder.has_hash {
            return;
        }
        if !is_unambiguous(&envelope.id, &envelope.event_type) {
            self.blame(Field::Hash, || "joins an id or a type that has a |, and proves nothing".into());
            return;
        }
        let known = content_hash(&envelope.id, &envelope.event_type, &envelope.data);
        if !matches!(self.row.get(Field::Hash), Value::Text(found) if found == known.as_bytes()) {
            self.blame(Field::Hash, || {
                "is not the hash of this row: it was changed after it was written".into()
            });
        }
    }

    fn blame(&mut self, field: Field, what: impl FnOnce() -> String) {
        let decoder = self.decoder;
        self.flaw.get_or_insert_with(|| {
            format!(
                "{} {}: correct the row, or columns.{} in the layout, and revive the entry",
                decoder.places[field as usize],
                what(),
                field.key()
            )
        });
    }
}

/// An aggregate's id is scoped by its type.
fn aggregate_key(id: Text, aggregate_type: impl FnOnce() -> Text) -> Option<Key> {
    (!id.is_empty()).then(|| Key { scope: aggregate_type(), id })
}
