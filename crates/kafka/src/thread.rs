//! The crate's threads: one per producer, which polls it and ends it; and one per question that blocks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::{Fault, Refusal, Text, limits};
use rdkafka::producer::{Producer, PurgeConfig};

use crate::answer;
use crate::client::{Client, Inbox};
use crate::generation::Generation;
use crate::partitions::{Known, Partition};
use crate::refusal;
use crate::reports::Deed;
use crate::sink::Shared;
use crate::state::{NARROW, State};

/// How long a producer's thread waits for an event before it looks whether its end has come.
const LOOK: Duration = Duration::from_millis(20);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A topic's partitions, or why nothing can be sent there.
type Answer = Result<Vec<Partition>, Refusal>;

/// A topic to be asked for, through the producer that its messages go through.
struct Question {
    topic: usize,
    name: Text,
    client: Arc<Client>,
    inbox: Arc<Inbox>,
    /// What it takes is to be asked for, too.
    limit: bool,
}

impl Shared {
    /// Opens the next producer of a line, off the caller's thread.
    pub(crate) fn open(self: &Arc<Self>, state: &mut State, line: usize) {
        let (number, alone) = state.next_generation(line);
        let inbox = Arc::new(Inbox::new(Arc::clone(&self.bell)));
        let batch_bytes = state.batch_bytes_of(line);
        let generation = Generation::new(number, Arc::clone(&inbox), alone);
        state.lines[line].generation = Some(Generation { batch_bytes, ..generation });
        let shared = Arc::clone(self);
        let started = start("postrider-kafka", move || {
            match shared.config.client(Arc::clone(&inbox), alone, batch_bytes) {
                Ok(client) => tend(&shared, line, number, Arc::new(client), &inbox),
                Err(fault) => shared.cannot_open(line, &fault.to_string()),
            }
        });
        if let Err(error) = started {
            self.cannot_open_in(state, line, &error.to_string());
        }
    }

    fn open_shared(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.lines.first().is_none_or(|line| line.generation.is_none()) {
            self.open(&mut state, 0);
        }
    }

    /// Puts a producer to work that is there already.
    pub(crate) fn adopt(self: &Arc<Self>, client: Client, inbox: Arc<Inbox>) -> std::io::Result<()> {
        let mut state = self.lock();
        let (number, alone) = state.next_generation(0);
        state.lines[0].generation = Some(Generation::new(number, Arc::clone(&inbox), alone));
        drop(state);
        let shared = Arc::clone(self);
        start("postrider-kafka", move || tend(&shared, 0, number, Arc::new(client), &inbox))
    }

    /// Asks for topics, off the caller's thread.
    pub(crate) fn ask(
        self: &Arc<Self>,
        state: &mut State,
        topics: Vec<usize>,
        now: Instant,
        deadline: Instant,
    ) {
        let mut questions = Vec::new();
        for topic in topics {
            let Some(generation) = state.generation_of(topic) else { continue };
            let Some(client) = generation.client.clone() else { continue };
            let inbox = Arc::clone(&generation.inbox);
            let known = &mut state.topics[topic];
            known.asking = true;
            let (name, limit) = (known.name.clone(), known.limit.asked_at.is_none() || known.home == NARROW);
            questions.push(Question { topic, name, client, inbox, limit });
        }
        if questions.is_empty() {
            return;
        }
        let until = now + PATIENCE.min(deadline.since(now) / 2);
        let asked: Vec<usize> = questions.iter().map(|question| question.topic).collect();
        let shared = Arc::clone(self);
        let started = start("postrider-kafka-ask", move || {
            let mut later = Vec::new();
            for question in questions {
                let answer = shared.put(&question, until);
                if question.limit && answer.is_ok() {
                    later.push((question, answer));
                } else {
                    shared.learn(&question, answer, None);
                }
            }
            shared.put_limits(later);
        });
        if let Err(error) = started {
            for topic in asked {
                let refusal = refusal::cannot_open(&error.to_string());
                state.topics[topic].asking = false;
                state.topics[topic].known = Known::Fault { refusal, at: now };
            }
        }
    }

    /// Asks the cluster whether it is there, off the caller's thread.
    pub(crate) async fn probe(self: &Arc<Self>) -> Result<(), Fault> {
        self.open_shared();
        let open = |state: &State| state.lines[0].generation.as_ref().is_none_or(|one| one.client.is_some());
        self.wait_for(limits::PUBLISH_DEADLINE, open).await;
        let (answer, place) = (Arc::new(OnceLock::new()), self.config.place());
        let generation =
            self.lock().lines[0].generation.as_ref().map(|one| (one.client.clone(), Arc::clone(&one.inbox)));
        let Some((Some(client), inbox)) = generation else {
            return Err(Fault::new(place, "no producer can be opened", "Correct the sink's properties."));
        };
        let (shared, said) = (Arc::clone(self), Arc::clone(&answer));
        start("postrider-kafka-ask", move || {
            let until = shared.clock.instant() + PATIENCE;
            let _ = said.set(answer::cluster(&client, &inbox, &shared.config, &*shared.clock, until));
            shared.bell.ring();
        })
        .map_err(|error| {
            Fault::new(&place, "no thread can be started", "Raise the limit on processes.").caused_by(error)
        })?;
        self.wait_for(limits::PUBLISH_DEADLINE, |_| answer.get().is_some()).await;
        match answer.get() {
            Some(Ok(())) => Ok(()),
            Some(Err((said, remedy))) => Err(Fault::new(place, said, *remedy)),
            None => Err(Fault::new(place, "it does not answer", "Check that the brokers run.")),
        }
    }

    fn put(&self, question: &Question, until: Instant) -> Answer {
        let Question { client, inbox, name, .. } = question;
        answer::partitions(client, inbox, &self.config, name, &*self.clock, until)
    }

    /// Asks what topics take, all in one question.
    fn put_limits(&self, questions: Vec<(Question, Answer)>) {
        if questions.is_empty() {
            return;
        }
        let at = self.clock.instant();
        let names: Vec<Text> = questions.iter().map(|(question, _)| question.name.clone()).collect();
        let limits = self.config.batch_limits(&names);
        for ((question, answer), limit) in questions.into_iter().zip(limits) {
            self.learn(&question, answer, Some((limit, at)));
        }
    }

    fn learn(&self, question: &Question, answer: Answer, limit: Option<(Option<usize>, Instant)>) {
        let mut state = self.lock();
        if let Some((bytes, at)) = limit {
            state.learn_limit(question.topic, bytes, at, self.config.batch_bytes());
        }
        state.learn(question.topic, answer, self.clock.instant());
        drop(state);
        self.bell.ring();
    }

    fn cannot_open(&self, line: usize, why: &str) {
        self.cannot_open_in(&mut self.lock(), line, why);
        self.bell.ring();
    }

    fn cannot_open_in(&self, state: &mut State, line: usize, why: &str) {
        let now = self.clock.instant();
        state.lines[line].generation = None;
        state.changes += 1;
        for topic in state.topics.iter_mut().filter(|topic| topic.line == line) {
            let refusal = refusal::cannot_open(why);
            topic.known = Known::Fault { refusal, at: now };
        }
    }
}

impl State {
    fn learn(&mut self, topic: usize, answer: Answer, now: Instant) {
        self.changes += 1;
        let topic = &mut self.topics[topic];
        topic.asking = false;
        match answer {
            Ok(partitions) => topic.learn(partitions, now),
            Err(refusal) => topic.known = Known::Fault { refusal, at: now },
        }
    }
}

/// A producer's life.
fn tend(shared: &Arc<Shared>, line: usize, number: u64, client: Arc<Client>, inbox: &Inbox) {
    let mut state = shared.lock();
    match &mut state.lines[line].generation {
        Some(generation) if generation.number == number => generation.client = Some(Arc::clone(&client)),
        _ => return,
    }
    state.changes += 1;
    drop(state);
    shared.bell.ring();
    loop {
        client.poll(LOOK);
        if inbox.is_fatal() {
            inbox.set_fatal(client.client().fatal_error());
        }
        let mut state = shared.lock();
        if state.ended {
            return;
        }
        let changes = state.changes;
        let deed = state.tend(line, number, shared.clock.instant());
        let stirred =
            changes != state.changes || state.calls.iter().flatten().any(|call| !call.verdicts.is_empty());
        drop(state);
        if stirred {
            shared.bell.ring();
        }
        match deed {
            Some(Deed::Go) => {}
            Some(Deed::PurgeQueue) => client.purge(PurgeConfig::default().queue()),
            Some(Deed::Purge) => client.purge(PurgeConfig::default().queue().inflight()),
            Some(Deed::Close) | None => return,
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
