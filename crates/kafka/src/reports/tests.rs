//! The state by itself: reports go in, verdicts and a producer's end come out.

use std::sync::Arc;

use postrider_core::Key;

use super::*;
use crate::client::Inbox;
use crate::generation::Generation;
use crate::partitions::{Partition, Standing};
use crate::state::Flight;

struct World {
    state: State,
    slot: usize,
    sent: usize,
}

fn at(millis: u64) -> Instant {
    Instant(Duration::from_millis(millis))
}

/// One call, and two topics of two partitions on the shared line.
fn world() -> World {
    let mut state = State::default();
    let (slot, _) = state.enter(16);
    for name in ["t", "u"] {
        let topic = state.topic(name);
        state.topics[topic].learn(vec![Partition::default(), Partition::default()], at(0));
    }
    let mut world = World { state, slot, sent: 0 };
    world.open(0);
    world
}

impl World {
    fn open(&mut self, line: usize) {
        let (number, alone) = self.state.next_generation(line);
        self.state.lines[line].generation = Some(Generation::new(number, Arc::new(Inbox::default()), alone));
    }

    fn number(&self, line: usize) -> u64 {
        self.state.lines[line].generation.as_ref().map_or(0, |one| one.number)
    }

    /// Hands a message over; its index.
    fn send(&mut self, place: Place, millis: u64) -> usize {
        let index = self.sent;
        self.sent += 1;
        let key = Some(Key::new("", format!("k{index}")));
        self.state.depart(self.slot, index, Flight { flying: true, place, bytes: 1, key }, at(millis));
        index
    }

    fn report(&mut self, line: usize, index: usize, error: Option<Code>, millis: u64) {
        let tag = Tag { slot: self.slot, index };
        self.state.report(line, Report { tag, error }, at(millis));
    }

    fn verdict(&mut self, index: usize) -> Verdict {
        let call = self.state.calls[self.slot].as_ref().unwrap();
        call.verdicts.iter().find(|(known, _)| *known == index).unwrap().1.clone()
    }

    fn tend(&mut self, line: usize, millis: u64) -> Option<Deed> {
        let number = self.number(line);
        self.state.tend(line, number, at(millis))
    }

    /// Everything in flight is reported purged.
    fn purge(&mut self, line: usize, millis: u64) {
        for index in 0..self.sent {
            self.report(line, index, Some(Code::PurgeInflight), millis);
        }
    }
}

const PURGED: Verdict = Verdict::Refusal(Refusal::Unknown(Silence::Purged));

/// A failed delivery ends the producer; healthy partitions may answer, then all is purged, and its topic goes on by itself.
#[test]
fn a_refused_message_ends_its_producer_after_the_healthy_have_answered() {
    let mut world = world();
    let (bad, behind, healthy) = (world.send((0, 0), 0), world.send((0, 0), 0), world.send((1, 0), 0));
    world.report(0, bad, Some(Code::TopicAuthorizationFailed), 10);
    assert!(matches!(world.verdict(bad), Verdict::Refusal(Refusal::Busy { scope: Scope::Topic, .. })));
    assert_eq!(world.tend(0, 20), Some(Deed::Go), "another topic has not answered");
    world.report(0, healthy, None, 30);
    assert_eq!(world.tend(0, 40), Some(Deed::Purge));
    world.purge(0, 50);
    assert_eq!(world.verdict(behind), PURGED);
    assert_eq!(world.tend(0, 60), Some(Deed::Close));
    assert_eq!((world.state.topics[0].line, world.state.topics[1].line), (1, 0));
    assert!(!world.state.broken.admits(Some(&Key::new("", "k0")), false));
}

/// The healthy get some seconds, no more.
#[test]
fn after_some_seconds_it_is_purged_whoever_has_answered() {
    let mut world = world();
    let (bad, _slow) = (world.send((0, 0), 0), world.send((1, 0), 0));
    world.report(0, bad, Some(Code::InvalidTopic), 10);
    assert_eq!(world.tend(0, 5_009), Some(Deed::Go));
    assert_eq!(world.tend(0, 5_010), Some(Deed::Purge));
    assert_eq!(world.tend(0, 5_020), Some(Deed::Purge), "until all is reported");
    assert_eq!(world.tend(0, 9_000), Some(Deed::Purge), "and given up on when it is not");
    assert_eq!(world.tend(0, 9_020), Some(Deed::Close));
}

/// B5: at a deadline the silent are blamed, by how much is silent; neighbours are not.
#[test]
fn silence_is_blamed_on_as_much_as_is_silent() {
    for (receipt_from, scope) in
        [(None, Scope::Sink), (Some((0, 1)), Scope::Partition), (Some((1, 0)), Scope::Topic)]
    {
        let mut world = world();
        let silent = world.send((0, 0), 0);
        if let Some(place) = receipt_from {
            let other = world.send(place, 900);
            world.report(0, other, None, 950);
        }
        let late = world.send((1, 1), 960);
        let end = world.state.lines[0].generation.as_mut().unwrap().end_by(at(1_000));
        end.silent.entry((0, 0)).or_default();
        assert_eq!(world.tend(0, 999), Some(Deed::Go));
        assert_eq!(world.tend(0, 1_000), Some(Deed::Purge));
        world.purge(0, 1_010);
        let verdict = world.verdict(silent);
        let blamed = matches!(&verdict,
            Verdict::Refusal(Refusal::Unknown(Silence::Broker { scope: said, .. })) if *said == scope);
        assert!(blamed, "{scope:?}: {verdict:?}");
        assert_eq!(world.verdict(late), PURGED);
        assert_eq!(world.tend(0, 1_020), Some(Deed::Close));
        assert_eq!(world.state.topics[0].line, usize::from(scope != Scope::Sink), "{scope:?}");
    }
}

/// What is answered before the deadline after all costs nothing: the same producer goes on.
#[test]
fn a_deadline_that_everybody_makes_ends_nothing() {
    let mut world = world();
    let slow = world.send((0, 0), 0);
    world.state.lines[0].generation.as_mut().unwrap().end_by(at(1_000)).silent.entry((0, 0)).or_default();
    world.report(0, slow, None, 990);
    assert_eq!(world.tend(0, 1_000), Some(Deed::Go));
    assert!(world.state.lines[0].generation.as_ref().unwrap().end.is_none());
}

/// Refused together, nobody is rejected: they come again, each alone, until the culprit is found.
#[test]
fn a_company_is_not_rejected_but_its_culprit_is() {
    let mut world = world();
    let company = [world.send((0, 0), 0), world.send((0, 0), 0), world.send((0, 0), 0)];
    for index in company {
        world.report(0, index, Some(Code::MessageSizeTooLarge), 10);
        assert_eq!(world.verdict(index), PURGED);
    }
    assert_eq!(world.tend(0, 20), Some(Deed::Close));
    world.open(1);
    assert!(world.state.lines[1].generation.as_ref().unwrap().alone);
    let (small, large) = (world.send((0, 0), 30), world.send((0, 0), 30));
    world.report(1, small, None, 40);
    world.report(1, large, Some(Code::MessageSizeTooLarge), 50);
    assert!(matches!(world.verdict(large), Verdict::Refusal(Refusal::Rejected(_))));
    assert_eq!(world.state.topics[0].suspects, 0);
    assert_eq!(world.state.batch_bytes, None, "batches were not to blame");
}

/// Nobody alone was too large: the batch was, and the next ones are smaller.
#[test]
fn a_company_without_a_culprit_makes_batches_smaller() {
    let mut world = world();
    for index in [world.send((0, 0), 0), world.send((0, 0), 0)] {
        world.report(0, index, Some(Code::MessageSizeTooLarge), 10);
    }
    assert_eq!(world.tend(0, 20), Some(Deed::Close));
    world.open(0);
    world.open(1);
    for _ in 0..2 {
        let index = world.send((0, 0), 30);
        world.report(1, index, None, 40);
    }
    assert_eq!(world.state.batch_bytes, Some(BATCH_BYTES / 4));
    assert_eq!(world.state.topics[0].line, 0, "it is well, and shares again");
    assert_eq!(world.tend(0, 50), Some(Deed::Close), "the shared producer had the old batches");
    assert_eq!(world.tend(1, 50), Some(Deed::Close), "and nobody uses this one");
}

/// A topic that was silent shares again when the partition that owed has answered and nothing of it is in flight.
#[test]
fn a_topic_shares_again_when_it_gives_receipts() {
    let mut world = world();
    let bad = world.send((0, 0), 0);
    world.report(0, bad, Some(Code::NotEnoughReplicas), 10);
    assert_eq!(world.tend(0, 20), Some(Deed::Close));
    world.open(1);
    let (other, owed) = (world.send((0, 1), 30), world.send((0, 0), 30));
    world.report(1, other, None, 40);
    assert_eq!(world.state.topics[0].line, 1);
    world.report(1, owed, None, 50);
    assert_eq!(world.state.topics[0].line, 0);
}

/// F8: a refusal makes the producer fatal, and librdkafka still hears the answers to what is on its way: only its queue is purged,
/// because whoever is purged on the way comes twice.
#[test]
fn a_fatal_producer_still_hears_the_answers_of_the_healthy() {
    let mut world = world();
    let (bad, sent, queued) = (world.send((0, 0), 0), world.send((1, 0), 0), world.send((1, 1), 0));
    let inbox = Arc::clone(&world.state.lines[0].generation.as_ref().unwrap().inbox);
    inbox.set_fatal(Some((Code::MessageSizeTooLarge, "too large".to_owned())));
    world.report(0, bad, Some(Code::MessageSizeTooLarge), 10);
    assert_eq!(world.tend(0, 20), Some(Deed::PurgeQueue));
    world.report(0, queued, Some(Code::PurgeQueue), 30);
    assert_eq!(world.tend(0, 4_000), Some(Deed::PurgeQueue), "and what came back into it");
    world.report(0, sent, None, 4_010);
    assert_eq!((world.verdict(sent), world.verdict(queued)), (Verdict::Receipt, PURGED));
    assert_eq!(world.tend(0, 4_020), Some(Deed::Close));
}

/// The queue of a fatal producer is purged at once; when nobody was refused, it is the cluster's doing and the breaker hears of it.
#[test]
fn a_fatal_producers_queue_is_purged_at_once() {
    let mut world = world();
    let index = world.send((0, 0), 0);
    let inbox = Arc::clone(&world.state.lines[0].generation.as_ref().unwrap().inbox);
    inbox.set_fatal(Some((Code::ClusterAuthorizationFailed, "not authorized".to_owned())));
    assert_eq!(world.tend(0, 10), Some(Deed::PurgeQueue));
    world.purge(0, 20);
    let verdict = world.verdict(index);
    let told = matches!(&verdict, Verdict::Refusal(Refusal::Unknown(
        Silence::Broker { scope: Scope::Sink, reason })) if reason.0.contains("--idempotent"));
    assert!(told, "{verdict:?}");
    assert_eq!(world.tend(0, 30), Some(Deed::Close));
}

/// Spoilt before it has sent anything: whoever waits for it is told, instead of opening one after the other.
#[test]
fn a_producer_that_cannot_begin_is_told_to_who_waits() {
    let mut world = world();
    let inbox = Arc::clone(&world.state.lines[0].generation.as_ref().unwrap().inbox);
    inbox.set_fatal(Some((Code::ClusterAuthorizationFailed, "not authorized".to_owned())));
    assert_eq!(world.tend(0, 10), Some(Deed::Close));
    let Standing::Refused(refusal) = world.state.topics[0].standing(at(5)) else { panic!("it is refused") };
    assert!(matches!(&refusal, Refusal::Busy { scope: Scope::Sink, .. }), "{refusal:?}");
    assert!(matches!(world.state.topics[0].standing(at(11)), Standing::Ask));
}

/// Producers of topics in trouble are few; the last is shared.
#[test]
fn topics_in_trouble_have_few_producers() {
    let mut state = State::default();
    let lines: Vec<usize> = (0..7)
        .map(|n| {
            let topic = state.topic(&n.to_string());
            state.topics[topic].owing.insert(0);
            state.part(topic);
            state.topics[topic].line
        })
        .collect();
    assert_eq!(lines, [1, 2, 3, 4, 4, 4, 4]);
}

/// SNK-12: a dropped call's place is kept until its messages are reported on, and then given to another.
#[test]
fn a_dropped_call_is_remembered_until_its_messages_are_answered() {
    let mut world = world();
    let index = world.send((0, 0), 0);
    world.state.leave(world.slot, 1, std::iter::empty());
    assert_ne!(world.state.enter(1).0, world.slot);
    world.report(0, index, None, 10);
    assert_eq!(world.state.enter(1).0, world.slot);
}
