//! The exceptions in memory, so that what is ready is found without walking over all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::{Exception, Shelf};
use crate::Key;
use crate::route::{Gate, Kind};

#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions {
    items: BTreeMap<i64, Item>,
    lines: HashMap<Key, Line>,
    /// The first of each line that is ready, and those without a key that are.
    heads: BTreeSet<i64>,
    /// Waiting and not yet found due.
    due: BTreeSet<(Timestamp, i64)>,
    hold_dead: bool,
}

#[derive(Clone, Debug)]
struct Item {
    exception: Exception,
    /// Learnt when its route held it back, so that it is not read again before that opens.
    kind: Option<Kind>,
}

/// The exceptions of one key.
#[derive(Clone, Debug, Default)]
struct Line {
    ids: BTreeSet<i64>,
    head: Option<i64>,
}

impl Exceptions {
    pub(super) fn new(exceptions: impl IntoIterator<Item = Exception>, hold_dead: bool) -> Self {
        let mut all = Self { hold_dead, ..Self::default() };
        exceptions.into_iter().for_each(|exception| all.put(exception));
        all
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn get(&self, id: i64) -> Option<&Exception> {
        self.items.get(&id).map(|item| &item.exception)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Exception> {
        std::mem::take(self).items.into_values().map(|item| item.exception)
    }

    pub(super) fn put(&mut self, exception: Exception) {
        let id = exception.id;
        self.remove(id);
        if let Shelf::Waiting { due } = exception.shelf {
            self.due.insert((due, id));
        }
        let key = exception.key.clone().filter(|_| self.hold_dead || exception.shelf != Shelf::Dead);
        self.items.insert(id, Item { exception, kind: None });
        match key {
            Some(key) => {
                self.lines.entry(key.clone()).or_default().ids.insert(id);
                self.lead(&key);
            }
            None if self.is_ready(id) => drop(self.heads.insert(id)),
            None => {}
        }
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<Exception> {
        let Item { exception, .. } = self.items.remove(&id)?;
        if let Shelf::Waiting { due } = exception.shelf {
            self.due.remove(&(due, id));
        }
        self.heads.remove(&id);
        if let Some(key) = &exception.key
            && let Some(line) = self.lines.get_mut(key)
        {
            line.ids.remove(&id);
            self.lead(key);
        }
        Some(exception)
    }

    /// Remembers what kind a row is of whose route is held.
    pub(super) fn held(&mut self, id: i64, kind: Kind) {
        if let Some(item) = self.items.get_mut(&id) {
            item.kind = Some(kind);
        }
    }

    /// Finds what has become due.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            match self.items.get(&id).and_then(|item| item.exception.key.clone()) {
                Some(key) => self.lead(&key),
                None => drop(self.heads.insert(id)),
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Up to `limit` ids that may go out: of each key a prefix of its line. `out` are in somebody's hands already.
    pub(super) fn ready(&self, limit: usize, gate: &Gate<'_>, out: impl Fn(i64) -> bool) -> Vec<i64> {
        let mut ids = Vec::new();
        let open = |id: &i64| self.items[id].kind.as_ref().is_none_or(|kind| gate.open(kind));
        for head in &self.heads {
            if ids.len() >= limit {
                break;
            }
            match self.line(*head) {
                Some((key, line)) if !gate.holds_key(key) => {
                    let prefix = line.ids.iter().take_while(|id| self.is_ready(**id));
                    let free = prefix.filter(|id| !out(**id)).take_while(|id| open(id));
                    ids.extend(free.take(limit - ids.len()));
                }
                Some(_) => {}
                None if !out(*head) && open(head) => ids.push(*head),
                None => {}
            }
        }
        ids
    }

    /// Whether an exception could go out if nothing of its key stood before it.
    pub(super) fn is_ready(&self, id: i64) -> bool {
        self.get(id).is_some_and(|exception| match exception.shelf {
            Shelf::Parked => true,
            Shelf::Waiting { due } => !self.due.contains(&(due, id)),
            Shelf::Dead => false,
        })
    }

    /// Whether an earlier exception of the key is still here and in nobody's hands.
    pub(super) fn blocks(&self, key: &Key, id: i64, out: impl Fn(i64) -> bool) -> bool {
        self.lines.get(key).is_some_and(|line| line.ids.range(..id).any(|id| !out(*id)))
    }

    fn line(&self, id: i64) -> Option<(&Key, &Line)> {
        let key = self.items.get(&id)?.exception.key.as_ref()?;
        Some((key, self.lines.get(key)?))
    }

    fn lead(&mut self, key: &Key) {
        let Some(line) = self.lines.get(key) else { return };
        let head = line.ids.first().copied();
        let ready = head.filter(|id| self.is_ready(*id));
        let Some(line) = self.lines.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut line.head, ready) {
            self.heads.remove(&before);
        }
        if let Some(id) = ready {
            self.heads.insert(id);
        }
        if head.is_none() {
            self.lines.remove(key);
        }
    }
}
