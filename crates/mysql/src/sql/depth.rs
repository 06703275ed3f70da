//! Counting.

use postrider_core::layout::{OnDead, Order};

use super::fields::key;
use super::literal;
use super::seen::Seen;
use crate::config::Config;
use crate::table::Table;

/// `:outbox` everywhere.
#[derive(Debug)]
pub(crate) enum DepthSql {
    Status(StatusDepthSql),
    Cursor(CursorDepthSql),
}

/// What is not to be prepared: MySQL 8.0 answers such statements with nothing from the second time on.
#[derive(Debug)]
pub(crate) struct CursorDepthSql {
    pub(crate) counts: String,
    pub(crate) culprit: String,
}

/// Who has a transaction open that may have drawn ids, the oldest first.
pub(crate) const WRITERS: &str = "\
    select if(x.trx_mysql_thread_id = 0, 'a prepared transaction', concat('thread ', x.trx_mysql_thread_id, \
    coalesce(concat(', user ', p.user), ''))), timestampdiff(second, x.trx_started, now()) \
    from information_schema.innodb_trx as x left join information_schema.processlist as p on p.id = x.trx_mysql_thread_id \
    where x.trx_mysql_thread_id <> connection_id() and (x.trx_rows_modified > 0 or x.trx_tables_locked > 0) \
    order by x.trx_started limit 5";

#[derive(Debug)]
pub(crate) struct StatusDepthSql {
    /// How open rows stand by a word each, and how many: `due`, `waiting`, `leased`, `dead`.
    pub(crate) open: String,
    /// The others, where the table has a status: `published`, `dead`, `unknown`.
    pub(crate) closed: Option<String>,
    /// The key with the most entries held back behind it, how many those are, and how many there are behind all keys. Without
    /// parameters: it is not to be prepared, since MySQL 8.0 answers such a statement with nothing from the second time on.
    pub(crate) culprit: Option<String>,
}

impl DepthSql {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        let rows = Seen::new(config, table);
        if rows.is_cursor() {
            return Self::Cursor(CursorDepthSql {
                counts: rows.cursor_counts(),
                culprit: rows.cursor_culprit(),
            });
        }
        let status = rows.status();
        let open = status.as_ref().map_or("true".into(), |status| status.is_open());
        Self::Status(StatusDepthSql {
            open: format!("select {} as stands, count(*) from {} where {open} group by 1", rows.stands(), rows.from()),
            closed: status.map(|status| {
                format!(
                    "select case when {} then 'published' when {} then 'dead' else 'unknown' end as stands, count(*) \
                     from {} as t where ({open}) is not true group by 1",
                    status.is_published(),
                    status.is_dead(),
                    rows.names.table
                )
            }),
            culprit: (config.layout.order == Order::Key).then(|| rows.culprit(&open)),
        })
    }
}

impl Seen<'_> {
    /// How an open row stands: in somebody's hands, waiting for its time, or due.
    fn stands(&self) -> String {
        format!(
            "case when s.dead then 'dead' when {} then 'leased' when coalesce({} > {}, false) then 'waiting' else 'due' end",
            self.held(),
            self.not_before(),
            self.names.now
        )
    }

    /// Due rows behind one of their key that waits, or is dead and holds it.
    fn culprit(&self, open: &str) -> String {
        let (scope, key) = key(self.layout, self.table);
        let from = self.from().replace(":outbox", &literal(self.layout.table.as_str()));
        let lead = self.lead.as_ref().map_or("null", |lead| lead.column.as_str());
        let part =
            format!("select {scope} as scope, {key} as k, {lead} as lead_value, {} as id", self.id.column);
        let dead = match (self.layout.on_dead, self.status()) {
            (OnDead::Skip, _) => String::new(),
            (OnDead::Hold, status) => {
                let is_dead = status.map_or("false".into(), |status| status.is_dead());
                format!(" union all {part} from {from} where s.holds_key and (s.dead or {is_dead})")
            }
        };
        let order = if self.lead.is_some() { "lead_value is null, lead_value, id" } else { "id" };
        format!(
            "with open_rows as ({part}, {stands} as stands from {from} where {open}), \
             firsts as (select b.*, row_number() over (partition by scope, k order by {order}) as nth from ( \
             select scope, k, lead_value, id from open_rows where stands = 'waiting'{dead}) as b where k is not null), \
             behind as (select o.scope, o.k, count(*) as held from open_rows as o join firsts as b \
             on b.nth = 1 and b.scope = o.scope and b.k = o.k where o.stands = 'due' and {is_behind} group by 1, 2) \
             select scope, k, held, sum(held) over () from behind order by held desc, scope, k limit 1",
            stands = self.stands(),
            is_behind = if self.lead.is_some() {
                "(o.lead_value > b.lead_value or (o.lead_value is null and b.lead_value is not null) \
                 or (o.lead_value <=> b.lead_value and o.id > b.id))"
            } else {
                "o.id > b.id"
            },
        )
    }
}
