//! The nearest known word, and errors in TOML files that name it.

use std::ops::Range;

use crate::Fault;

/// The known word that is nearest to a misspelt one; none when nothing is near enough to be meant.
///
/// ```
/// use postrider_core::nearest::nearest;
/// assert_eq!(nearest("tabel", ["table", "topic"]), Some("table"));
/// assert_eq!(nearest("zebra", ["table", "topic"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) =
        known.into_iter().map(|name| (distance(word, name), name)).min_by_key(|(d, _)| *d)?;
    let longest = word.chars().count().max(best.chars().count());
    (distance * 2 <= longest.max(2)).then_some(best)
}

/// Turns an error of the `toml` crate into a fault that names file, line and, for an unknown key, the nearest one.
#[must_use]
pub fn toml_fault(place: &str, text: &str, error: &toml::de::Error) -> Fault {
    let place = at(place, text, error.span());
    if let Some((what, word, known)) = unknown(error.message()) {
        let problem = format!("unknown {what} \"{}\"", shown(word));
        let remedy = match nearest(word, known.iter().copied()) {
            Some(near) => format!("Did you mean \"{near}\"?"),
            None if known.is_empty() => format!("Remove it: no {what} is expected here."),
            None => format!("Known here: {}.", known.join(", ")),
        };
        return Fault::new(place, problem, remedy);
    }
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    Fault::new(place, shown(&message), "Correct the file; its form is TOML.")
}

/// `file:line` of a byte range in a text.
#[must_use]
pub fn at(place: &str, text: &str, span: Option<Range<usize>>) -> String {
    let Some(span) = span else { return place.to_owned() };
    let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    format!("{place}:{line}")
}

/// Takes serde's "unknown field `x`, expected one of `a`, `b`" apart.
fn unknown(message: &str) -> Option<(&'static str, &str, Vec<&str>)> {
    let (what, rest) = match message.strip_prefix("unknown field `") {
        Some(rest) => ("key", rest),
        None => ("value", message.strip_prefix("unknown variant `")?),
    };
    // The word may hold anything; the list of known ones holds no such text, so the last border is the true one.
    let border = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "));
    let (word, rest) = border.unwrap_or((rest, ""));
    Some((what, word, rest.split('`').skip(1).step_by(2).collect()))
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two words, the case aside.
fn distance(a: &str, b: &str) -> usize {
    let fold = |word: &str| word.chars().take(64).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (fold(a), fold(b));
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    #[allow(dead_code)]
    struct Sample {
        table: Option<String>,
        topic: Option<String>,
        way: Option<Way>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Way {
        Cursor,
        Lease,
    }

    fn fault(text: &str) -> String {
        toml_fault("a.toml", text, &toml::from_str::<Sample>(text).unwrap_err()).to_string()
    }

    /// F5: an unknown key names the line and the nearest key.
    #[test]
    fn an_unknown_key_names_line_and_nearest() {
        assert_eq!(
            fault("table = \"x\"\n\ntopci = \"y\"\n"),
            "a.toml:3: unknown key \"topci\". Did you mean \"topic\"?"
        );
        assert_eq!(fault("\nzzzzzz = 1"), "a.toml:2: unknown key \"zzzzzz\". Known here: table, topic, way.");
        assert_eq!(fault("way = \"leese\""), "a.toml:1: unknown value \"leese\". Did you mean \"lease\"?");
    }

    #[test]
    fn what_is_no_toml_names_the_line() {
        assert!(fault("table = \"x\"\n= 3").starts_with("a.toml:2: "));
        assert!(fault("table = 3").contains("a.toml:1: invalid type"));
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("tabel", "table"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("Type", "type"), 0);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).*") {
            if let Err(error) = toml::from_str::<Sample>(&text) {
                let _ = toml_fault("a.toml", &text, &error).to_string();
            }
        }

        #[test]
        fn no_unknown_key_panics(key in ".{0,40}") {
            let text = format!("{} = 1", toml::Value::String(key));
            if let Err(error) = toml::from_str::<Sample>(&text) {
                let _ = toml_fault("a.toml", &text, &error).to_string();
            }
        }
    }
}
