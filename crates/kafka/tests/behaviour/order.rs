//! Order under failure: forty keys and a hot one, on a broker that is frozen, cut off, killed and refuses.

use std::time::Duration;

use postrider_core::sink::Sink;
use postrider_servers::{PrivateKafka, Topic, topic_name};

use crate::letters::open;
use crate::load::{Progress, Seen, run, seen};
use crate::naive::NaiveSink;
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(2);

/// Runs the load on a Kafka of its own while the script does something to it.
fn under_load<S: Sink>(
    open: impl FnOnce(&str) -> S,
    script: impl FnOnce(&mut PrivateKafka, &Progress) + Send,
) -> Seen {
    let mut kafka = PrivateKafka::start();
    let (brokers, inside, name) = (kafka.brokers(), kafka.inside(), topic_name("order"));
    let mut topic = Topic::create_on(&inside, &name, 3, &[]);
    let progress = Progress::default();
    let sink = open(&brokers);
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            progress.flows();
            script(&mut kafka, &progress);
            progress.flows();
            progress.end();
        });
        block_on(run(&sink, &name, DEADLINE, &progress))
    });
    seen(topic.read(), &sent)
}

/// The broker says nothing for longer than the deadline. What was sent meanwhile it may still take afterwards.
fn freeze(kafka: &mut PrivateKafka, progress: &Progress) {
    kafka.freeze(1);
    progress.suffers();
    kafka.thaw(1);
    progress.flows();
}

/// The broker cannot be reached for longer than the deadline. What was sent meanwhile never reaches it.
fn shut_out(kafka: &mut PrivateKafka, progress: &Progress) {
    kafka.door(1).close();
    kafka.door(1).cut();
    progress.suffers();
    kafka.door(1).open();
    progress.flows();
}

/// F2, F8, B5: frozen past the deadline, cut off, unreachable, killed and started again: every event arrives, and dropping
/// repeats each key is in order.
#[test]
fn each_key_is_in_order_whatever_happens_to_the_broker() {
    let seen = under_load(
        |brokers| open(brokers, DEADLINE),
        |kafka, progress| {
            freeze(kafka, progress);
            kafka.doors().for_each(|door| door.cut());
            progress.flows();
            shut_out(kafka, progress);
            kafka.kill(1);
            progress.suffers();
            kafka.restart(1);
        },
    );
    assert_eq!((seen.missing, seen.overtaken), (0, 0), "{seen:?}");
}

/// The test of the test: an idempotent producer whose failed messages are sent again lets events be overtaken. Not always by
/// a freeze alone: a broker that wakes may find all that was given up in its sockets, and take it in order.
#[test]
fn the_naive_producer_lets_events_be_overtaken() {
    let seen = under_load(
        |brokers| NaiveSink::open(brokers, DEADLINE),
        |kafka, progress| {
            freeze(kafka, progress);
            shut_out(kafka, progress);
            shut_out(kafka, progress);
        },
    );
    assert!(seen.overtaken > 0, "{seen:?}");
}
