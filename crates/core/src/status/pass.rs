//! How far the rows of a status table were looked at.

use std::collections::HashSet;

use super::Rank;
use crate::Key;

/// After so many claims that found something behind the mark, rows before it are looked at again: one may have been
/// committed late, become due, or been left by another relay.
const CLAIMS_BEHIND_MARK_MAX: u32 = 8;

/// How far the rows were looked at, and which keys may not be handed out behind that: a row of theirs was left there.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// The last row that was looked at; a low-water mark, behind which the next claim goes on.
    pub mark: Option<Rank>,
    /// Keys that have to wait.
    pub blocked: HashSet<Key>,
    /// Whether it was looked at everything up to the mark, in vain: then the end is the end.
    in_vain: bool,
    /// Claims that found something behind the mark.
    claims: u32,
}

impl Pass {
    /// For the next claim.
    #[must_use]
    pub fn next(self) -> Self {
        if self.mark.is_none() || self.claims > CLAIMS_BEHIND_MARK_MAX { Self::from_start() } else { self }
    }

    /// From the first row on.
    #[must_use]
    pub fn from_start() -> Self {
        Self { in_vain: true, ..Self::default() }
    }

    /// From the first row on, but for these keys.
    #[must_use]
    pub fn without(keys: &HashSet<Key>) -> Self {
        Self { blocked: keys.clone(), ..Self::from_start() }
    }

    /// Rows up to this one were handed out.
    #[must_use]
    pub fn up_to(self, mark: Option<Rank>) -> Self {
        Self { mark, in_vain: false, claims: self.claims + 1, ..self }
    }

    /// At the last row: whether there is nothing anywhere. Else it is to be looked from the first on: something may have come
    /// to be before the mark.
    pub fn ends(&mut self) -> bool {
        if self.in_vain {
            self.in_vain = false;
            return true;
        }
        *self = Self::from_start();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(entry: i64) -> Option<Rank> {
        Some(Rank { leads: vec![], entry: entry.to_string() })
    }

    /// SRC-03: what commits before the mark is looked at again, at the end and every few claims.
    #[test]
    fn rows_before_the_mark_are_looked_at_again() {
        let mut pass = Pass::from_start().up_to(rank(7));
        assert_eq!(pass.clone().next().mark, rank(7));
        assert!(!pass.ends() && pass.mark.is_none() && pass.ends());
        let mut pass = Pass::default();
        let looks = (1..=20).filter(|at| {
            pass = std::mem::take(&mut pass).next();
            let is_first = pass.mark.is_none();
            pass = std::mem::take(&mut pass).up_to(rank(*at));
            is_first
        });
        assert_eq!(looks.collect::<Vec<_>>(), [1, 10, 19]);
    }
}
