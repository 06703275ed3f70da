//! A producer that the broker has spoilt is replaced: nothing is rejected for it, nothing lost. No real broker can be
//! brought to say these things to a producer that behaves.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Refusal, Verdict};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{KafkaCode, MockKafka, Request, Topic, topic_name};

use crate::letters::{clock, ids, letters, receipts, send};
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
    // Everything is there. In which order is no matter of a mock, which takes a sequence that does not follow: `order.rs` has it.
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
