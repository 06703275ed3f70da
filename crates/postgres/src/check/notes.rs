//! What is good to know: the order that the table can give, and how durable it is.

use postrider_core::layout::{Column, Order};
use tokio_postgres::types::Type;

use super::Found;
use crate::fault::Error;
use crate::migrate::is_native;
use crate::session::Session;
use crate::table::Table;

const DURABLE: &str = "\
select current_setting('fsync') = 'on', current_setting('synchronous_commit'), \
c.relpersistence = 'u', pg_has_role(c.relowner, 'usage') from pg_class as c where c.oid = $1";

/// F2: what would give the order that ids without an order cannot.
const STRICT: &str = "Strict order per key needs the log (way = \"log\", not in this build yet) or an added column: \
`bigint generated always as identity`, mapped as columns.id, with the old one as columns.event_id and order = \"key\".";

impl Found<'_> {
    pub(super) async fn notes(&mut self, session: &Session, table: &Table) -> Result<(), Error> {
        self.order(table);
        let Some(row) = session.first(DURABLE, &[(&table.oid, Type::OID)]).await? else { return Ok(()) };
        let (fsync, commit): (bool, String) = (row.get(0), row.get(1));
        let (is_unlogged, is_owner): (bool, bool) = (row.get(2), row.get(3));
        if is_unlogged {
            self.advise(
                "the table is unlogged: a crash of the server empties it, and what was not published is lost",
                format!("alter table {} set logged;", crate::sql::Names::new(self.layout()).table),
            );
        }
        if !fsync {
            self.advise("fsync = off: a crash of the server may lose or break anything", "Set fsync = on.");
        } else if commit == "off" {
            self.note(
                "synchronous_commit = off: what the application has committed in the last moments may be lost in a crash of the server, and its events with it",
                "Set synchronous_commit = on where that matters; Postrider chooses for its own writes.",
            );
        }
        if is_native(self.layout()) && table.relation == 'p' && !is_owner {
            let user = self.user.clone();
            self.advise(
                format!("user {user} does not own the table: it can neither create partitions ahead nor drop old ones, and rows go to the default partition"),
                format!("alter table {} owner to {user}; or grant the owner's role to it.", crate::sql::Names::new(self.layout()).table),
            );
        }
        Ok(())
    }

    /// F2: what order the table can give.
    fn order(&mut self, table: &Table) {
        let counts = table.id_counts(self.layout());
        let has_time = self.layout().columns.time.as_ref().and_then(Column::name).is_some();
        match (self.layout().order, counts) {
            (Order::Key, true) => self.note(
                "events of one key are published in the order of their ids, if whoever appends to a key lets no other do so before it commits",
                "",
            ),
            (Order::Key, false) => self.note(
                "ids do not count: events of one key are published by (time, id), best effort: causal only as far as the writers' clocks are",
                STRICT,
            ),
            (Order::None, _) if has_time => self.note(
                "order = \"none\": events are published about in the order of (time, id), best effort, and by several relays side by side",
                if counts { "" } else { STRICT },
            ),
            (Order::None, _) => self.note(
                "order = \"none\", and the table has no time: events are published in no particular order",
                STRICT,
            ),
        }
    }
}
