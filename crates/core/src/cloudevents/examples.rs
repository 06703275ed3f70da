//! Envelopes for tests: one to look at, and all kinds of them.

use jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

use super::check_extension;
use crate::envelope::Trace;
use crate::{Envelope, Text};

pub(crate) fn order_created() -> Envelope {
    Envelope {
        id: "01961c5e-0000-7000-8000-000000000001".into(),
        source: "/shop".into(),
        event_type: "loopers.order.created.v1".into(),
        time: "2026-03-01T12:00:00.000000001Z".parse().unwrap(),
        content_type: None,
        aggregate_type: "Order".into(),
        aggregate_id: "order-7".into(),
        partition_key: Some("customer-3".into()),
        sequence: Some(12),
        trace: Some(Trace {
            parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            state: Some("a=1".into()),
        }),
        extensions: [("tenant".into(), "acme".into())].into(),
        data: r#"{"total":12}"#.into(),
    }
}

/// Any moment that a timestamp can tell, to the nanosecond.
pub(crate) fn times() -> impl Strategy<Value = Timestamp> {
    let (min, max) = (Timestamp::MIN.as_nanosecond(), Timestamp::MAX.as_nanosecond());
    (min..=max).prop_map(|nanos| Timestamp::from_nanosecond(nanos).unwrap())
}

/// Any envelope: any characters in any text, any data, JSON or not.
pub(crate) fn envelopes() -> impl Strategy<Value = Envelope> {
    let attributes = (texts(1), texts(1), texts(1), times(), texts(0), texts(0));
    let more = (option::of(texts(0)), option::of(any::<i64>()), option::of((texts(0), option::of(texts(0)))));
    (attributes, more, extensions(), data()).prop_map(
        |(attributes, more, extensions, (content_type, data))| {
            let (id, source, event_type, time, aggregate_type, aggregate_id) = attributes;
            let (partition_key, sequence, trace) = more;
            Envelope {
                id,
                source,
                event_type,
                time,
                content_type: content_type.map(Text::from_static),
                aggregate_type,
                aggregate_id,
                partition_key,
                sequence,
                trace: trace.map(|(parent, state)| Trace { parent, state }),
                extensions,
                data: data.into(),
            }
        },
    )
}

fn texts(chars_min: usize) -> impl Strategy<Value = Text> {
    vec(any::<char>(), chars_min..20).prop_map(|chars| Text::from(chars.into_iter().collect::<String>()))
}

fn extensions() -> impl Strategy<Value = std::collections::BTreeMap<Text, Text>> {
    let names = "[a-z0-9]{1,12}".prop_filter("a name of its own", |name| check_extension(name).is_ok());
    btree_map(names.prop_map(Text::from), texts(0), 0..4)
}

fn data() -> impl Strategy<Value = (Option<&'static str>, Vec<u8>)> {
    let json = option::of(prop::sample::select(vec![
        "application/json",
        "text/json; charset=utf-8",
        "application/problem+json",
    ]));
    let other = prop::sample::select(vec!["application/octet-stream", "text/plain"]).prop_map(Some);
    prop_oneof![
        (json.clone(), values().prop_map(|value| value.to_string().into_bytes())),
        (json, Just(Vec::new())),
        (other, vec(any::<u8>(), 0..200)),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let text = || vec(any::<char>(), 0..10).prop_map(|chars| chars.into_iter().collect::<String>());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((text(), inner), 0..5).prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}
