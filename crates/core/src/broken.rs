//! Which keys of a sink are broken: what SNK-05 asks every ordered sink to remember.

use std::collections::HashSet;

use crate::Key;
use crate::limits::BROKEN_KEYS_MAX;

/// Keys whose last message got no receipt: nothing of theirs may succeed until a message comes that leads.
///
/// It remembers a bounded number of keys. Past that it takes every key for broken that has not led since, which costs
/// a message another try and never an order.
///
/// ```
/// use postrider_core::{Key, broken::BrokenKeys};
/// let (mut broken, key) = (BrokenKeys::default(), Key::new("Order", "7"));
/// broken.add(Some(&key));
/// assert!(!broken.admits(Some(&key), false));
/// assert!(broken.admits(Some(&key), true) && broken.admits(Some(&key), false));
/// ```
#[derive(Debug)]
pub struct BrokenKeys {
    listed: HashSet<Key>,
    listed_are: Listed,
    keys_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Broken,
    Whole,
}

impl Default for BrokenKeys {
    fn default() -> Self {
        Self::bounded(BROKEN_KEYS_MAX)
    }
}

impl BrokenKeys {
    /// Remembers this many keys one by one.
    #[must_use]
    pub fn bounded(keys_max: usize) -> Self {
        Self { listed: HashSet::new(), listed_are: Listed::Broken, keys_max }
    }

    /// Whether a message of this key may be attempted; one that leads mends its key.
    pub fn admits(&mut self, key: Option<&Key>, leads: bool) -> bool {
        let Some(key) = key else { return true };
        if leads {
            self.mend(key);
            return true;
        }
        match self.listed_are {
            Listed::Broken => !self.listed.contains(key),
            Listed::Whole => self.listed.contains(key),
        }
    }

    /// A message of this key got another verdict than a receipt.
    pub fn add(&mut self, key: Option<&Key>) {
        let Some(key) = key else { return };
        if self.listed_are == Listed::Whole {
            self.listed.remove(key);
        } else if self.listed.len() < self.keys_max || self.listed.contains(key) {
            self.listed.insert(key.owned());
        } else {
            self.listed.clear();
            self.listed_are = Listed::Whole;
        }
    }

    fn mend(&mut self, key: &Key) {
        if self.listed_are == Listed::Broken {
            // Mostly none is broken: then nothing has to be hashed.
            if !self.listed.is_empty() {
                self.listed.remove(key);
            }
            return;
        }
        if self.listed.len() >= self.keys_max {
            self.listed.clear();
        }
        self.listed.insert(key.owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: usize) -> Key {
        Key::new("Order", id.to_string())
    }

    /// SNK-05: a bound on memory never lets a message of a broken key through.
    #[test]
    fn past_its_bound_it_forgets_no_broken_key() {
        let mut broken = BrokenKeys::bounded(3);
        for id in 0..10 {
            broken.add(Some(&key(id)));
            assert!((0..=id).all(|id| !broken.admits(Some(&key(id)), false)), "after {id}");
        }
    }

    #[test]
    fn past_its_bound_a_key_that_leads_goes_on_until_it_breaks_again() {
        let mut broken = BrokenKeys::bounded(1);
        broken.add(Some(&key(0)));
        broken.add(Some(&key(1)));
        assert!(broken.admits(Some(&key(1)), true) && broken.admits(Some(&key(1)), false));
        broken.add(Some(&key(1)));
        assert!(!broken.admits(Some(&key(1)), false));
        assert!(broken.admits(Some(&key(2)), true) && broken.admits(Some(&key(3)), true));
        assert!(broken.listed.len() <= 1 && broken.admits(None, false));
    }
}
