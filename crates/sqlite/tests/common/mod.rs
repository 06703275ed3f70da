//! What the tests share: files with tables in them, and events.
#![allow(dead_code)]

use std::collections::BTreeMap;

use postrider_core::{Envelope, Layout};
use postrider_sqlite::{Config, migrate};
use tempfile::NamedTempFile;

pub(crate) fn native() -> Layout {
    Layout::built_in("native").unwrap()
}

/// A file with the native outbox in it.
pub(crate) fn outbox_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    migrate(&Config::new(file.path(), native(), "test")).unwrap();
    file
}

pub(crate) fn envelope(number: i32) -> Envelope {
    Envelope {
        id: format!("event-{number}").into(),
        source: "/shop".into(),
        event_type: "shop.order.created.v1".into(),
        time: "2026-03-01T12:00:00.123456Z".parse().unwrap(),
        content_type: None,
        aggregate_type: "Order".into(),
        aggregate_id: format!("{}", number % 10).into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!("{{\"number\":{number}}}").into(),
    }
}
