//! Status words: whether the column takes them, and what else stands there.

use postrider_core::layout::Column;
use tokio_postgres::types::Type;

use super::Found;
use crate::fault::Error;
use crate::session::Session;
use crate::sql::depth::unknown_words;
use crate::sql::{Names, literal};
use crate::status::values;
use crate::table::{Kind, LiveColumn, Table};

/// $1 the table, $2 the column: constraints that are about this column alone.
const CHECKS: &str = "\
select c.conname::text, pg_get_expr(c.conbin, c.conrelid) from pg_constraint as c \
join pg_attribute as a on a.attrelid = c.conrelid and c.conkey = array[a.attnum] \
where c.contype = 'c' and c.conrelid = $1 and a.attname = $2 order by 1";

impl Found<'_> {
    pub(super) async fn words(&mut self, session: &Session, table: &Table) -> Result<(), Error> {
        let layout = self.config.layout.clone();
        let (Some(words), Some(status)) =
            (&layout.status, layout.columns.status.as_ref().and_then(Column::name))
        else {
            return Ok(());
        };
        let Some(live) = table.column(status.as_str()) else { return Ok(()) };
        let given = [
            ("pending", Some(&words.pending)),
            ("leased", words.leased.as_ref()),
            ("published", words.published.as_ref()),
            ("dead", words.dead.as_ref()),
            ("retry", words.retry.as_ref()),
        ];
        let given: Vec<(&str, &str)> =
            given.into_iter().filter_map(|(key, word)| Some((key, word?.as_str()))).collect();
        let unfit = given.iter().find(|(_, word)| live.kind != Kind::Enum && !live.takes(word));
        if let Some((key, word)) = unfit {
            let name = &live.name;
            self.fault(
                format!(
                    "columns.status is \"{name}\" of type {}, which has no value \"{word}\" (status.{key})",
                    live.shown()
                ),
                format!("Correct [status] in the layout: {}.", values(live)),
            );
            return Ok(());
        }
        let checks = session.query(CHECKS, &[(&table.oid, Type::OID), (&live.name, Type::TEXT)]).await?;
        for (key, word) in given {
            self.word(session, live, key, word).await?;
            for row in &checks {
                self.allowed(session, live, key, word, row.get(0), row.get(1)).await?;
            }
        }
        Ok(())
    }

    async fn word(
        &mut self,
        session: &Session,
        live: &LiveColumn,
        key: &str,
        word: &str,
    ) -> Result<(), Error> {
        let table = Names::new(self.layout()).table;
        let column = format!("\"{}\"", live.name.replace('"', "\"\""));
        let told = format!("status.{key} = \"{word}\"");
        if live.kind == Kind::Enum && !live.words.iter().any(|label| label == word) {
            self.fault(
                format!("{told} is none of the values of {}, the type of column {column}", live.declared),
                format!("Correct the word, or: alter type {} add value {};", live.declared, plain(word)),
            );
            return Ok(());
        }
        let length = word.chars().count();
        if live.characters_max.is_some_and(|most| usize::try_from(most).is_ok_and(|most| most < length)) {
            self.fault(
                format!("{told} does not fit into column {column}, which is {}", live.declared),
                format!("alter table {table} alter column {column} type varchar({});", length.max(20)),
            );
            return Ok(());
        }
        // A type of the team's own has its own idea of what a value is, and so has a domain.
        let own = live.domain.as_ref().or((live.kind == Kind::Other).then_some(&live.declared));
        if let Some(own) = own
            && let Err(error) = session.run(&format!("select {}::{own}", literal(word))).await
        {
            if error.code().is_none() {
                return Err(error);
            }
            self.fault(
                format!("{told} is no value of {}, the type of column {column}", live.shown()),
                "Correct the word, or the type.",
            );
        }
        Ok(())
    }

    async fn allowed(
        &mut self,
        session: &Session,
        live: &LiveColumn,
        key: &str,
        word: &str,
        name: &str,
        condition: &str,
    ) -> Result<(), Error> {
        if live.kind == Kind::Enum && !live.words.iter().any(|label| label == word) {
            return Ok(());
        }
        let column = format!("\"{}\"", live.name.replace('"', "\"\""));
        let sql = format!(
            "select ({condition}) is not false from (select {}::{} as {column}) as t",
            literal(word),
            live.declared
        );
        match session.first(&sql, &[]).await {
            Ok(Some(row)) if !row.get::<_, bool>(0) => self.fault(
                format!("constraint \"{name}\" does not allow status.{key} = \"{word}\" in column {column}"),
                format!(
                    "Correct the word, or put it into the constraint: alter table {} drop constraint \"{name}\", add check (…);",
                    Names::new(self.layout()).table
                ),
            ),
            Ok(_) => {}
            // One that cannot be asked in this way is left to the server.
            Err(error) if error.code().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Rows that no word of the layout covers: they are neither published nor shown.
    pub(super) async fn rows(&mut self, session: &Session, table: &Table) -> Result<(), Error> {
        if !table.missing(self.layout()).is_empty() {
            return Ok(());
        }
        let Some(sql) = unknown_words(self.layout(), &Names::new(self.layout()), table) else {
            return Ok(());
        };
        for row in session.query(&sql, &[]).await? {
            let rows: i64 = row.get(1);
            let word = row.get::<_, Option<String>>(0);
            let word = word.map_or("NULL".into(), |word| format!("\"{word}\""));
            self.advise(
                match rows {
                    1 => format!("one row has the status {word}, which is none of the layout's words: it is passed by"),
                    _ => format!("{rows} rows have the status {word}, which is none of the layout's words: they are passed by"),
                },
                "Give the word its place in [status], or correct the rows: `postrider list --state unknown` shows them, `postrider revive --state unknown` makes them pending.",
            );
        }
        Ok(())
    }
}

fn plain(word: &str) -> String {
    format!("'{}'", word.replace('\'', "''"))
}
