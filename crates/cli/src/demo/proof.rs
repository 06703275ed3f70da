//! The proof: the file is read back and compared with the shop's own tables.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use postrider_core::Fault;
use serde::Deserialize;

/// What the shop knows: its committed steps by the event that each appended, and what it rolled back.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Event id → (order, the step's number within it).
    pub(crate) committed: HashMap<String, (i64, u32)>,
    /// Events that were appended in transactions that were rolled back.
    pub(crate) rolled_back: HashSet<String>,
}

/// What the comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) committed: usize,
    pub(crate) rolled_back: usize,
    pub(crate) orders: usize,
    /// Lines in the file.
    pub(crate) arrived: usize,
    /// Committed, and not in the file.
    pub(crate) missing: usize,
    /// In the file more than once.
    pub(crate) twice: usize,
    /// In the file, and never committed.
    pub(crate) ghosts: usize,
    /// Behind a later step of the same order.
    pub(crate) overtaken: usize,
}

impl Proof {
    pub(crate) fn holds(&self) -> bool {
        self.missing + self.twice + self.ghosts + self.overtaken == 0
    }
}

#[derive(Deserialize)]
struct Line {
    id: String,
}

/// Reads the file and compares.
pub(crate) fn prove(books: &Books, file: &Path) -> Result<Proof, Fault> {
    let unreadable = |error: std::io::Error| {
        Fault::new(file.display().to_string(), format!("cannot be read back: {error}"), "Look at the disk")
    };
    let lines = BufReader::new(File::open(file).map_err(unreadable)?).lines();
    let mut ids = Vec::with_capacity(books.committed.len());
    for line in lines {
        let line: Line = serde_json::from_str(&line.map_err(unreadable)?).map_err(|error| {
            Fault::new(file.display().to_string(), format!("a line is no event: {error}"), "This is a bug")
        })?;
        ids.push(line.id);
    }
    Ok(compare(books, &ids))
}

fn compare(books: &Books, ids: &[String]) -> Proof {
    let mut proof = Proof {
        committed: books.committed.len(),
        rolled_back: books.rolled_back.len(),
        orders: books.committed.values().map(|(order, _)| order).collect::<HashSet<_>>().len(),
        arrived: ids.len(),
        ..Proof::default()
    };
    let mut seen = HashSet::new();
    let mut latest: HashMap<i64, u32> = HashMap::new();
    for id in ids {
        let Some((order, step)) = books.committed.get(id) else {
            proof.ghosts += 1;
            continue;
        };
        if !seen.insert(id) {
            proof.twice += 1;
            continue;
        }
        let latest = latest.entry(*order).or_default();
        proof.overtaken += usize::from(step < latest);
        *latest = (*latest).max(*step);
    }
    proof.missing = books.committed.len() - seen.len();
    proof
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Books {
        let steps = [("a1", 1, 0), ("a2", 1, 1), ("b1", 2, 0), ("a3", 1, 2)];
        Books {
            committed: steps.into_iter().map(|(id, order, step)| (id.to_owned(), (order, step))).collect(),
            rolled_back: HashSet::from(["x".to_owned()]),
        }
    }

    fn proof(ids: &[&str]) -> Proof {
        compare(&books(), &ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn it_holds_when_each_committed_event_arrived_once_and_in_order() {
        let proof = proof(&["a1", "b1", "a2", "a3"]);
        assert!(proof.holds(), "{proof:?}");
        assert_eq!((proof.committed, proof.orders, proof.rolled_back, proof.arrived), (4, 2, 1, 4));
    }

    #[test]
    fn it_fails_for_each_way_to_be_wrong() {
        assert_eq!(proof(&["a1", "a2", "a3"]).missing, 1);
        assert_eq!(proof(&["a1", "b1", "a2", "a3", "b1"]).twice, 1);
        assert_eq!(
            proof(&["a1", "x", "b1", "a2", "a3"]).ghosts,
            1,
            "rolled back, and published all the same"
        );
        assert_eq!(proof(&["a1", "b1", "a3", "a2"]).overtaken, 1);
        for wrong in [&["a1", "a2", "a3"][..], &["b1", "a3", "a2", "a1"], &["a1", "a1", "b1", "a2", "a3"]] {
            assert!(!proof(wrong).holds(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_holds_no_event_is_no_proof() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("events.jsonl");
        assert!(prove(&books(), &file).is_err());
        std::fs::write(&file, "{\"id\":\"a1\"}\nnonsense\n").unwrap();
        assert!(prove(&books(), &file).is_err());
        std::fs::write(&file, "{\"id\":\"a1\"}\n").unwrap();
        assert_eq!(prove(&books(), &file).unwrap().missing, 3);
    }
}
