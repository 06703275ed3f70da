//! The keys that a relay has in hand: who is in flight, who waits behind it, who broke.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use postrider_core::plan::TopicNo;
use postrider_core::{Key, Text};

use crate::claims::{ClaimNo, Ticket};
use crate::publish::ShipmentNo;

/// A key's place in the table, for as long as the relay has an entry of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyNo(u32);

#[derive(Debug, Default)]
pub(crate) struct Keys {
    numbers: HashMap<Arc<Key>, KeyNo>,
    states: Vec<KeyState>,
    free: Vec<KeyNo>,
    broken: usize,
    lingering: BTreeSet<KeyNo>,
    /// The scope of the last new key: mostly the next one has the same, and shares it.
    scope: Text,
}

#[derive(Debug)]
pub(crate) struct KeyState {
    key: Arc<Key>,
    /// Entries claimed and not yet settled durably.
    unsettled: u32,
    /// Messages without a verdict.
    pub(crate) in_flight: u32,
    /// In which call, and where they went.
    pub(crate) call: (ShipmentNo, TopicNo),
    /// A message got no receipt: what follows goes back to the source, which knows when it may come again.
    broken: bool,
    /// Entries behind the message in flight.
    pub(crate) waiting: VecDeque<Ticket>,
}

impl Keys {
    /// Counts one more unsettled entry of a key.
    pub(crate) fn enter(&mut self, key: &Key) -> KeyNo {
        if let Some(number) = self.numbers.get(key) {
            self.states[number.0 as usize].unsettled += 1;
            return *number;
        }
        // A copy: the entry's own text would keep its whole batch alive for as long as the key is busy.
        if self.scope != key.scope {
            self.scope = Text::from(&*key.scope);
        }
        let key = Arc::new(Key { scope: self.scope.clone(), id: Text::from(&*key.id) });
        let state = KeyState {
            key: Arc::clone(&key),
            unsettled: 1,
            in_flight: 0,
            call: (ShipmentNo::default(), TopicNo(0)),
            broken: false,
            waiting: VecDeque::new(),
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.states[number.0 as usize] = state;
                number
            }
            None => {
                self.states.push(state);
                KeyNo(
                    u32::try_from(self.states.len() - 1)
                        .expect("keys in hand are bounded by the bytes in flight"),
                )
            }
        };
        self.numbers.insert(key, number);
        number
    }

    pub(crate) fn get_mut(&mut self, number: KeyNo) -> &mut KeyState {
        &mut self.states[number.0 as usize]
    }

    pub(crate) fn is_broken(&self, number: KeyNo) -> bool {
        self.states[number.0 as usize].broken
    }

    /// Marks a key whose message got no receipt, and hands over what waited behind it.
    pub(crate) fn break_off(&mut self, number: KeyNo) -> VecDeque<Ticket> {
        let state = &mut self.states[number.0 as usize];
        if !state.broken {
            state.broken = true;
            self.broken += 1;
        }
        std::mem::take(&mut state.waiting)
    }

    /// Takes out what waits of one claim.
    pub(crate) fn take_waiting(&mut self, claim: ClaimNo) -> Vec<Ticket> {
        let mut taken = Vec::new();
        for state in &mut self.states {
            state.waiting.retain(|ticket| {
                let gone = ticket.claim == claim;
                if gone {
                    taken.push(*ticket);
                }
                !gone
            });
        }
        taken
    }

    /// Takes out everything that waits.
    pub(crate) fn take_all_waiting(&mut self) -> Vec<Ticket> {
        self.states.iter_mut().flat_map(|state| std::mem::take(&mut state.waiting)).collect()
    }

    /// One entry of a key is settled, or its claim is void. With the last one the key is forgotten, its hold with it; but a
    /// broken key lingers while a claim is being made, because that one was asked for before the source knew.
    pub(crate) fn leave(&mut self, number: KeyNo, claiming: bool) {
        let state = &mut self.states[number.0 as usize];
        state.unsettled -= 1;
        if state.unsettled > 0 {
            return;
        }
        if state.broken && claiming {
            self.lingering.insert(number);
        } else {
            self.forget(number);
        }
    }

    /// The claim that was being made has been planned: whoever lingered for it may go.
    pub(crate) fn let_go(&mut self) {
        for number in std::mem::take(&mut self.lingering) {
            if self.states[number.0 as usize].unsettled == 0 {
                self.forget(number);
            }
        }
    }

    fn forget(&mut self, number: KeyNo) {
        let state = &mut self.states[number.0 as usize];
        self.broken -= usize::from(std::mem::take(&mut state.broken));
        self.numbers.remove(&state.key);
        self.lingering.remove(&number);
        self.free.push(number);
    }

    /// Keys that the source must not hand out.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Key> {
        let any = self.broken > 0;
        self.numbers
            .values()
            .take_while(move |_| any)
            .map(|number| &self.states[number.0 as usize])
            .filter(|state| state.broken)
            .map(|state| &*state.key)
    }
}
