//! Comparing a layout with the live table, before anything runs. Every difference is named, not only the first.

mod columns;
mod indexes;
mod mark;
mod notes;
mod rights;
mod sides;
mod words;

pub(crate) use mark::unfit_mark;
use postrider_core::finding::{Finding, Weight};
use postrider_core::layout::Way;
use postrider_core::{Fault, Layout};
use tokio_postgres::error::SqlState;

use crate::absent::no_table;
use crate::config::Config;
use crate::cursor;
use crate::fault::{Error, fault};
use crate::fitness::{Ahead, ids_ahead, refusals, require_session};
use crate::relation::no_table_at_all;
use crate::session::{Durable, Session};
use crate::sql::quoted;
use crate::status::require_columns;
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

/// Refuses to start without a right that a relay needs: all that are missing, each with its GRANT.
pub(crate) async fn require_rights(session: &Session, config: &Config, table: &Table) -> Result<(), Fault> {
    let failed = |error| fault(&config.place(), error);
    let mut found = Found { config, place: config.place(), user: String::new(), findings: Vec::new() };
    found.user = user(session).await.map_err(failed)?;
    found.rights(session, table).await.map_err(failed)?;
    let missing = found.findings.into_iter().filter(|finding| finding.weight == Weight::Fault);
    let (problems, grants): (Vec<String>, Vec<String>) =
        missing.map(|finding| (finding.fault.problem, finding.fault.remedy)).unzip();
    if problems.is_empty() {
        return Ok(());
    }
    Err(Fault::new(config.place(), problems.join("; "), grants.join(" ")))
}

/// A schema that the user may not even look into.
pub(crate) async fn no_usage(session: &Session, config: &Config, error: Error) -> Fault {
    let user = user(session).await.unwrap_or_default();
    let schema = config.layout.schema.as_ref().map_or("public".into(), |schema| schema.quoted());
    Fault::new(
        config.place(),
        format!("user {user} may not use schema {schema}"),
        format!("grant usage on schema {schema} to {user};"),
    )
    .caused_by(error)
}

/// As whom the relay is connected, quoted.
pub(crate) async fn user(session: &Session) -> Result<String, Error> {
    let row = session.first("select current_user::text", &[]).await?;
    Ok(row.map_or_else(String::new, |row| quoted(row.get(0))))
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
        self.user = user(session).await?;
        let Some(table) = self.table(session).await? else {
            return Err(Stop::Told(no_table(session, self.config).await));
        };
        // Nothing else that could be said of it would help.
        if let Some(refusal) = no_table_at_all(session, self.config, &table).await? {
            return Err(Stop::Told(refusal));
        }
        for refusal in refusals(session, self.config, &table).await? {
            self.fault_of(refusal);
        }
        if let Err(refusal) = require_session(session, self.config).await {
            self.fault_of(refusal);
        }
        self.columns(&table);
        self.words(session, &table).await?;
        let readable = self.rights(session, &table).await?;
        self.sides(session).await?;
        if readable {
            self.rows(session, &table).await?;
            self.ids(session, &table).await?;
        }
        self.opening(session, &table).await?;
        self.indexes(&table);
        self.notes(session, &table).await?;
        Ok(())
    }

    /// The table, or the right that is missing even to see it.
    async fn table(&mut self, session: &Session) -> Result<Option<Table>, Stop> {
        match Table::read(session, self.layout()).await {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                Err(Stop::Told(no_usage(session, self.config, error).await))
            }
            table => Ok(table?),
        }
    }

    /// What else a relay asks when it opens; where something is wrong already, that is to be mended first.
    async fn opening(&mut self, session: &Session, table: &Table) -> Result<(), Error> {
        if self.findings.iter().any(|finding| finding.weight == Weight::Fault) {
            return Ok(());
        }
        let refusal = match self.layout().way {
            Way::Cursor | Way::Log => cursor::refusal(session, self.config, table).await?,
            Way::Lease | Way::Hold => require_columns(self.config, table).err(),
        };
        if let Some(refusal) = refusal {
            self.fault_of(refusal);
        }
        Ok(())
    }

    /// Ids above the sequence; the right to read that, where it is missing, was told.
    async fn ids(&mut self, session: &Session, table: &Table) -> Result<(), Error> {
        match ids_ahead(session, self.config, table).await {
            Ok(Some(Ahead { problem, remedy })) => self.advise(problem, remedy),
            Ok(None) => {}
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {}
            Err(error) => return Err(error),
        }
        Ok(())
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
