//! What the database's refusals of an append mean.

use postrider_core::Fault;

/// What to do about an error that the database answered to an append: none where there is nothing to add.
///
/// Most of what a table cannot keep is refused before it is written. This is for the rest: a constraint of the table's own, a
/// function that is not installed, a right that is missing. It names the column and never the value.
///
/// ```
/// # fn told(error: &postrider_postgres::AppendError<tokio_postgres::Error>) {
/// if let postrider_postgres::AppendError::Database(error) = error
///     && let Some(fault) = postrider_postgres::hint(error)
/// {
///     eprintln!("{fault}");
/// }
/// # }
/// ```
#[must_use]
pub fn hint(error: &tokio_postgres::Error) -> Option<Fault> {
    let said = error.as_db_error()?;
    let remedy = remedy(said.code().code())?;
    let place = match (said.table(), said.column()) {
        (Some(table), Some(column)) => format!("column \"{column}\" of table \"{table}\""),
        (Some(table), None) => format!("table \"{table}\""),
        _ => "append".into(),
    };
    Some(Fault::new(place, remedy.0, remedy.1))
}

/// The same of any driver's error, by the server's five-character code: what it means, and what to do.
#[must_use]
pub(crate) fn remedy(code: &str) -> Option<(&'static str, &'static str)> {
    Some(match code {
        "22001" => (
            "a text is longer than its column",
            "Shorten it, or widen the column: alter table … alter column … type text",
        ),
        "22P02" => (
            "a text is not what its column holds: a UUID, a number, a word of an enum, JSON",
            "Run `postrider check`, which compares the table with its layout; or make the column text",
        ),
        "22P05" | "22021" => (
            "a text holds a character that its column does not keep, such as \\u0000 in JSONB",
            "Take it out of the payload, or make the column text or bytea",
        ),
        "22023" => ("the outbox's own function does not take the event", "Its message says why"),
        "23502" => {
            ("a column that takes no NULL was left empty", "Give it a default, or map it in the layout")
        }
        "23505" => (
            "an event with this id is there already",
            "Append it with an idempotency key, which makes a repetition harmless",
        ),
        "23514" => (
            "a check of the table refuses it",
            "Give the event what the check wants, or map the column in the layout",
        ),
        "25006" => ("the database is read-only", "Connect to the primary"),
        "25P02" => ("the transaction has failed before", "Roll it back and try it again"),
        "40001" | "40P01" => ("the transaction met another one", "Roll it back and try it again"),
        "42501" => (
            "a right is missing",
            "Grant insert and select on the outbox, usage on its sequence, and, for idempotency keys, select, insert and update on Postrider's idempotency table",
        ),
        "42883" | "42P01" => (
            "the outbox, or what Postrider keeps beside it, is not there",
            "Run `postrider migrate`, and see that the connection's search_path reaches it",
        ),
        "42703" | "42804" => (
            "the table has changed since it was first looked at",
            "Try again: it is looked at anew; if it lasts, run `postrider check`",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::remedy;

    /// F5: every code that an append can meet has a remedy; what is none of ours has not.
    #[test]
    fn refusals_have_remedies() {
        for code in ["22001", "22P02", "23502", "42501", "42883"] {
            assert!(
                remedy(code).is_some_and(|(problem, remedy)| !problem.is_empty() && !remedy.is_empty()),
                "{code}"
            );
        }
        assert!(remedy("57014").is_none());
    }
}
