//! A producer that the broker has spoilt is replaced: nothing is rejected for it, nothing lost. A real broker says so only where it
//! has lost what it had, or a right is missing (`rights.rs`); the other codes no real one can be brought to say to a
//! producer that behaves.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Refusal, Verdict};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{KafkaCode, MockKafka, PrivateKafka, Request, Topic, topic_name, until};

use crate::letters::{clock, ids, letters, open, receipts, send};
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(10);

/// All in one request, and one in flight: the mock takes a sequence that does not follow, and no real broker does.
fn sink(brokers: &str) -> KafkaSink {
    let mut config = KafkaConfig::new(brokers);
    config.publish_deadline = DEADLINE;
    for (name, value) in [("max.in.flight", "1"), ("linger.ms", "200")] {
        config.properties.insert(name.to_owned(), value.to_owned());
    }
    KafkaSink::open(config, clock()).unwrap()
}

fn recovers(request: Request, code: KafkaCode) {
    let name = topic_name("spoilt");
    let mock = MockKafka::start(&name, 1);
    let sink = sink(&mock.brokers());
    block_on(async {
        if request == Request::Produce {
            assert_eq!(receipts(&send(&sink, &letters(&name, "a0!"), DEADLINE).await), 1);
        }
        mock.refuse(request, &[code]);
        let batch = || letters(&name, "a1! a2 a3 b1! b2");
        let mut verdicts = send(&sink, &batch(), DEADLINE).await;
        for _ in 0..5 {
            for verdict in &verdicts {
                let counted =
                    matches!(verdict, Verdict::Refusal(Refusal::Rejected(_) | Refusal::Transient(_)));
                assert!(!counted, "{code:?} is no message's fault: {verdicts:?}");
            }
            if receipts(&verdicts) == 5 {
                break;
            }
            verdicts = send(&sink, &batch(), DEADLINE).await;
        }
        assert_eq!(receipts(&verdicts), 5, "{code:?}: {verdicts:?}");
    });
    // Everything is there. In which order is no matter of a mock, which takes a sequence that does not follow.
    let stored: BTreeSet<String> = ids(&mut Topic::open(&mock.brokers(), &name)).into_iter().collect();
    let missing: Vec<_> = ["a1", "a2", "a3", "b1", "b2"].iter().filter(|id| !stored.contains(**id)).collect();
    assert!(missing.is_empty(), "{code:?}: {missing:?}");
}

/// B5: a sequence that the broker does not expect, a producer that it has forgotten, and one that is fenced off.
#[test]
fn a_producer_whose_sequence_is_lost_is_replaced() {
    recovers(Request::Produce, KafkaCode::OutOfOrderSequenceNumber);
}

#[test]
fn a_producer_that_the_broker_has_forgotten_is_replaced() {
    recovers(Request::Produce, KafkaCode::UnknownProducerId);
}

#[test]
fn a_producer_that_is_fenced_is_replaced() {
    recovers(Request::Produce, KafkaCode::InvalidProducerEpoch);
    recovers(Request::Produce, KafkaCode::ProducerFenced);
}

/// A producer that is spoilt before it has begun: the right to write idempotently was missing for a moment.
#[test]
fn a_producer_that_may_not_begin_is_replaced() {
    recovers(Request::InitProducerId, KafkaCode::ClusterAuthorizationFailed);
}

/// B5, F2: a real broker that has lost the end of its log does not take a sequence that goes on behind it
/// (`OutOfOrderSequenceNumber`): the first message takes its successors with it, and through the next producer all of them come,
/// each key in order and once.
#[test]
fn order_holds_when_a_broker_has_lost_the_end_of_its_log() {
    let mut kafka = PrivateKafka::start();
    let name = topic_name("torn");
    let mut topic = Topic::create_on(&kafka.inside(), &name, 1, &[]);
    let sink = open(&kafka.brokers(), DEADLINE);
    for word in ["a1!", "a2!"] {
        assert_eq!(receipts(&block_on(send(&sink, &letters(&name, word), DEADLINE))), 1);
    }
    kafka.kill(1);
    kafka.lose_last_batch(1, &name, 0);
    kafka.restart(1);
    assert_eq!(ids(&mut topic), ["a1"], "it was cut off");
    let batch = || letters(&name, "a3! a4 a5 b1! b2");
    let refused = block_on(send(&sink, &batch(), DEADLINE));
    let told = refused.iter().any(|verdict| match verdict {
        Verdict::Refusal(refusal @ Refusal::Unknown(_)) => {
            refusal.reason().to_string().contains("out of order sequence")
        }
        _ => false,
    });
    assert!(told && receipts(&refused) == 0, "{refused:?}");
    let mut verdicts = Vec::new();
    until("everything is received", || {
        verdicts = block_on(send(&sink, &batch(), DEADLINE));
        let counted = |verdict: &Verdict| {
            matches!(verdict, Verdict::Refusal(Refusal::Rejected(_) | Refusal::Transient(_)))
        };
        assert!(!verdicts.iter().any(counted), "{verdicts:?}");
        receipts(&verdicts) == 5
    });
    assert_eq!(ids(&mut topic), ["a1", "a3", "a4", "a5", "b1", "b2"]);
}
