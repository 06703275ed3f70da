//! Looking at the open rows, in order, without their payload.

use postrider_core::layout::Way;

use super::{Parts, is_indexed};
use crate::sql::fields::{STATE, fields_without_payload, payload_bytes};
use crate::sql::literal;
use crate::sql::time::{NOW, until};

/// The columns behind the envelope.
pub(crate) mod scanned {
    use super::STATE;

    /// The payload's size.
    pub(crate) const BYTES: usize = STATE;
    /// Microseconds until it may be handed out.
    pub(crate) const WAIT_US: usize = STATE + 1;
    /// Whether it is in somebody's hands until then.
    pub(crate) const HELD: usize = STATE + 2;
    /// Where it stands: what it is ordered by, as texts.
    pub(crate) const LEADS: usize = STATE + 3;
    /// Its id as a text.
    pub(crate) const ENTRY: usize = STATE + 4;
    /// The transaction that wrote it as it is.
    pub(crate) const WRITTEN_BY: usize = STATE + 5;
}

/// The columns of [`ScanSql::late`].
pub(crate) mod late {
    /// The oldest transaction that is under way, which the first row has even where there is no other.
    pub(crate) const OLDEST: usize = 0;
    pub(crate) const LEADS: usize = 1;
    pub(crate) const ENTRY: usize = 2;
    /// The transaction that wrote it.
    pub(crate) const WRITTEN_BY: usize = 3;
}

/// Transactions as rows know them: by 32 bits, which wrap around.
const OLDEST: &str = "(pg_snapshot_xmin(pg_current_snapshot())::text::bigint & 4294967295)";
const XMIN: &str = "t.xmin::text::bigint";

/// $1 the outbox, $2 what the last row was ordered by, $3 its id, $4 rows at most; for late rows $5 a transaction, $6 an id.
#[derive(Debug)]
pub(crate) struct ScanSql {
    /// From the first row.
    pub(crate) first: String,
    /// From a row on.
    pub(crate) at: String,
    /// Behind a row.
    pub(crate) on: String,
    /// Rows that came to be, or changed, since a transaction: see [`late`].
    pub(crate) late: String,
    /// The same behind an id.
    pub(crate) late_behind: String,
    /// Rows that are dead and hold their key: $1 the outbox.
    pub(crate) holders: String,
    /// $1 the outbox: what operators' verbs bump, the database's clock, the oldest transaction that is under way, and the clock
    /// as rows are ordered by it.
    pub(crate) pulse: String,
    /// Microseconds until the next row is due, where waiting rows are not looked at: $1 the outbox.
    pub(crate) due: Option<String>,
}

impl ScanSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        Self {
            first: parts.scan(None),
            at: parts.scan(Some(">=")),
            on: parts.scan(Some(">")),
            late: parts.late(false),
            late_behind: parts.late(true),
            holders: parts.holders(),
            pulse: format!(
                "select coalesce((select epoch from {} where outbox = $1), 0), \
                 (extract(epoch from {NOW}) * 1000000)::bigint, {OLDEST}, {}",
                parts.names.position,
                parts.leads.first().and_then(|lead| lead.now.as_deref()).unwrap_or("null::text"),
            ),
            due: (parts.layout.way == Way::Hold).then(|| parts.due()),
        }
    }
}

impl Parts<'_> {
    /// One branch per word, and one for rows whose first column is null: each walks an index in order and stops early,
    /// where an `in` or an `or` would sort all of them.
    ///
    /// From the head, or from the given row on: behind it (`>`) or with it (`>=`).
    fn scan(&self, from: Option<&str>) -> String {
        let mut branches = Vec::new();
        for (word, is_leased) in self.open_words() {
            let status = match (word, self.status()) {
                (Some(word), Some(status)) => format!("{} = {}", self.compared(&status), literal(word)),
                _ => self.is_unmarked(),
            };
            branches
                .extend(self.ranges(from).into_iter().map(|range| self.branch(&status, &range, is_leased)));
        }
        match branches.as_slice() {
            [one] => one.clone(),
            many => {
                let order = (0..=self.leads.len()).map(|at| format!("o{at}")).collect::<Vec<_>>().join(", ");
                format!("{} order by {order} limit $4", many.join(" union all "))
            }
        }
    }

    fn branch(&self, status: &str, range: &str, is_leased: bool) -> String {
        let leads = self.leads.iter().map(|lead| lead.text.clone()).collect::<Vec<_>>().join(", ");
        let order = self.leads.iter().map(|lead| lead.column.as_str());
        let own = format!("t.{}", self.id);
        let order: Vec<_> =
            order.chain([own.as_str()]).enumerate().map(|(at, by)| format!("{by} as o{at}")).collect();
        let foreign = self.held_by_others(is_leased);
        let waits = match (self.layout.way, &self.not_before) {
            // Rows that wait are not even looked at.
            (Way::Hold, _) | (_, None) => "s.not_before".to_owned(),
            (_, Some(due)) => format!("greatest(s.not_before, {})", due.moment()),
        };
        format!(
            "(select {fields}, {bytes} as bytes, {wait} as wait, coalesce({until} > {NOW}, false) as held, \
             array[{leads}]::text[] as leads, t.{id}::text as entry, {XMIN} as written_by, {order} \
             from {table} as t {beside} where {status}{range} and s.dead is not true order by {by} limit $4)",
            fields = fields_without_payload(self.layout, self.live),
            bytes = payload_bytes(self.layout, self.live),
            until = foreign,
            wait = until(&format!("greatest({waits}, {foreign})")),
            id = self.id,
            order = order.join(", "),
            table = self.names.table,
            beside = self.join_beside(),
            by = self.in_order(),
        )
    }

    /// Until when a row is in somebody's hands; in another program's, which Postrider knows only by its word, since then.
    fn held_by_others(&self, is_leased: bool) -> String {
        match self.leased_at.as_ref().filter(|_| is_leased) {
            Some(at) => format!(
                "coalesce(s.leased_until, {} + {} * interval '1 microsecond')",
                at.moment(),
                self.ttl_us
            ),
            None => "s.leased_until".into(),
        }
    }

    /// Conditions on where a row stands; each is a range of an index that begins with the status and the first column.
    fn ranges(&self, from: Option<&str>) -> Vec<String> {
        let on = from.is_some();
        let behind = from.map_or("true".into(), |than| self.behind(0, than));
        let Some(first) = self.leads.first() else {
            return vec![if on { format!(" and {behind}") } else { String::new() }];
        };
        let is_due = match self.not_before.as_ref().filter(|_| self.layout.way == Way::Hold) {
            Some(due) => format!(" and {}", due.has_come()),
            None => String::new(),
        };
        let nulls = format!(" and {} is null and {behind}", first.column);
        let mut ranges = match from {
            None if !first.nullable || is_due.is_empty() => return vec![is_due],
            None => vec![format!(" and {} is not null{is_due}", first.column)],
            Some(than) if is_indexed(self.layout, self.live) => self.ordered(than, &is_due),
            Some(_) => vec![format!(" and {} >= {} and {behind}{is_due}", first.column, self.mark(0))],
        };
        ranges.extend(first.nullable.then_some(nulls));
        ranges
    }

    /// Rows from the given one on whose first column is not null, where an index has all of the order: it is entered at that very
    /// row. By the first column alone it would be entered where the first of all that have the same value there stood, which
    /// may be every row that was ever published. To a comparison of whole rows NULL is neither before nor behind, so that
    /// rows with the same value and NULL in the second column are a range of their own.
    fn ordered(&self, than: &str, is_due: &str) -> Vec<String> {
        let columns = self.leads.iter().map(|lead| lead.column.clone()).chain([format!("t.{}", self.id)]);
        let columns = columns.collect::<Vec<_>>().join(", ");
        let id = format!("$3::text::{}", self.id_type);
        let marks = (0..self.leads.len()).map(|at| self.mark(at)).chain([id.clone()]);
        let marks = marks.collect::<Vec<_>>().join(", ");
        let mut ranges = vec![format!(" and ({columns}) {than} ({marks}){is_due}")];
        if let [first, second] = &self.leads[..]
            && second.nullable
        {
            ranges.push(format!(
                " and {} = {} and {} is null and ({} is not null or t.{} {than} {id}){is_due}",
                first.column,
                self.mark(0),
                second.column,
                self.mark(1),
                self.id
            ));
        }
        ranges
    }

    /// That a row stands behind the given one (`>`), or is that (`>=`), from the column at a place on. NULL sorts last.
    fn behind(&self, at: usize, than: &str) -> String {
        let Some(lead) = self.leads.get(at) else {
            return format!("t.{} {than} $3::text::{}", self.id, self.id_type);
        };
        let (column, mark, rest) = (&lead.column, self.mark(at), self.behind(at + 1, than));
        if lead.nullable {
            format!(
                "(({mark} is not null and ({column} > {mark} or {column} is null)) or ({column} is not distinct from {mark} and {rest}))"
            )
        } else {
            format!("({column} > {mark} or ({column} = {mark} and {rest}))")
        }
    }

    fn mark(&self, at: usize) -> String {
        format!("($2::text[])[{}]::{}", at + 1, self.leads[at].cast)
    }

    /// Open rows up to a given one whose present version was written by a transaction that is not older than another. A
    /// savepoint has a number of its own, which no snapshot lists: so whatever is as young as the oldest transaction that was
    /// under way may have been unseen then. Whoever asks knows which of them it has seen.
    fn late(&self, behind_id: bool) -> String {
        let up_to = match self.leads.first() {
            None => format!("t.{} <= $3::text::{}", self.id, self.id_type),
            Some(lead) if lead.nullable => format!("not {}", self.behind(0, ">")),
            Some(lead) => format!("{} <= {} and not {}", lead.column, self.mark(0), self.behind(0, ">")),
        };
        let above = if behind_id {
            format!(" and t.{} > $6::text::{}", self.id, self.id_type)
        } else {
            String::new()
        };
        let leads = self.leads.iter().map(|lead| lead.text.clone()).collect::<Vec<_>>().join(", ");
        format!(
            "select {OLDEST}, r.leads, r.entry, r.written_by from (select 1 where $1::text is not null) as one \
             left join lateral (select array[{leads}]::text[] as leads, t.{id}::text as entry, {XMIN} as written_by \
             from {table} as t where {open} and {up_to}{above} and $2::text[] is not null \
             and ({XMIN} - $5::bigint + 4294967296) % 4294967296 < 2147483648 limit $4) as r on true",
            id = self.id,
            table = self.names.table,
            open = self.is_open(),
        )
    }

    fn due(&self) -> String {
        let beside = format!(
            "select min(s.not_before) from {} as s where s.outbox = $1 and not s.dead and s.not_before > {NOW}",
            self.names.entries
        );
        let own = match &self.not_before {
            None => "null::timestamptz".into(),
            Some(due) => format!(
                "(select {moment} from {table} as t where {open} and {later} order by {column} limit 1)",
                moment = due.moment(),
                table = self.names.table,
                open = self.is_open(),
                column = due.column(),
                later = due.is_to_come(),
            ),
        };
        format!(
            "select {} from (select least(({beside}), {own}) as at) as d where d.at is not null",
            until("d.at")
        )
    }

    /// The dead are found by what is kept beside them: rows that were dead before Postrider came hold no key.
    fn holders(&self) -> String {
        let word = self.words().and_then(|words| words.dead.as_deref());
        let is_dead = match (word, self.status()) {
            (Some(word), Some(status)) => format!("(s.dead or t.{status}::text = {})", literal(word)),
            _ => format!("s.dead and {}", self.is_unmarked()),
        };
        let leads = self.leads.iter().map(|lead| lead.text.clone()).collect::<Vec<_>>().join(", ");
        format!(
            "select {fields}, 0::bigint, 0::bigint, false, array[{leads}]::text[], s.entry \
             from {entries} as s join {table} as t on t.{id} = s.entry::{id_type} \
             where s.outbox = $1 and s.holds_key and {is_dead}",
            fields = fields_without_payload(self.layout, self.live),
            entries = self.names.entries,
            table = self.names.table,
            id = self.id,
            id_type = self.id_type,
        )
    }
}
