//! Everything a sink remembers: its calls, topics and producers. Under one lock, and pure: time comes in, deeds go out.

use std::collections::HashMap;

use postrider_core::broken::BrokenKeys;
use postrider_core::clock::Instant;
use postrider_core::{Key, Text, Verdict};

use crate::client::Report;
use crate::generation::{Generation, Line, Place};
use crate::partitions::{Known, Topic};

/// The line of all topics that are well and take our batches.
pub(crate) const SHARED: usize = 0;
/// Producers of topics that are in trouble, at most; the last of them is shared by those who come later.
const OWN_LINES_MAX: usize = 4;
/// The line of all topics that are well and take only smaller batches.
pub(crate) const NARROW: usize = OWN_LINES_MAX + 1;

#[derive(Default)]
pub(crate) struct State {
    pub calls: Vec<Option<CallState>>,
    pub topics: Vec<Topic>,
    numbers: HashMap<Text, usize>,
    /// The first is shared, the last is that of topics with small limits, each other belongs to a topic that is in trouble.
    pub lines: Vec<Line>,
    pub broken: BrokenKeys,
    /// Counts what may let a waiting message go.
    pub changes: u64,
    /// Bytes of a batch, once a topic has shown that it takes less than we would send.
    pub batch_bytes: Option<usize>,
    /// The sink is gone.
    pub ended: bool,
    pub(crate) scratch: Vec<Report>,
    generations: u64,
    serials: u64,
}

/// A call, until all its messages have been reported on.
pub(crate) struct CallState {
    /// One per message of the call.
    pub flights: Vec<Flight>,
    pub in_flight: usize,
    pub verdicts: Vec<(usize, Verdict)>,
    /// Nobody listens any more.
    pub left: bool,
}

/// A message that was handed over.
#[derive(Clone, Default)]
pub(crate) struct Flight {
    pub flying: bool,
    pub place: Place,
    pub bytes: usize,
    pub key: Option<Key>,
}

impl State {
    /// Enters a call; its slot and its turn.
    pub(crate) fn enter(&mut self, messages: usize) -> (usize, u64) {
        self.serials += 1;
        let call = CallState {
            flights: vec![Flight::default(); messages],
            in_flight: 0,
            verdicts: Vec::new(),
            left: false,
        };
        let free = self.calls.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.calls.push(None);
            self.calls.len() - 1
        });
        self.calls[slot] = Some(call);
        (slot, self.serials)
    }

    /// A call is over or was dropped; its place is kept for the reports that are still to come.
    pub(crate) fn leave(&mut self, slot: usize, serial: u64, topics: impl Iterator<Item = usize>) {
        for topic in topics {
            self.pass_on(topic, serial);
        }
        if let Some(call) = &mut self.calls[slot] {
            call.left = true;
            if call.in_flight == 0 {
                self.calls[slot] = None;
            }
        }
    }

    /// A call has nothing more to hand over to a topic.
    pub(crate) fn pass_on(&mut self, topic: usize, serial: u64) {
        let turns = &mut self.topics[topic].turns;
        let before = turns.len();
        turns.retain(|waiting| *waiting != serial);
        self.changes += u64::from(before != turns.len());
    }

    /// A topic's number.
    pub(crate) fn topic(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (number, name) = (self.topics.len(), Text::from(name));
        self.numbers.insert(name.clone(), number);
        self.topics.push(Topic::new(name));
        number
    }

    /// The line that a topic goes through, where one is at work.
    pub(crate) fn generation_of(&mut self, topic: usize) -> Option<&mut Generation> {
        let line = self.topics[topic].line;
        self.lines.get_mut(line)?.generation.as_mut()
    }

    /// A new generation's number on a line that has none, and whether its messages travel alone.
    pub(crate) fn next_generation(&mut self, line: usize) -> (u64, bool) {
        while self.lines.len() <= line {
            self.lines.push(Line::default());
        }
        self.generations += 1;
        let alone = self.topics.iter().any(|topic| topic.line == line && topic.suspects > 0);
        (self.generations, alone)
    }

    /// A message is about to be handed over.
    pub(crate) fn depart(&mut self, slot: usize, index: usize, flight: Flight, now: Instant) {
        let (topic, partition) = flight.place;
        if let Some(generation) = self.generation_of(topic) {
            generation.in_flight += 1;
            generation.in_flight_bytes += flight.bytes;
        }
        let topic = &mut self.topics[topic];
        topic.in_flight += 1;
        let partition = &mut topic.partitions[partition];
        if partition.in_flight == 0 {
            partition.waits_since = now;
        }
        partition.in_flight += 1;
        if let Some(call) = &mut self.calls[slot] {
            call.in_flight += 1;
            call.flights[index] = flight;
        }
    }

    /// Takes a message out of the counts; where it was.
    pub(crate) fn land(&mut self, slot: usize, index: usize) -> Option<Place> {
        let call = self.calls.get_mut(slot)?.as_mut()?;
        let flight = call.flights.get_mut(index).filter(|flight| flight.flying)?;
        flight.flying = false;
        call.in_flight -= 1;
        let (place, bytes) = (flight.place, flight.bytes);
        if let Some(generation) = self.generation_of(place.0) {
            generation.in_flight -= 1;
            generation.in_flight_bytes -= bytes;
        }
        let topic = &mut self.topics[place.0];
        topic.in_flight -= 1;
        topic.partitions[place.1].in_flight -= 1;
        Some(place)
    }

    /// Forgets what is known of a topic: it is asked for before anything goes there again.
    pub(crate) fn doubt(&mut self, topic: usize) {
        self.topics[topic].known = Known::Nothing;
    }

    /// Gives a topic that is in trouble a line of its own, unless it has one.
    pub(crate) fn part(&mut self, topic: usize) {
        if self.topics[topic].is_at_home() {
            let taken = |line: usize| self.topics.iter().any(|other| other.line == line);
            let line = (1..OWN_LINES_MAX).find(|line| !taken(*line)).unwrap_or(OWN_LINES_MAX);
            self.topics[topic].line = line;
        }
        let alone = self.topics[topic].suspects > 0;
        if let Some(generation) = self.generation_of(topic)
            && alone
            && !generation.alone
        {
            generation.end_when_idle();
        }
    }

    /// Brings topics that are well again back to the shared line, and ends the lines that nobody uses.
    pub(crate) fn rejoin(&mut self, line: usize) {
        if line == SHARED || line == NARROW {
            return;
        }
        let mut used = false;
        for topic in self.topics.iter_mut().filter(|topic| topic.line == line) {
            if topic.is_well() {
                topic.line = topic.home;
                self.changes += 1;
            } else {
                used = true;
            }
        }
        if !used && let Some(generation) = &mut self.lines[line].generation {
            generation.end_when_idle();
        }
    }

    /// Whether everything is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.lines.iter().filter_map(|line| line.generation.as_ref()).all(|one| one.in_flight == 0)
    }

    /// Ends every producer; what is unanswered is purged then.
    pub(crate) fn end_all(&mut self, purge_at: Instant) {
        for generation in self.lines.iter_mut().filter_map(|line| line.generation.as_mut()) {
            generation.end_by(purge_at).over = true;
        }
    }
}
