//! A broker that freezes when it is asked what a topic takes (`max.message.bytes`).

use std::time::Duration;

use postrider_core::{Refusal, Verdict};
use postrider_kafka::KafkaConfig;
use postrider_kafka::check::{Used, check};
use postrider_servers::{PrivateKafka, Topic, topic_name, until};

use crate::letters::{ids, letter, letters, open, receipts, send};
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(4);

fn is_counted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refusal(Refusal::Rejected(_) | Refusal::Transient(_)))
}

/// SNK-03, SNK-07, SNK-08: it freezes in the middle of that question: nobody is rejected, everybody has a verdict at the deadline,
/// and thawed it goes on, in order.
#[test]
fn a_broker_that_freezes_when_asked_for_a_limit_costs_nothing() {
    let kafka = PrivateKafka::start();
    let (first, second) = (topic_name("known"), topic_name("asked"));
    let mut topics = [&first, &second].map(|name| Topic::create_on(&kafka.inside(), name, 1, &[]));
    let sink = open(&kafka.brokers(), WAIT);
    assert_eq!(receipts(&block_on(send(&sink, &letters(&first, "a1!"), DEADLINE))), 1);
    let accepted = || kafka.doors().map(postrider_servers::Door::accepted).sum::<u64>();
    let before = accepted();
    let batch = || letters(&second, "b1! b2 b3");
    let verdicts = std::thread::scope(|scope| {
        // The topic is asked for through the producer's own connection; who connects anew asks for the limit.
        scope.spawn(|| {
            until("somebody connects", || accepted() > before);
            kafka.freeze(1);
        });
        block_on(send(&sink, &batch(), WAIT))
    });
    assert!(!verdicts.iter().any(is_counted) && receipts(&verdicts) == 0, "{verdicts:?}");
    kafka.thaw(1);
    let mut verdicts = Vec::new();
    until("everything is received", || {
        verdicts = block_on(send(&sink, &batch(), DEADLINE));
        assert!(!verdicts.iter().any(is_counted), "{verdicts:?}");
        receipts(&verdicts) == 3
    });
    // What was on its way when it froze may have been stored, and was sent again.
    let mut stored = ids(&mut topics[1]);
    stored.dedup();
    assert!(stored.ends_with(&["b1".into(), "b2".into(), "b3".into()]), "{stored:?}");
    assert_eq!(ids(&mut topics[0]), ["a1"]);
}

/// SNK-08: a limit that was told before the broker froze rejects nobody: it may have been raised since.
#[test]
fn a_limit_of_before_the_freeze_rejects_nobody() {
    let kafka = PrivateKafka::start();
    let name = topic_name("raised");
    let mut topic = Topic::create_on(&kafka.inside(), &name, 1, &[("max.message.bytes", "3000")]);
    let sink = open(&kafka.brokers(), WAIT);
    assert_eq!(receipts(&block_on(send(&sink, &letters(&name, "a1!"), DEADLINE))), 1);
    let batch = || [letter(&name, "a2!").of_bytes(5_000), letter(&name, "a3")];
    kafka.freeze(1);
    let verdicts = block_on(send(&sink, &batch(), WAIT));
    assert!(!verdicts.iter().any(is_counted) && receipts(&verdicts) == 0, "{verdicts:?}");
    kafka.thaw(1);
    topic.configure(&[("max.message.bytes", "30000")]);
    // The broker hears of it in its own time.
    let used = Used { topic: name.clone(), place: "here".to_owned() };
    until("it is raised", || {
        let findings = block_on(check(&KafkaConfig::new(kafka.inside()), std::slice::from_ref(&used), &[]));
        findings.iter().any(|finding| finding.fault.to_string().contains("is 30000 bytes"))
    });
    let mut verdicts = Vec::new();
    until("everything is received", || {
        verdicts = block_on(send(&sink, &batch(), DEADLINE));
        assert!(!verdicts.iter().any(is_counted), "{verdicts:?}");
        receipts(&verdicts) == 2
    });
    assert_eq!(ids(&mut topic), ["a1", "a2", "a3"]);
}
