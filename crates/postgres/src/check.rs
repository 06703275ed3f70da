//! Comparing a layout with the live table, before anything runs. Every difference is named, not only the first.

mod columns;
mod indexes;
mod notes;
mod rights;
mod sides;
mod words;

use postrider_core::finding::{Finding, Weight};
use postrider_core::{Fault, Layout};
use tokio_postgres::error::SqlState;

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::fitness::refusals;
use crate::migrate::no_table;
use crate::session::{Durable, Session};
use crate::sql::quoted;
use crate::table::Table;

/// Compares the layout with the live table; the heaviest findings come first. Where the server cannot be reached, that is
/// the one finding ([`crate::is_unreachable`]).
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = match examine(config).await {
        Ok(findings) => findings,
        Err(fault) => vec![Finding { weight: Weight::Fault, fault }],
    };
    findings.sort_by_key(|finding| finding.weight);
    findings
}

async fn examine(config: &Config) -> Result<Vec<Finding>, Fault> {
    config.validate()?;
    let session = Session::open(config, Durable::Now).await?;
    let mut found = Found { config, place: config.place(), user: String::new(), findings: Vec::new() };
    match found.examine(&session).await {
        Ok(()) => Ok(found.findings),
        Err(Stop::Told(fault)) => Err(fault),
        // What was found before is worth telling all the same.
        Err(Stop::Failed(error)) => {
            found.fault_of(fault(&config.place(), error));
            Ok(found.findings)
        }
    }
}

/// What was found so far.
struct Found<'a> {
    config: &'a Config,
    place: String,
    /// As whom the relay is connected, quoted.
    user: String,
    findings: Vec<Finding>,
}

enum Stop {
    Told(Fault),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Found<'_> {
    async fn examine(&mut self, session: &Session) -> Result<(), Stop> {
        if let Some(row) = session.first("select current_user::text", &[]).await? {
            self.user = quoted(row.get(0));
        }
        let Some(table) = self.table(session).await? else { return Err(Stop::Told(no_table(self.config))) };
        for refusal in refusals(session, self.config, &table).await? {
            self.fault_of(refusal);
        }
        self.columns(&table);
        self.words(session, &table).await?;
        let readable = self.rights(session, &table).await?;
        self.sides(session).await?;
        if readable {
            self.rows(session, &table).await?;
        }
        self.indexes(&table);
        self.notes(session, &table).await?;
        Ok(())
    }

    /// The table, or the right that is missing even to see it.
    async fn table(&mut self, session: &Session) -> Result<Option<Table>, Stop> {
        match Table::read(session, self.layout()).await {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let schema = self.layout().schema.as_ref().map_or("public".into(), |schema| schema.quoted());
                Err(Stop::Told(
                    Fault::new(
                        &*self.place,
                        format!("user {} may not use schema {schema}", self.user),
                        format!("grant usage on schema {schema} to {};", self.user),
                    )
                    .caused_by(error),
                ))
            }
            table => Ok(table?),
        }
    }

    fn layout(&self) -> &Layout {
        &self.config.layout
    }

    fn add(&mut self, weight: Weight, problem: impl Into<String>, remedy: impl Into<String>) {
        let fault = Fault::new(&*self.place, problem, remedy);
        self.findings.push(Finding { weight, fault });
    }

    fn fault(&mut self, problem: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Fault, problem, remedy);
    }

    fn advise(&mut self, problem: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Advice, problem, remedy);
    }

    fn note(&mut self, problem: impl Into<String>, remedy: impl Into<String>) {
        self.add(Weight::Note, problem, remedy);
    }

    fn fault_of(&mut self, fault: Fault) {
        self.findings.push(Finding { weight: Weight::Fault, fault });
    }
}
