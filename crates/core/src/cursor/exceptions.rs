//! The exceptions in memory, so that what is ready is found without walking over all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Exception, Shelf};
use crate::route::{Gate, Kind};
use crate::{Key, Text};

#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions {
    items: BTreeMap<i64, Item>,
    lines: HashMap<Arc<Key>, Line>,
    /// The first of each line that is ready, and those without a key that are.
    heads: BTreeSet<i64>,
    /// Waiting and not yet found due.
    due: BTreeSet<(Timestamp, i64)>,
    hold_dead: bool,
}

/// An exception without its id. There may be very many, mostly parked behind one key: what few have is boxed, and what
/// neighbours have in common is shared.
#[derive(Clone, Debug)]
struct Item {
    key: Option<Arc<Key>>,
    shelf: Shelf,
    retries: u32,
    reason: Option<Box<Text>>,
    /// Learnt when its route held it back, so that it is not read again before that opens.
    kind: Option<Box<Kind>>,
}

impl Item {
    fn exception(&self, id: i64) -> Exception {
        Exception {
            id,
            key: self.key.as_deref().cloned(),
            shelf: self.shelf,
            retries: self.retries,
            reason: self.reason.as_deref().cloned(),
        }
    }
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

    pub(super) fn contains(&self, id: i64) -> bool {
        self.items.contains_key(&id)
    }

    pub(super) fn get(&self, id: i64) -> Option<Exception> {
        self.items.get(&id).map(|item| item.exception(id))
    }

    pub(super) fn retries(&self, id: i64) -> Option<u32> {
        self.items.get(&id).map(|item| item.retries)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Exception> {
        std::mem::take(self).items.into_iter().map(|(id, item)| item.exception(id))
    }

    pub(super) fn put(&mut self, exception: Exception) {
        let Exception { id, key, shelf, retries, reason } = exception;
        self.remove(id);
        if let Shelf::Waiting { due } = shelf {
            self.due.insert((due, id));
        }
        let key = key.map(|key| match self.lines.get_key_value(&key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(key),
        });
        let holds = key.clone().filter(|_| self.hold_dead || shelf != Shelf::Dead);
        self.items.insert(id, Item { key, shelf, retries, reason: reason.map(Box::new), kind: None });
        match holds {
            Some(key) => {
                self.lines.entry(Arc::clone(&key)).or_default().ids.insert(id);
                self.lead(&key);
            }
            None if self.is_ready(id) => drop(self.heads.insert(id)),
            None => {}
        }
    }

    /// Says whether there was one.
    pub(super) fn remove(&mut self, id: i64) -> bool {
        let Some(Item { key, shelf, .. }) = self.items.remove(&id) else { return false };
        if let Shelf::Waiting { due } = shelf {
            self.due.remove(&(due, id));
        }
        self.heads.remove(&id);
        if let Some(key) = key
            && let Some(line) = self.lines.get_mut(&key)
        {
            line.ids.remove(&id);
            self.lead(&key);
        }
        true
    }

    /// Remembers what kind a row is of whose route is held.
    pub(super) fn held(&mut self, id: i64, kind: Kind) {
        if let Some(item) = self.items.get_mut(&id) {
            item.kind = Some(Box::new(kind));
        }
    }

    /// Finds what has become due, so many at most; says how many.
    pub(super) fn wake(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut woken = 0;
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now && woken < limit)
        {
            woken += 1;
            self.due.remove(&(due, id));
            match self.items.get(&id).and_then(|item| item.key.clone()) {
                Some(key) => self.lead(&key),
                None => drop(self.heads.insert(id)),
            }
        }
        woken
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
        self.items.get(&id).is_some_and(|item| match item.shelf {
            Shelf::Parked => true,
            Shelf::Waiting { due } => !self.due.contains(&(due, id)),
            Shelf::Dead => false,
        })
    }

    /// Whether a key has exceptions at all.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.lines.contains_key(key)
    }

    /// Whether an exception of the key in this range is still here and in nobody's hands.
    pub(super) fn blocks(&self, key: &Key, ids: Range<i64>, out: impl Fn(i64) -> bool) -> bool {
        self.lines.get(key).is_some_and(|line| line.ids.range(ids).any(|id| !out(*id)))
    }

    /// Whether the first of a key that is in nobody's hands goes out with this reading, or with the next run of the retries.
    pub(super) fn is_about_to_go(
        &self,
        key: &Key,
        now: Timestamp,
        gate: &Gate<'_>,
        out: impl Fn(i64) -> bool,
    ) -> bool {
        let first = self.lines.get(key).and_then(|line| line.ids.iter().find(|id| !out(**id)));
        first.and_then(|id| self.items.get(id)).is_none_or(|item| {
            let is_due = match item.shelf {
                Shelf::Parked => true,
                Shelf::Waiting { due } => due <= now,
                Shelf::Dead => false,
            };
            is_due && item.kind.as_ref().is_none_or(|kind| gate.open(kind))
        })
    }

    fn line(&self, id: i64) -> Option<(&Key, &Line)> {
        let key = self.items.get(&id)?.key.as_deref()?;
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
