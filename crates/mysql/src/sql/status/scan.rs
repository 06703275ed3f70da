//! Looking at the open rows, in order, without their payload and without locks.

use super::Parts;
use crate::sql::fields::{STATE, fields_without_payload, payload_bytes};
use crate::sql::literal;
use crate::sql::time::{latest, until};

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
}

/// `:outbox` everywhere.
#[derive(Debug)]
pub(crate) struct ScanSql {
    /// From the first row: `:rows` at most.
    pub(crate) first: String,
    /// Behind a row: `:lead` what it is ordered by, `:id` its id, `:rows` at most.
    pub(crate) on: String,
    /// Rows that are dead and hold their key.
    pub(crate) holders: String,
    /// What operators' verbs bump, and a number that no other call gets.
    pub(crate) epoch: String,
    /// Whether rows are ordered by something before their id.
    pub(crate) has_lead: bool,
}

impl ScanSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        Self {
            first: parts.scan(false),
            on: parts.scan(true),
            holders: parts.holders(),
            epoch: format!(
                "select (select epoch from {} where outbox = :outbox), uuid_short()",
                parts.names.position
            ),
            has_lead: parts.lead.is_some(),
        }
    }
}

impl Parts<'_> {
    /// One branch per word: each walks an index in order and stops early, where an `in` would sort all of them.
    fn scan(&self, on: bool) -> String {
        let mut branches = Vec::new();
        for (word, is_leased) in self.open_words() {
            let status = word.map_or("true".into(), |word| self.has_word(word));
            branches.extend(self.ranges(on).into_iter().map(|range| self.branch(&status, &range, is_leased)));
        }
        // NULL sorts first here, and is to be last.
        let order = if self.lead.is_some() { "o0 is null, o0, o1" } else { "o1" };
        match branches.as_slice() {
            [one] => one.clone(),
            many => format!("{} order by {order} limit :rows", many.join(" union all ")),
        }
    }

    fn branch(&self, status: &str, range: &str, is_leased: bool) -> String {
        let now = &self.names.now;
        let until_held = self.held_by_others(is_leased);
        let mut waits = vec!["s.not_before".to_owned(), until_held.clone()];
        waits.extend(self.not_before.as_ref().map(|due| due.moment()));
        let (lead, by) = match &self.lead {
            None => ("null".to_owned(), "null".to_owned()),
            Some(lead) => (lead.text.clone(), lead.column.clone()),
        };
        format!(
            "(select {fields}, {bytes} as bytes, {wait} as wait, coalesce({until_held} > {now}, false) as held, \
             {lead} as lead_text, {entry} as entry, {by} as o0, {id} as o1 from {table} as t {beside} \
             where {status}{range} and coalesce(s.dead, false) = false order by {order} limit :rows)",
            fields = fields_without_payload(self.layout, self.live),
            bytes = payload_bytes(self.layout),
            wait = until(&latest(&waits), now),
            entry = self.id.text(),
            id = self.id.column,
            table = self.names.table,
            beside = self.join_beside(),
            order = self.in_order(),
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
    fn held_by_others(&self, is_leased: bool) -> String {
        match self.leased_at.as_ref().filter(|_| is_leased) {
            Some(at) => {
                format!(
                    "coalesce(s.leased_until, {} + interval {} microsecond)",
                    at.moment(),
                    self.stalled_us
                )
            }
            None => "s.leased_until".into(),
        }
    }

    /// Conditions on where a row stands; each is a range of an index that begins with the status and what rows are ordered by.
    fn ranges(&self, on: bool) -> Vec<String> {
        let Some(lead) = &self.lead else {
            return vec![if on { format!(" and {} > :id", self.id.column) } else { String::new() }];
        };
        let (column, id) = (&lead.column, &self.id.column);
        let mut ranges = vec![if on {
            format!(" and ({column} > :lead or ({column} = :lead and {id} > :id))")
        } else {
            format!(" and {column} is not null")
        }];
        if lead.nullable {
            // Behind every time; once there, by id alone.
            ranges.push(if on {
                format!(" and {column} is null and (:lead is not null or {id} > :id)")
            } else {
                format!(" and {column} is null")
            });
        }
        ranges
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
