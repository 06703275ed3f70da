//! `cargo xtask ids [FILE]`: which requirement is proved by which test.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use crate::args::Args;
use crate::tree::{File, files};

pub(crate) fn main(args: Args) -> Result<ExitCode, String> {
    let list = args.last()?;
    let proofs = proofs(&files()?);
    for (id, places) in &proofs {
        println!("{id:7} {}", places.iter().cloned().collect::<Vec<_>>().join(" "));
    }
    let Some(path) = list else { return Ok(ExitCode::SUCCESS) };
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let wanted = first_cells(&text);
    let missing: Vec<&str> = wanted.iter().filter(|id| !proofs.contains_key(*id)).map(Id::as_str).collect();
    println!("\n{} of {} ids are named by a test", wanted.len() - missing.len(), wanted.len());
    if !missing.is_empty() {
        println!("not named: {}", missing.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Orders A2 before A10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    family: String,
    number: u32,
    text: String,
}

impl Id {
    /// A letter and a number (`A6`), or a contract's number (`SRC-01`).
    fn parse(word: &str) -> Option<Self> {
        let digits_at = word.find(|c: char| c.is_ascii_digit())?;
        let (family, digits) = word.split_at(digits_at);
        let known = matches!(family, "A" | "B" | "C" | "D" | "E" | "F" | "SRC-" | "SNK-" | "STO-");
        if !known || digits.len() > 2 {
            return None;
        }
        let number = digits.parse().ok()?;
        Some(Self { family: family.to_owned(), number, text: word.to_owned() })
    }

    fn as_str(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.text)
    }
}

/// Ids in the comments of test code, with the files that name them.
fn proofs(files: &[File]) -> BTreeMap<Id, BTreeSet<String>> {
    let mut proofs: BTreeMap<Id, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.path.starts_with("xtask/")) {
        let comments = file.text.lines().skip(file.tests_from()).filter_map(|line| line.split_once("//"));
        for id in comments.flat_map(|(_, comment)| ids(comment)) {
            proofs.entry(id).or_default().insert(file.path.clone());
        }
    }
    proofs
}

/// The ids that a Markdown table lists in its first column.
fn first_cells(text: &str) -> BTreeSet<Id> {
    text.lines().filter_map(|line| Id::parse(line.strip_prefix('|')?.split('|').next()?.trim())).collect()
}

fn ids(text: &str) -> impl Iterator<Item = Id> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter_map(Id::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_a_comment_of_a_test_is_a_proof() {
        let text = "/// Serves B3.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    /// B10, SRC-04: none is lost\n    fn f2(a: C1) {}\n}\n";
        let proofs = proofs(&[File::new("crates/core/src/a.rs", text)]);
        assert_eq!(proofs.keys().map(Id::as_str).collect::<Vec<_>>(), ["B10", "SRC-04"]);
    }

    #[test]
    fn a_list_gives_the_first_cells_in_their_order() {
        let list = "| id | requirement |\n|---|---|\n| A10 | net of A6 |\n| A2 | once |\n| A123 | no |\n";
        assert_eq!(first_cells(list).iter().map(Id::as_str).collect::<Vec<_>>(), ["A2", "A10"]);
    }
}
