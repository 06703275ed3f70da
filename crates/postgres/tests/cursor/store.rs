//! As much of a store as the Source suite asks for.

use std::time::Duration;

use postrider_core::clock::BoxFuture;
use postrider_core::report::{Report, Reported};
use postrider_core::source::SourceError;
use postrider_core::store::{Depth, Filter, Listed, Shown, Store, Turn};
use postrider_core::{Entry, EntryId, Envelope, Fault, State};
use postrider_servers::query;

pub(crate) struct SmallStore {
    pub(crate) url: String,
}

impl SmallStore {
    fn not_asked<'a, T: Send + 'a>(&self) -> BoxFuture<'a, Result<T, SourceError>> {
        Box::pin(async {
            Err(SourceError::Broken(Fault::new("test", "the Source suite asks for no such thing", "")))
        })
    }
}

impl Store for SmallStore {
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>> {
        self.not_asked()
    }

    fn list<'a>(&'a self, _: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>> {
        self.not_asked()
    }

    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>> {
        let sql = format!(
            "select position >= {id} and not exists (select 1 from postrider_exceptions where entry = {id}) \
             from postrider_position"
        );
        let is_published = query(&self.url, &sql).unwrap()[0][0].as_deref() == Some("t");
        let state = if is_published { State::Published } else { State::Pending };
        let envelope = Envelope {
            id: "".into(),
            source: "".into(),
            event_type: "".into(),
            time: jiff::Timestamp::default(),
            content_type: None,
            aggregate_type: "".into(),
            aggregate_id: "".into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: Default::default(),
            data: Default::default(),
        };
        let entry = Entry { id: id.clone(), envelope, key: None, retries: 0, retries_max: None, flaw: None };
        let listed = Listed {
            id: id.clone(),
            event_id: "".into(),
            event_type: "".into(),
            key: None,
            state,
            retries: 0,
            time: jiff::Timestamp::default(),
            not_before: None,
            error: None,
        };
        Box::pin(async { Ok(Some(Shown { listed, entry, holder: None, published_at: None })) })
    }

    fn revive<'a>(&'a self, filter: &'a Filter, _: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        let ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
        let sql = format!(
            "update postrider_position set epoch = epoch + 1; \
             update postrider_exceptions set shelf = 'parked', due = null, retries = 0, error = null \
             where entry in ({}) and shelf = 'dead' returning entry",
            ids.join(", ")
        );
        let revived = query(&self.url, &sql).unwrap().len() as u64;
        Box::pin(async move { Ok(revived) })
    }

    fn bury<'a>(&'a self, _: &'a Filter, _: &'a str, _: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        self.not_asked()
    }

    fn prune<'a>(&'a self, _: &'a Filter, _: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        self.not_asked()
    }

    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        self.not_asked()
    }

    fn take_turn<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Result<Option<Turn>, SourceError>> {
        self.not_asked()
    }

    fn end_turn<'a>(&'a self, _: Turn, _: Duration) -> BoxFuture<'a, Result<(), SourceError>> {
        self.not_asked()
    }

    fn report<'a>(&'a self, _: &'a Report) -> BoxFuture<'a, Result<(), SourceError>> {
        self.not_asked()
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>> {
        self.not_asked()
    }
}
