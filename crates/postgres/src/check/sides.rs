//! The tables beside the outbox: Postrider's own, and the team's.

use postrider_core::Layout;
use postrider_core::layout::Identifier;
use postrider_core::nearest::nearest;
use tokio_postgres::error::SqlState;

use super::Found;
use crate::fault::Error;
use crate::migrate::{SIDE_VERSION, no_side, side_version};
use crate::session::Session;
use crate::sql::in_schema;
use crate::table::{Kind, Table};

impl Found<'_> {
    pub(super) async fn sides(&mut self, session: &Session) -> Result<(), Error> {
        match side_version(session, self.layout()).await {
            Ok(version) if version >= SIDE_VERSION => {}
            Ok(_) => self.fault_of(no_side(self.config)),
            // The right that is missing was told.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {}
            Err(error) => return Err(error),
        }
        let layout = self.config.layout.clone();
        if let Some(position) = &layout.sides.position {
            let integers = ["id", "position"];
            self.side(session, "position.table", &position.name, position.given(), &integers).await?;
        }
        if let Some(failed) = &layout.sides.failed {
            self.side(session, "retry.table", &failed.name, failed.given(), &["id", "retries"]).await?;
        }
        Ok(())
    }

    async fn side<'i>(
        &mut self,
        session: &Session,
        key: &str,
        name: &Identifier,
        columns: impl Iterator<Item = (&'static str, &'i Identifier)>,
        integers: &[&str],
    ) -> Result<(), Error> {
        let shown = in_schema(self.layout(), &name.quoted());
        let like = Layout { table: name.clone(), ..self.layout().clone() };
        let Some(table) = Table::read(session, &like).await? else {
            self.fault(
                format!("[{key}] names {shown}, and there is no such table"),
                format!("Create it with the application's own migrations, or leave [{key}] out: then Postrider's own tables are used."),
            );
            return Ok(());
        };
        for (part, column) in columns {
            let Some(live) = table.column(column.as_str()) else {
                let near = nearest(column.as_str(), table.columns.iter().map(|live| live.name.as_str()));
                let near =
                    near.map_or(String::new(), |near| format!(" The table has \"{near}\": is it that?"));
                self.fault(
                    format!("[{key}] maps {part} to \"{column}\", which {shown} does not have"),
                    format!("Correct it in the layout, or add the column.{near}"),
                );
                continue;
            };
            let is_time = matches!(part, "time" | "failed_at" | "not_before");
            if integers.contains(&part) && live.kind != Kind::Integer {
                self.fault(
                    format!(
                        "[{key}] maps {part} to \"{column}\" of type {}, and an integer is expected",
                        live.shown()
                    ),
                    "Map another column, or change its type to bigint.",
                );
            } else if is_time && !matches!(live.kind, Kind::Moment | Kind::Local) {
                self.fault(
                    format!(
                        "[{key}] maps {part} to \"{column}\" of type {}, and a time is expected",
                        live.shown()
                    ),
                    "Map another column, or change its type to timestamptz.",
                );
            }
        }
        Ok(())
    }
}
