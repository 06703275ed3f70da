//! Looking at the open rows, in order, without their payload and without locks.

use super::Parts;
use crate::sql::fields::{STATE, fields_without_payload, payload_bytes};
use crate::sql::literal;
use crate::sql::time::{LONG_AGO, latest, until};

/// The columns behind the envelope.
pub(crate) mod scanned {
    use super::STATE;

    /// The payload's size.
    pub(crate) const BYTES: usize = STATE;
    /// Microseconds until it may be handed out.
    pub(crate) const WAIT_US: usize = STATE + 1;
    /// Whether it is in somebody's hands until then.
    pub(crate) const HELD: usize = STATE + 2;
    /// What it is ordered by before its id, as a text.
    pub(crate) const LEAD: usize = STATE + 3;
    /// Its id as a text.
    pub(crate) const ENTRY: usize = STATE + 4;
    /// Whether it is dead beside the table.
    pub(crate) const DEAD: usize = STATE + 5;
}

/// The columns of [`ScanSql::pulse`].
pub(crate) mod pulse {
    pub(crate) const EPOCH: usize = 0;
    pub(crate) const NUMBER: usize = 1;
    pub(crate) const NOW_US: usize = 2;
    pub(crate) const SERVER_US: usize = 3;
    pub(crate) const NOW_LEAD: usize = 4;
}

/// Where rows are looked at from: `:lead` what a row is ordered by, `:id` its id; `:rows` at most.
#[derive(Debug)]
pub(crate) struct From {
    /// From the first row.
    pub(crate) first: String,
    /// From a row on.
    pub(crate) at: String,
    /// Behind a row.
    pub(crate) on: String,
}

/// `:outbox` everywhere.
#[derive(Debug)]
pub(crate) struct ScanSql {
    /// By the open rows, however far apart they are.
    pub(crate) gather: From,
    /// By their ids, whatever stands between them: for rows that are close to each other.
    pub(crate) walk: Option<From>,
    /// Open rows up to one, `:lead` and `:id`: what they are ordered by, and their ids. `:rows` at most.
    pub(crate) late: String,
    /// The same behind the id `:sealed`.
    pub(crate) late_behind: String,
    /// The last id, and the server's clock in microseconds.
    pub(crate) last: String,
    /// Rows that are dead and hold their key.
    pub(crate) holders: String,
    /// What operators' verbs bump, a number that no other call gets, the configuration's clock and the server's own, and the
    /// former as rows are ordered by it.
    pub(crate) pulse: String,
    /// Whether rows are ordered by something before their id.
    pub(crate) has_lead: bool,
}

impl ScanSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        let from = |scan: &dyn Fn(Option<&str>) -> String| From {
            first: scan(None),
            at: scan(Some(">=")),
            on: scan(Some(">")),
        };
        let microseconds = |clock: &str| format!("timestampdiff(microsecond, {LONG_AGO}, {clock})");
        let (now, own) = (microseconds(&parts.names.now), microseconds("utc_timestamp(6)"));
        Self {
            gather: from(&|than| if parts.lead.is_some() { parts.by_time(than) } else { parts.gather(than) }),
            walk: parts.lead.is_none().then(|| from(&|than| parts.walk(than))),
            late: parts.late(false),
            late_behind: parts.late(true),
            last: format!("select max({}), {own} from {} as t", parts.id.column, parts.names.table),
            holders: parts.holders(),
            pulse: format!(
                "select coalesce((select epoch from {} where outbox = :outbox), 0), uuid_short(), {now}, {own}, {}",
                parts.names.position,
                parts.now_lead(),
            ),
            has_lead: parts.lead.is_some(),
        }
    }
}

impl Parts<'_> {
    /// By the id's index alone, which gives all rows in order.
    fn walk(&self, than: Option<&str>) -> String {
        let range = than.map_or(String::new(), |than| format!(" and {} {than} :id", self.id.column));
        format!(
            "select {} from {} as t force index ({}) {} where {}{range} order by {} limit :rows",
            self.looked(),
            self.names.table,
            self.id.index,
            self.join_beside(),
            self.is_open(),
            self.id.column,
        )
    }

    /// By the index of the status: the ids first, which are in it, and of those that come first the rows. One branch per word,
    /// each a range of the index; where what follows the word there is null, ids stand in order, and the range stops early.
    fn gather(&self, than: Option<&str>) -> String {
        let Some(index) = self.index_of_status() else { return self.walk(than) };
        let range = than.map_or(String::new(), |than| format!(" and {} {than} :id", self.id.column));
        let (table, id, ix) = (&self.names.table, &self.id.column, crate::sql::quoted(&index.name));
        let mut branches = Vec::new();
        for (word, _) in self.open_words() {
            let status = word.map_or("true".into(), |word| self.has_word(word));
            for part in self.in_parts(index) {
                branches.push(format!(
                    "(select {id} as id from {table} as t force index ({ix}) where {status}{part}{range} \
                     order by {id} limit :rows)"
                ));
            }
        }
        let ids = format!(
            "(select u.id from ({}) as u order by u.id limit :rows) as g",
            branches.join(" union all ")
        );
        format!(
            "select {} from {} {} order by g.id",
            self.looked(),
            self.id.rows_of(&ids, table),
            self.join_beside(),
        )
    }

    /// Conditions on the column behind the status in an index, so that in the first of them ids stand in order.
    fn in_parts(&self, index: &crate::table::Index) -> Vec<String> {
        let second = index.columns.get(1).filter(|name| !self.is_id(name));
        let ends = index.columns.get(2).is_none_or(|name| self.is_id(name));
        let live = second.and_then(|name| self.live.column(name));
        match live.filter(|live| ends && !live.not_null) {
            None => vec![String::new()],
            Some(live) => {
                let column = format!("t.{}", crate::sql::quoted(&live.name));
                vec![format!(" and {column} is null"), format!(" and {column} is not null")]
            }
        }
    }

    /// The index by which rows of a status are found, the one that gives them in the order of their ids before others.
    fn index_of_status(&self) -> Option<&crate::table::Index> {
        let status = self.live.mapped(self.layout.columns.status.as_ref())?;
        let own = self.live.indexes.iter().filter(|index| index.has(0, &status.name));
        own.min_by_key(|index| {
            let second = index.columns.get(1);
            let in_order = second.is_none_or(|name| self.is_id(name));
            let in_parts = self.in_parts(index).len() > 1;
            (!in_order, !in_parts, index.columns.len())
        })
    }

    fn is_id(&self, name: &str) -> bool {
        self.live.id(self.layout).is_some_and(|id| id.name.eq_ignore_ascii_case(name))
    }

    /// By time, where ids do not count. One branch per word: each walks an index in order and stops early, where an `in` would
    /// sort all of them.
    fn by_time(&self, than: Option<&str>) -> String {
        let mut branches = Vec::new();
        for (word, _) in self.open_words() {
            let status = word.map_or("true".into(), |word| self.has_word(word));
            branches.extend(self.ranges(than).into_iter().map(|range| self.branch(&status, &range)));
        }
        match branches.as_slice() {
            [one] => one.clone(),
            // NULL sorts first here, and is to be last.
            many => format!("{} order by o0 is null, o0, o1 limit :rows", many.join(" union all ")),
        }
    }

    fn branch(&self, status: &str, range: &str) -> String {
        let lead = self.lead.as_ref().map_or("null", |lead| lead.column.as_str());
        format!(
            "(select {}, {lead} as o0, {} as o1 from {} as t {} where {status}{range} order by {} limit :rows)",
            self.looked(),
            self.id.column,
            self.names.table,
            self.join_beside(),
            self.in_order(),
        )
    }

    /// What is selected of a row of `t` with what is kept beside it.
    fn looked(&self) -> String {
        let now = &self.names.now;
        let until_held = self.held_by_others();
        let mut waits = vec!["s.not_before".to_owned(), until_held.clone()];
        waits.extend(self.not_before.as_ref().map(|due| due.moment()));
        format!(
            "{fields}, {bytes} as bytes, {wait} as wait, coalesce({until_held} > {now}, false) as held, \
             {lead} as lead_text, {entry} as entry, coalesce(s.dead, false) as is_dead",
            fields = fields_without_payload(self.layout, self.live),
            bytes = payload_bytes(self.layout),
            wait = until(&latest(&waits), now),
            lead = self.lead.as_ref().map_or("null", |lead| lead.text.as_str()),
            entry = self.id.text(),
        )
    }

    /// What is kept beside the rows of `t`, under the alias `s`.
    fn join_beside(&self) -> String {
        format!(
            "left join {} as s on s.outbox = :outbox and s.entry = {}",
            self.names.entries,
            self.id.text()
        )
    }

    /// Until when a row is in somebody's hands; in another program's, which Postrider knows only by its word, since then.
    fn held_by_others(&self) -> String {
        let leased = self.words().and_then(|words| words.leased.as_deref());
        match (leased, &self.leased_at) {
            (Some(word), Some(at)) => format!(
                "coalesce(s.leased_until, case when {} then {} + interval {} microsecond end)",
                self.has_word(word),
                at.moment(),
                self.stalled_us
            ),
            _ => "s.leased_until".into(),
        }
    }

    /// Conditions on where a row stands; each is a range of an index that begins with the status and what rows are ordered by.
    fn ranges(&self, than: Option<&str>) -> Vec<String> {
        let Some(lead) = &self.lead else { return Vec::new() };
        let (column, id) = (&lead.column, &self.id.column);
        let mut ranges = vec![match than {
            Some(than) => format!(" and ({column} > :lead or ({column} = :lead and {id} {than} :id))"),
            None => format!(" and {column} is not null"),
        }];
        if lead.nullable {
            // Behind every time; once there, by id alone.
            ranges.push(match than {
                Some(than) => format!(" and {column} is null and (:lead is not null or {id} {than} :id)"),
                None => format!(" and {column} is null"),
            });
        }
        ranges
    }

    /// Open rows up to a given one. Which of them were looked at knows whoever asks.
    fn late(&self, behind_id: bool) -> String {
        let id = &self.id.column;
        let (up_to, lead) = match &self.lead {
            None => (format!("{id} <= :id"), "null"),
            Some(lead) => {
                let column = &lead.column;
                let behind = format!(
                    "(:lead is not null and ({column} > :lead or {column} is null)) or ({column} <=> :lead and {id} > :id)"
                );
                (format!("not ({behind})"), lead.text.as_str())
            }
        };
        let above = if behind_id { format!(" and {id} > :sealed") } else { String::new() };
        format!(
            "select {lead}, {} from {} as t where {} and {up_to}{above} limit :rows",
            self.id.text(),
            self.names.table,
            self.is_open(),
        )
    }

    /// The dead are found by what is kept beside them: rows that were dead before Postrider came hold no key.
    fn holders(&self) -> String {
        let word = self.words().and_then(|words| words.dead.as_deref());
        let is_dead = match (word, self.status()) {
            (Some(word), Some(status)) => format!("(s.dead or t.{status} = {})", literal(word)),
            _ => "s.dead".into(),
        };
        format!(
            "select {fields}, 0, 0, 0, {lead}, s.entry from {entries} as s join {table} as t on {same} \
             where s.outbox = :outbox and s.holds_key and {is_dead}",
            fields = fields_without_payload(self.layout, self.live),
            lead = self.lead.as_ref().map_or("null", |lead| lead.text.as_str()),
            entries = self.names.entries,
            table = self.names.table,
            same = self.id.of_entry(),
        )
    }
}
