//! The rows in somebody's hands, by id. They mostly go out and are settled in order: both ends are found at once.

use std::collections::VecDeque;

use super::Out;

#[derive(Clone, Debug, Default)]
pub(super) struct Outs {
    /// In the order of the ids; a row that was settled leaves its place empty until enough of them are.
    rows: VecDeque<(i64, Option<Out>)>,
    len: usize,
}

/// Fewer rows are not worth tidying up.
const ROWS_MIN: usize = 64;

impl Outs {
    pub(super) fn contains(&self, id: i64) -> bool {
        self.find(id).is_ok_and(|at| self.rows[at].1.is_some())
    }

    pub(super) fn insert(&mut self, id: i64, out: Out) {
        self.len += 1;
        match self.find(id) {
            Ok(at) => self.len -= usize::from(self.rows[at].1.replace(out).is_some()),
            Err(at) if at == self.rows.len() => self.rows.push_back((id, Some(out))),
            Err(at) => self.rows.insert(at, (id, Some(out))),
        }
    }

    /// Takes a row out of the hands of a claim, if it is there.
    pub(super) fn take(&mut self, id: i64, claim: u64) -> Option<Out> {
        let at = self.find(id).ok()?;
        let out = self.rows[at].1.take_if(|out| out.claim == claim)?;
        self.len -= 1;
        self.tidy();
        Some(out)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Out)> {
        self.rows.iter().filter_map(|(id, out)| Some((*id, out.as_ref()?)))
    }

    pub(super) fn last_id(&self) -> Option<i64> {
        self.rows.back().map(|(id, _)| *id)
    }

    fn find(&self, id: i64) -> Result<usize, usize> {
        match (self.rows.front(), self.rows.back()) {
            (Some((first, _)), _) if *first == id => Ok(0),
            (_, Some((last, _))) if *last >= id => self.rows.binary_search_by_key(&id, |(id, _)| *id),
            _ => Err(self.rows.len()),
        }
    }

    /// Both ends are rows; and one that is long in flight must not make those behind it pile up.
    fn tidy(&mut self) {
        while self.rows.front().is_some_and(|(_, out)| out.is_none()) {
            self.rows.pop_front();
        }
        while self.rows.back().is_some_and(|(_, out)| out.is_none()) {
            self.rows.pop_back();
        }
        if self.rows.len() > ROWS_MIN && self.rows.len() > 2 * self.len {
            self.rows.retain(|(_, out)| out.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::cursor::{Origin, OutKey};

    fn out(claim: u64) -> Out {
        Out { claim, origin: Origin::New, key: OutKey::Known(None), retries: 0 }
    }

    proptest! {
        /// It is a sorted map, whatever the order in which rows go out and come back.
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec((any::<bool>(), 0i64..200, 0u64..3), 0..600)) {
            let (mut outs, mut map) = (Outs::default(), BTreeMap::new());
            for (goes_out, id, claim) in steps {
                if goes_out {
                    outs.insert(id, out(claim));
                    map.insert(id, claim);
                } else {
                    let taken = outs.take(id, claim).map(|out| out.claim);
                    let expected = map.get(&id).copied().filter(|of| *of == claim);
                    prop_assert_eq!(taken, expected);
                    expected.and_then(|_| map.remove(&id));
                }
                prop_assert_eq!(outs.contains(id), map.contains_key(&id));
                prop_assert_eq!(outs.last_id(), map.last_key_value().map(|(id, _)| *id));
                prop_assert!(outs.rows.len() <= ROWS_MIN.max(2 * map.len()));
            }
            let rows: Vec<_> = outs.iter().map(|(id, out)| (id, out.claim)).collect();
            prop_assert_eq!(rows, map.into_iter().collect::<Vec<_>>());
        }
    }

    /// B5: one row that is in flight for long, while any number behind it goes through.
    #[test]
    fn rows_behind_a_slow_one_do_not_pile_up() {
        let mut outs = Outs::default();
        outs.insert(0, out(0));
        for id in 1..100_000 {
            outs.insert(id, out(1));
            outs.take(id, 1);
        }
        assert!(outs.rows.len() <= ROWS_MIN, "{} places for one row", outs.rows.len());
    }
}
