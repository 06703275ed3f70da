//! Which column is which part of an entry, by how such columns are usually called and by what they hold.

use postrider_postgres::{Described, DescribedColumn, Holds};

/// A part, what its column is usually called (the likeliest first), and what it may hold.
type Usual = (&'static str, &'static [&'static str], &'static [Holds]);

const TIMES: &[Holds] = &[Holds::Moment, Holds::Local];
const IDS: &[Holds] = &[Holds::Text, Holds::Uuid, Holds::Integer];
const TEXTS: &[Holds] = &[Holds::Text];

const USUAL: [Usual; 21] = [
    ("event_id", &["eventid", "eventuuid", "messageid", "uuid"], &[Holds::Text, Holds::Uuid]),
    ("type", &["eventtype", "type", "eventname", "messagetype", "kind", "event", "name"], TEXTS),
    ("source", &["source", "producer", "origin"], TEXTS),
    (
        "aggregate_type",
        &["aggregatetype", "aggregateroottype", "aggregate", "entitytype", "aggregatename"],
        TEXTS,
    ),
    ("aggregate_id", &["aggregateid", "aggregaterootid", "entityid"], IDS),
    ("key", &["partitionkey", "messagekey", "routingkey", "key"], IDS),
    (
        "payload",
        &["payload", "eventpayload", "eventdata", "data", "body", "content", "message", "value"],
        &[Holds::Json, Holds::Text, Holds::Bytes],
    ),
    (
        "time",
        &[
            "occurredat",
            "occurredon",
            "happenedat",
            "eventtime",
            "time",
            "timestamp",
            "createdat",
            "createdon",
            "created",
            "insertedat",
        ],
        TIMES,
    ),
    ("content_type", &["contenttype", "datacontenttype"], TEXTS),
    ("trace", &["traceparent", "tracecontext"], TEXTS),
    ("trace_state", &["tracestate"], TEXTS),
    ("sequence", &["sequence", "sequencenumber", "aggregateversion"], &[Holds::Integer]),
    (
        "status",
        &["status", "state", "eventstatus", "outboxstatus"],
        &[Holds::Text, Holds::Integer, Holds::Boolean],
    ),
    ("retries", &["retrycount", "retries", "attempts", "attemptcount", "tries"], &[Holds::Integer]),
    ("retries_max", &["maxretries", "maxretrycount", "maxattempts"], &[Holds::Integer]),
    ("not_before", &["nextattemptat", "nextretryat", "notbefore", "availableat", "retryat"], TIMES),
    ("error", &["lasterror", "errormessage", "error", "failurereason"], TEXTS),
    ("published_at", &["publishedat", "processedat", "sentat", "dispatchedat"], TIMES),
    ("lease_owner", &["lockedby", "leaseowner", "claimedby", "lockowner"], TEXTS),
    ("leased_at", &["lockedat", "leasedat", "claimedat"], TIMES),
    ("version", &["version", "lockversion"], &[Holds::Integer]),
];

/// Columns that say "published" with a flag.
const FLAGS: [&str; 7] =
    ["published", "processed", "sent", "dispatched", "ispublished", "isprocessed", "issent"];

/// The parts that were found.
pub(super) struct Found<'t> {
    table: &'t Described,
    parts: Vec<(&'static str, &'t DescribedColumn)>,
    /// What shows that an entry is published, where the table has no status.
    mark: Option<&'t DescribedColumn>,
}

impl<'t> Found<'t> {
    pub(super) fn of(table: &'t Described) -> Self {
        let mut found = Self { table, parts: Vec::new(), mark: None };
        let id = match &table.primary_key[..] {
            [only] => table.columns.iter().find(|column| column.name == *only),
            _ => table.columns.iter().find(|column| column.name.eq_ignore_ascii_case("id")),
        };
        found.parts.extend(id.map(|column| ("id", column)));
        for (part, names, holds) in USUAL {
            let column = names.iter().find_map(|name| {
                table.columns.iter().find(|column| {
                    bare(&column.name) == *name && holds.contains(&column.holds) && !found.takes(column)
                })
            });
            found.parts.extend(column.map(|column| (part, column)));
        }
        if found.get("status").is_none() && !found.unclear_status() {
            found.look_for_mark();
        }
        found
    }

    /// A flag that says "published" and is never NULL is a status of two words; else it is a mark, as a time is that stays
    /// empty until then.
    fn look_for_mark(&mut self) {
        let mut columns = self.table.columns.iter();
        if let Some(flag) = columns.find(|column| is_flag(column)) {
            match flag.empty_at_first {
                true => self.mark = Some(flag),
                false => self.parts.push(("status", flag)),
            }
        } else if let Some(at) = self.get("published_at").filter(|at| at.empty_at_first) {
            self.parts.retain(|(part, _)| *part != "published_at");
            self.mark = Some(at);
        }
    }

    /// What shows that an entry is published, where the table has no status.
    pub(super) fn mark(&self) -> Option<&'t DescribedColumn> {
        self.mark
    }

    fn unclear_status(&self) -> bool {
        self.table.columns.iter().any(|column| is_called("status", column))
    }

    /// Whether it has what no outbox is without.
    pub(super) fn is_outbox(&self) -> bool {
        ["id", "type", "payload"].iter().all(|part| self.get(part).is_some())
    }

    pub(super) fn get(&self, part: &str) -> Option<&'t DescribedColumn> {
        self.parts.iter().find(|(known, _)| *known == part).map(|(_, column)| *column)
    }

    /// Every part that was found, with its column.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &'t DescribedColumn)> + '_ {
        self.parts.iter().copied()
    }

    /// Columns that are no part of an entry.
    pub(super) fn left_over(&self) -> Vec<&'t str> {
        let others = self.table.columns.iter().filter(|column| !self.takes(column));
        others.map(|column| column.name.as_str()).collect()
    }

    /// Columns that are called like a part but hold something that is not to be guessed.
    pub(super) fn unclear(&self) -> Vec<String> {
        let mut unclear = Vec::new();
        for column in self.table.columns.iter().filter(|column| !self.takes(column)) {
            let DescribedColumn { name, declared, .. } = column;
            if self.get("status").is_none() && is_called("status", column) {
                unclear.push(format!(
                    "column \"{name}\" is a {declared}: which of its values means pending, published or dead is not to be guessed; \
                     [status] says it, as in pending = \"0\""
                ));
            } else if self.get("time").is_none() && is_called("time", column) {
                unclear.push(format!(
                    "column \"{name}\" is a {declared}: say whether it counts seconds, milliseconds or microseconds, \
                     as in time = {{ column = \"{name}\", as = \"unix_ms\" }}"
                ));
            }
        }
        unclear
    }

    fn takes(&self, column: &DescribedColumn) -> bool {
        self.parts.iter().map(|(_, taken)| *taken).chain(self.mark).any(|taken| taken.name == column.name)
    }
}

fn is_called(part: &str, column: &DescribedColumn) -> bool {
    let name = bare(&column.name);
    USUAL.iter().any(|(known, names, _)| *known == part && names.contains(&name.as_str()))
}

/// Whether it is true or false, and its name says that true is published.
pub(super) fn is_flag(column: &DescribedColumn) -> bool {
    column.holds == Holds::Boolean && FLAGS.contains(&bare(&column.name).as_str())
}

/// `Event_Type`, `eventType` and `EVENTTYPE` are called the same.
fn bare(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
