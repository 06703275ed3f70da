//! SQL on a connection of its own in a thread of its own: works from any test, with a runtime or without.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// What came back, as text.
pub type Rows = Vec<Vec<Option<String>>>;

/// Why there are no rows.
#[derive(Debug)]
pub struct SqlError {
    /// The server's code, if it was the server that refused.
    pub code: Option<SqlState>,
    text: String,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SqlError {}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = error.as_db_error().map_or_else(|| format!("{error:?}"), ToString::to_string);
        Self { code: error.code().cloned(), text }
    }
}

/// Runs SQL, one or more statements, and returns the rows of them all. Blocks the thread meanwhile.
///
/// # Errors
/// What the server or the connection says; or that nothing was said for two minutes.
pub fn query(url: &str, text: &str) -> Result<Rows, SqlError> {
    session(url, |session| session.query(text))
}

/// Works on one connection; it is gone, on both sides, when this returns.
pub(crate) fn session<T: Send>(
    url: &str,
    work: impl FnOnce(&Session) -> Result<T, SqlError> + Send,
) -> Result<T, SqlError> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime for one connection");
        let (client, connection) = answer(&runtime, tokio_postgres::connect(url, NoTls))?;
        let connection = runtime.spawn(connection);
        let session = Session { runtime, client };
        let outcome = work(&session);
        let Session { runtime, client } = session;
        drop(client);
        let ended = runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, connection).await });
        // Its end is the server's good-bye; an error was told to whoever asked.
        drop(ended);
        outcome
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A connection with a runtime of its own.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub(crate) fn query(&self, text: &str) -> Result<Rows, SqlError> {
        let messages = answer(&self.runtime, self.client.simple_query(text))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }
}

fn answer<T>(
    runtime: &Runtime,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SqlError> {
    let silent = SqlError { code: None, text: "no answer for two minutes".to_owned() };
    let answer = runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, asked).await });
    Ok(answer.map_err(|_| silent)??)
}
