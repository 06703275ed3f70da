//! The crate's threads: one per producer, which polls it and ends it; and one per question that blocks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::{Fault, limits};
use rdkafka::producer::{Producer, PurgeConfig};

use crate::answer;
use crate::client::{Client, Inbox};
use crate::generation::Generation;
use crate::partitions::{Known, Partition};
use crate::refusal;
use crate::reports::Deed;
use crate::sink::Shared;
use crate::state::State;

/// How long a producer's thread waits for an event before it looks whether its end has come.
const LOOK: Duration = Duration::from_millis(20);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A topic to be asked for, through the producer that its messages go through.
struct Question {
    topic: usize,
    client: Arc<Client>,
    inbox: Arc<Inbox>,
}

impl Shared {
    /// Opens the next producer of a line, off the caller's thread.
    pub(crate) fn open(self: &Arc<Self>, state: &mut State, line: usize) {
        let (number, alone) = state.next_generation(line);
        let inbox = Arc::new(Inbox::new(Arc::clone(&self.bell)));
        state.lines[line].generation = Some(Generation::new(number, Arc::clone(&inbox), alone));
        let (shared, batch_bytes) = (Arc::clone(self), state.batch_bytes);
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
            questions.push(Question { topic, client, inbox: Arc::clone(&generation.inbox) });
            state.topics[topic].asking = true;
        }
        if questions.is_empty() {
            return;
        }
        let until = now + PATIENCE.min(deadline.since(now) / 2);
        let asked: Vec<usize> = questions.iter().map(|question| question.topic).collect();
        let shared = Arc::clone(self);
        let started = start("postrider-kafka-ask", move || {
            for question in questions {
                shared.put(&question, until);
            }
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
            let _ = said.set(answer::cluster(&client, &inbox, &*shared.clock, until));
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

    fn put(&self, question: &Question, until: Instant) {
        let name = self.lock().topics[question.topic].name.clone();
        let clock = &*self.clock;
        let answer = answer::partitions(&question.client, &question.inbox, &name, clock, until);
        let mut state = self.lock();
        let now = clock.instant();
        state.learn(question.topic, answer, now);
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
    fn learn(&mut self, topic: usize, answer: Result<Vec<Partition>, postrider_core::Refusal>, now: Instant) {
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
            Some(Deed::Purge) => client.purge(PurgeConfig::default().queue().inflight()),
            Some(Deed::Close) | None => return,
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
