//! SQL on a connection of its own in a thread of its own: works from any test, with a runtime or without.

use std::fmt;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{NoTls, SimpleQueryMessage};

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
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime for one connection").block_on(async {
            let answer = tokio::time::timeout(ANSWER_WITHIN, ask(url, text)).await;
            answer.unwrap_or_else(|_| {
                Err(SqlError { code: None, text: "no answer for two minutes".to_owned() })
            })
        })
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn ask(url: &str, text: &str) -> Result<Rows, SqlError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let answer = client.simple_query(text).await;
    drop(client);
    // Its end is the server's good-bye: nothing of this connection is left when we return.
    let _ = connection.await;
    let rows = answer?.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}
