//! Attributes as text on their way into an envelope: what both encodings decode in the same way.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Malformed, check_extension};
use crate::envelope::Trace;
use crate::{Envelope, Text};

pub(super) const SPEC_VERSION: &str = "1.0";

/// Whether a name belongs to an attribute that has a field of its own, or to the data.
pub(super) fn is_reserved(name: &str) -> bool {
    name == "specversion" || name == "data" || Attributes::default().field(name).is_some()
}

/// Attributes as they come in, in any order, each at most once.
#[derive(Default)]
pub(super) struct Attributes {
    id: Option<Text>,
    source: Option<Text>,
    event_type: Option<Text>,
    time: Option<Text>,
    content_type: Option<Text>,
    aggregate_type: Option<Text>,
    aggregate_id: Option<Text>,
    partition_key: Option<Text>,
    sequence: Option<Text>,
    trace_parent: Option<Text>,
    trace_state: Option<Text>,
    spec_version: Option<Text>,
    extensions: BTreeMap<Text, Text>,
}

impl Attributes {
    pub(super) fn set(&mut self, name: &str, value: Text) -> Result<(), Malformed> {
        let before = match self.field(name) {
            Some(field) => field.replace(value),
            None => {
                check_extension(name)?;
                self.extensions.insert(Text::from(name), value)
            }
        };
        if before.is_some() { Err(Malformed(format!("attribute {name:?} is there twice"))) } else { Ok(()) }
    }

    pub(super) fn finish(
        self,
        data: impl FnOnce(&Envelope) -> Result<Bytes, Malformed>,
    ) -> Result<Envelope, Malformed> {
        match self.spec_version.as_deref() {
            Some(SPEC_VERSION) => {}
            Some(_) => return Err(Malformed(format!("its specversion is not {SPEC_VERSION}"))),
            None => return Err(missing("specversion")),
        }
        let time = self.time.map(|time| time.parse()).transpose();
        let time = time.map_err(|_| Malformed("its time is not a timestamp of RFC 3339".to_owned()))?;
        let sequence = self.sequence.map(|text| text.parse()).transpose();
        let mut envelope = Envelope {
            id: self.id.filter(|id| !id.is_empty()).ok_or_else(|| missing("id"))?,
            source: self.source.filter(|source| !source.is_empty()).ok_or_else(|| missing("source"))?,
            event_type: self.event_type.filter(|name| !name.is_empty()).ok_or_else(|| missing("type"))?,
            time: time.unwrap_or(Envelope::NO_TIME),
            content_type: self.content_type,
            aggregate_type: self.aggregate_type.unwrap_or_default(),
            aggregate_id: self.aggregate_id.unwrap_or_default(),
            partition_key: self.partition_key,
            sequence: sequence
                .map_err(|_| Malformed("its sequence is not an integer of 64 bits".to_owned()))?,
            trace: self.trace_parent.map(|parent| Trace { parent, state: self.trace_state }),
            extensions: self.extensions,
            data: Bytes::new(),
        };
        envelope.data = data(&envelope)?;
        Ok(envelope)
    }

    fn field(&mut self, name: &str) -> Option<&mut Option<Text>> {
        Some(match name {
            "specversion" => &mut self.spec_version,
            "id" => &mut self.id,
            "source" => &mut self.source,
            "type" => &mut self.event_type,
            "time" => &mut self.time,
            "datacontenttype" => &mut self.content_type,
            "aggregatetype" => &mut self.aggregate_type,
            "aggregateid" => &mut self.aggregate_id,
            "partitionkey" => &mut self.partition_key,
            "sequence" => &mut self.sequence,
            "traceparent" => &mut self.trace_parent,
            "tracestate" => &mut self.trace_state,
            _ => return None,
        })
    }
}

fn missing(name: &str) -> Malformed {
    Malformed(format!("attribute {name:?} is missing or empty"))
}
