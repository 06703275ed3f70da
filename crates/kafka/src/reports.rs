//! From what librdkafka reports to verdicts, and from failures to a producer's end.

use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::verdict::{Reason, Scope, Silence};
use postrider_core::{Refusal, Verdict};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::client::{Report, Tag};
use crate::generation::Place;
use crate::partitions::Known;
use crate::refusal::{self, Class};
use crate::state::{SHARED, State};

/// How long before the deadline a call hands over nothing more, so that whoever is healthy has answered by then.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// How long healthy partitions may answer what is on its way to them when another one fails: purged, it would come twice.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How long reports on what was purged are waited for: librdkafka owes them, but a call must end.
const PURGE_PATIENCE: Duration = Duration::from_secs(3);
/// Smaller batches would help no topic.
const BATCH_BYTES_MIN: usize = 4 * 1024;
/// librdkafka's own limit, where nobody has set another.
pub(crate) const BATCH_BYTES: usize = 1_000_000;

/// What a producer's thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Go,
    /// Gives up what was not sent; what is on its way is answered.
    PurgeQueue,
    Purge,
    Close,
}

impl State {
    /// Takes in what every producer has reported.
    pub(crate) fn take_in(&mut self, now: Instant) {
        for line in 0..self.lines.len() {
            let mut reports = std::mem::take(&mut self.scratch);
            if let Some(generation) = &self.lines[line].generation {
                generation.inbox.take(&mut reports);
            }
            for report in reports.drain(..) {
                self.report(line, report, now);
            }
            self.scratch = reports;
        }
    }

    /// What the thread of a generation has to do; `None` when it is not there any more.
    pub(crate) fn tend(&mut self, line: usize, number: u64, now: Instant) -> Option<Deed> {
        self.take_in(now);
        let generation = self.lines[line].generation.as_mut().filter(|one| one.number == number)?;
        let fatal = generation.inbox.is_fatal();
        if fatal {
            generation.end_by(now + ANSWERS_WITHIN).over = true;
        }
        let Some(end) = &mut generation.end else { return Some(Deed::Go) };
        if generation.in_flight == 0 {
            if end.over {
                self.close(line, now);
                return Some(Deed::Close);
            }
            // Everything was answered in time after all.
            generation.end = None;
            self.changes += 1;
            return Some(Deed::Go);
        }
        if let Some(at) = end.purged_at {
            if now.since(at) > PURGE_PATIENCE {
                self.give_up(line, now);
            }
            return Some(Deed::Purge);
        }
        let due = end.purge_at.is_some_and(|at| at <= now);
        if !due && !self.only_refusers_left(line) {
            // A fatal producer sends nothing more of its queue and may not even report on it, but it still hears the answers.
            return Some(if fatal { Deed::PurgeQueue } else { Deed::Go });
        }
        self.blame(line, now);
        Some(Deed::Purge)
    }

    /// Whether nobody but the partitions that refused still owes an answer.
    fn only_refusers_left(&self, line: usize) -> bool {
        let Some(end) = self.lines[line].generation.as_ref().and_then(|one| one.end.as_ref()) else {
            return false;
        };
        let answered = |(number, topic): (usize, &crate::partitions::Topic)| {
            let others = topic.partitions.iter().enumerate().filter(|(at, partition)| {
                partition.in_flight > 0 && !end.refused.contains_key(&(number, *at))
            });
            topic.line != line || others.count() == 0
        };
        !end.refused.is_empty() && self.topics.iter().enumerate().all(answered)
    }

    /// Says whose silence it is, right before the purge.
    fn blame(&mut self, line: usize, now: Instant) {
        let Some(mut generation) = self.lines[line].generation.take() else { return };
        let said = generation.inbox.said();
        let end = generation.end.get_or_insert_default();
        (end.over, end.purged_at) = (true, Some(now));
        let waits = |(topic, partition): &Place| {
            self.topics[*topic].partitions.get(*partition).is_some_and(|one| one.in_flight > 0)
        };
        end.silent.retain(|place, _| waits(place));
        for (place, blamed) in &mut end.silent {
            let scope = self.scope(*place, now);
            *blamed = Some((scope, self.silence(*place, scope, said.as_ref().map(|(_, text)| &**text))));
            if scope != Scope::Sink {
                self.topics[place.0].owing.insert(place.1);
            }
        }
        self.lines[line].generation = Some(generation);
    }

    /// How much of the cluster is silent: whoever gave a receipt in the latter half of the wait is not.
    fn scope(&self, (topic, partition): Place, now: Instant) -> Scope {
        let since = self.topics[topic].partitions[partition].waits_since;
        let half = since + now.since(since) / 2;
        let lately = |at: Option<Instant>| at.is_some_and(|at| at > half);
        if self.topics[topic].partitions.iter().any(|other| lately(other.receipt_at)) {
            Scope::Partition
        } else if self.topics.iter().any(|other| lately(other.receipt_at)) {
            Scope::Topic
        } else {
            Scope::Sink
        }
    }

    fn silence(&self, (topic, partition): Place, scope: Scope, said: Option<&str>) -> Reason {
        let name = &self.topics[topic].name;
        let known = &self.topics[topic].partitions[partition];
        let mut text =
            format!("partition {partition} of topic \"{name}\" gave no answer before the deadline");
        if known.in_sync < known.replicas {
            let (in_sync, replicas) = (known.in_sync, known.replicas);
            text += &format!(
                ": {in_sync} of {replicas} replicas are in sync. Where min.insync.replicas asks for more, bring the others back"
            );
        } else if scope != Scope::Sink {
            text += ". Look at its leader, and whether min.insync.replicas can be met";
        } else if let Some(said) = said {
            text += &format!(": {said}");
        }
        Reason::new(text)
    }

    /// One message's report.
    fn report(&mut self, line: usize, report: Report, now: Instant) {
        let Some(place) = self.land(report.tag.slot, report.tag.index) else { return };
        let verdict = match report.error {
            None => {
                self.receive(line, place, now);
                Verdict::Receipt
            }
            Some(code) => Verdict::Refusal(self.fail(line, place, code, now)),
        };
        let changed = self.topics[place.0].settle();
        self.changes += u64::from(changed);
        self.answer(report.tag, verdict);
        self.rejoin(line);
    }

    fn receive(&mut self, line: usize, (topic, partition): Place, now: Instant) {
        let Some(generation) = &self.lines[line].generation else { return };
        generation.inbox.forget();
        let topic = &mut self.topics[topic];
        topic.receipt_at = Some(now);
        topic.owing.remove(&partition);
        let known = &mut topic.partitions[partition];
        if !known.knows(generation.number, now) {
            self.changes += 1;
        }
        (known.known_to, known.receipt_at, known.waits_since) = (generation.number, Some(now), now);
        if topic.suspects > 0 {
            topic.suspects -= 1;
            if topic.suspects == 0 && !topic.culprit && topic.home == SHARED {
                let name = topic.name.clone();
                self.shrink_batches(&name);
            }
        }
    }

    /// Nobody alone was too large, so together they were: batches become smaller, with the next producers.
    fn shrink_batches(&mut self, topic: &str) {
        let bytes = (self.batch_bytes.unwrap_or(BATCH_BYTES) / 4).max(BATCH_BYTES_MIN);
        tracing::warn!(
            topic,
            batch_bytes = bytes,
            remedy = "Let this login read the topic's settings (DescribeConfigs), or set batch.size in [sink.properties] \
                      to no more than its max.message.bytes",
            "a topic takes less at once than a producer's batch: all batches become smaller"
        );
        self.batch_bytes = Some(bytes);
        if let Some(shared) = self.lines.first_mut().and_then(|line| line.generation.as_mut()) {
            shared.end_when_idle();
        }
    }

    /// A message failed: its producer ends, and its topic goes on through one of its own.
    fn fail(&mut self, line: usize, place: Place, code: Code, now: Instant) -> Refusal {
        let name = format!("topic \"{}\"", self.topics[place.0].name);
        let company = self.topics[place.0].partitions[place.1].in_flight > 0;
        let Some(generation) = &mut self.lines[line].generation else {
            return Refusal::Unknown(Silence::Purged);
        };
        let (alone, fatal) = (generation.alone, generation.inbox.fatal());
        let end = generation.end_by(now + ANSWERS_WITHIN);
        end.over = true;
        if matches!(refusal::class(code).0, Class::Purged) {
            return match (end.silent.get(&place), fatal) {
                (Some(Some((scope, reason))), _) => {
                    Refusal::Unknown(Silence::Broker { scope: *scope, reason: reason.clone() })
                }
                // Nobody was refused, and yet the producer is spoilt: it is the cluster's doing.
                (_, Some(fatal)) if end.refused.is_empty() => refusal::spoilt(fatal),
                _ => Refusal::Unknown(Silence::Purged),
            };
        }
        let refused = end.refused.entry(place).or_default();
        let company = company || *refused > 0;
        *refused += 1;
        self.topics[place.0].owing.insert(place.1);
        if !matches!(refusal::class(code).0, Class::Rejected | Class::Transient) {
            self.doubt(place.0);
            return refusal::refusal(code, &name);
        }
        let topic = &mut self.topics[place.0];
        if alone || !company {
            (topic.suspects, topic.culprit) = (0, topic.suspects > 0);
            return refusal::refusal(code, &name);
        }
        // One of those that travelled together is to blame, and it is not known which: they come again, each alone.
        topic.culprit = false;
        topic.suspects += 1;
        if topic.limit.bytes.is_some() {
            // It takes less than it said.
            self.ask_limit(place.0);
        }
        Refusal::Unknown(Silence::Purged)
    }

    /// librdkafka did not take a message.
    pub(crate) fn unsent(&mut self, topic: usize, error: &KafkaError) -> Refusal {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        if matches!(code, Code::Fatal | Code::QueueFull) {
            if let (Code::Fatal, Some(generation)) = (code, self.generation_of(topic)) {
                generation.inbox.set_fatal(None);
            }
            return Refusal::Withheld;
        }
        if code != Code::MessageSizeTooLarge {
            self.doubt(topic);
        }
        refusal::refusal(code, &format!("topic \"{}\"", self.topics[topic].name))
    }

    /// Hands a verdict to its call.
    fn answer(&mut self, tag: Tag, verdict: Verdict) {
        let Some(call) = self.calls.get_mut(tag.slot).and_then(Option::as_mut) else { return };
        let key = call.flights[tag.index].key.take();
        if verdict != Verdict::Receipt {
            self.broken.add(key.as_ref());
        }
        if call.left {
            if call.in_flight == 0 {
                self.calls[tag.slot] = None;
            }
        } else {
            call.verdicts.push((tag.index, verdict));
        }
    }

    /// Reports that librdkafka owes and does not give.
    fn give_up(&mut self, line: usize, now: Instant) {
        let mut owed = Vec::new();
        for (slot, call) in self.calls.iter().enumerate() {
            for (index, flight) in call.iter().flat_map(|call| call.flights.iter().enumerate()) {
                if flight.flying && self.topics[flight.place.0].line == line {
                    owed.push(Tag { slot, index });
                }
            }
        }
        for tag in owed {
            self.report(line, Report { tag, error: Some(Code::PurgeInflight) }, now);
        }
    }

    /// A producer is done with: who was at fault goes on through one of its own.
    fn close(&mut self, line: usize, now: Instant) {
        self.changes += 1;
        let Some(generation) = self.lines[line].generation.take() else { return };
        let end = generation.end.unwrap_or_default();
        // Spoilt before anybody was refused: whoever waits for it hears why, or the next one would be opened in vain at once.
        if let (Some(fatal), true) = (generation.inbox.fatal(), end.refused.is_empty()) {
            for topic in self.topics.iter_mut().filter(|topic| topic.line == line) {
                topic.known = Known::Fault { refusal: refusal::unfit(&fatal), at: now };
            }
        }
        for ((topic, _), blamed) in &end.silent {
            if blamed.is_some() {
                self.doubt(*topic);
            }
        }
        for (topic, _) in end.silent.keys().chain(end.refused.keys()) {
            if self.topics[*topic].line == line && !self.topics[*topic].is_well() {
                self.part(*topic);
            }
        }
        self.rejoin(line);
    }
}

#[cfg(test)]
mod tests;
