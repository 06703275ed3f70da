//! Order under failure: forty keys and a hot one, on a broker that is frozen, cut off, killed and refuses.

use std::time::Duration;

use postrider_core::sink::Sink;
use postrider_servers::{KafkaOptions, PrivateKafka, Topic, topic_name};

use crate::letters::open;
use crate::load::{Progress, Seen, run, seen};
use crate::naive::NaiveSink;
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(2);

/// Where the partitions' copies lie.
const ONE_BROKER: &[&[i32]] = &[&[1], &[1], &[1]];
const THREE_BROKERS: &[&[i32]] = &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]];

/// Runs the load on a Kafka of its own while the script does something to it.
fn under_load<S: Sink>(
    places: &[&[i32]],
    open: impl FnOnce(&str) -> S,
    script: impl FnOnce(&mut PrivateKafka, &Progress) + Send,
) -> Seen {
    let options = KafkaOptions { brokers: places[0].len(), ..KafkaOptions::default() };
    let mut kafka = PrivateKafka::start_with(&options);
    let (brokers, inside, name) = (kafka.brokers(), kafka.inside(), topic_name("order"));
    let mut topic = Topic::create_placed(&inside, &name, places, &[]);
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

/// A broker says nothing for longer than the deadline. What was sent meanwhile it may still take afterwards.
fn freeze(kafka: &mut PrivateKafka, node: usize, progress: &Progress) {
    kafka.freeze(node);
    progress.suffers();
    kafka.thaw(node);
    progress.flows();
}

/// No broker can be reached for longer than the deadline. What was sent meanwhile never reaches them.
fn shut_out(kafka: &mut PrivateKafka, progress: &Progress) {
    let nodes = kafka.nodes();
    nodes.iter().for_each(|node| kafka.door(*node).close());
    nodes.iter().for_each(|node| kafka.door(*node).cut());
    progress.hot_key_suffers();
    nodes.iter().for_each(|node| kafka.door(*node).open());
    progress.flows();
}

/// F2, F8, B5: frozen past the deadline, cut off, unreachable, killed and started again: every event arrives, and dropping
/// repeats each key is in order.
#[test]
fn each_key_is_in_order_whatever_happens_to_the_broker() {
    let seen = under_load(
        ONE_BROKER,
        |brokers| open(brokers, DEADLINE),
        |kafka, progress| {
            freeze(kafka, 1, progress);
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

/// F2, F8, B5, B16: on three brokers leaders move, in good order, because one is frozen, and by a kill.
#[test]
fn each_key_is_in_order_while_leaders_move() {
    let seen = under_load(
        THREE_BROKERS,
        |brokers| open(brokers, DEADLINE),
        |kafka, progress| {
            kafka.stop(2);
            progress.flows();
            kafka.restart(2);
            progress.flows();
            freeze(kafka, 3, progress);
            shut_out(kafka, progress);
            kafka.kill(3);
            progress.flows();
            kafka.restart(3);
        },
    );
    assert_eq!((seen.missing, seen.overtaken), (0, 0), "{seen:?}");
}

/// The test of the tests: an idempotent producer whose failed messages are sent again lets events be overtaken. Not always by
/// a freeze alone: a broker that wakes may find all that was given up in its sockets, and take it in order.
fn naively(places: &[&[i32]]) -> Seen {
    under_load(
        places,
        |brokers| NaiveSink::open(brokers, DEADLINE),
        |kafka, progress| {
            freeze(kafka, 1, progress);
            shut_out(kafka, progress);
            shut_out(kafka, progress);
        },
    )
}

#[test]
fn the_naive_producer_lets_events_be_overtaken() {
    let seen = naively(ONE_BROKER);
    assert!(seen.overtaken > 0, "{seen:?}");
}

#[test]
fn the_naive_producer_lets_events_be_overtaken_on_three_brokers() {
    let seen = naively(THREE_BROKERS);
    assert!(seen.overtaken > 0, "{seen:?}");
}
