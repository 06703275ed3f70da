//! What the database's refusals of an append mean.

use postrider_core::Fault;

/// What to do about an error that the database answered to an append: none where there is nothing to add.
///
/// Most of what a table cannot keep is refused before it is written. This is for the rest: a constraint of the table's own, a
/// procedure that is not installed, a right that is missing. It never names the value.
///
/// ```
/// # fn told(error: &postrider_mysql::AppendError<mysql_async::Error>) {
/// if let postrider_mysql::AppendError::Database(error) = error
///     && let Some(fault) = postrider_mysql::hint(error)
/// {
///     eprintln!("{fault}");
/// }
/// # }
/// ```
#[must_use]
pub fn hint(error: &mysql_async::Error) -> Option<Fault> {
    let mysql_async::Error::Server(said) = error else { return None };
    let (problem, remedy) = remedy(said.code)?;
    // What the procedure says is its own words; what the server says of a row may quote it.
    let problem = if said.code == SIGNALLED { said.message.as_str() } else { problem };
    Some(Fault::new("append", problem, remedy))
}

/// What the installed procedure, or a trigger, refuses with.
const SIGNALLED: u16 = 1644;

/// By the server's number: what it means, and what to do.
fn remedy(code: u16) -> Option<(&'static str, &'static str)> {
    Some(match code {
        1048 | 1364 => {
            ("a column that takes no NULL was left empty", "Give it a default, or map it in the layout")
        }
        1062 => (
            "an event with this id is there already",
            "Append it with an idempotency key, which makes a repetition harmless",
        ),
        1146 | 1305 => (
            "the outbox, or what Postrider keeps beside it, is not there",
            "Run `postrider migrate`, and see that the connection's database is the outbox's",
        ),
        1142 | 1143 | 1370 => (
            "a right is missing",
            "Grant insert on the outbox and, for idempotency keys, execute on its procedure and select, insert and update on Postrider's idempotency table",
        ),
        1153 | 1301 => (
            "the statement is larger than the server takes at once",
            "Append in parts, or raise the server's max_allowed_packet",
        ),
        1205 | 1213 => ("the transaction met another one", "Roll it back and try it again"),
        1265 | 1267 | 1366 | 1406 | 3988 => (
            "a value does not fit its column: a text that is too long, a character that its character set lacks, a word that is none of an enum's",
            "Run `postrider check`, which compares the table with its layout; or widen the column and make it utf8mb4",
        ),
        1054 | 1136 => (
            "the table has changed since it was first looked at",
            "Try again: it is looked at anew; if it lasts, run `postrider check` and `postrider migrate`",
        ),
        1290 | 1836 => ("the database is read-only", "Connect to the primary"),
        3140 | 4025 | 3819 => (
            "a check of the table refuses it",
            "Give the event what the check wants, or map the column in the layout",
        ),
        SIGNALLED => {
            ("the outbox's procedure or a trigger does not take the event", "Change the event as it says")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::remedy;

    /// F5: every code that an append can meet has a remedy; what is none of ours has not.
    #[test]
    fn refusals_have_remedies() {
        for code in [1048, 1062, 1146, 1205, 1213, 1305, 1366, 1370, 1406, 1644] {
            let found = remedy(code);
            assert!(
                found.is_some_and(|(problem, remedy)| !problem.is_empty() && !remedy.is_empty()),
                "{code}"
            );
        }
        assert!(remedy(1317).is_none());
    }
}
