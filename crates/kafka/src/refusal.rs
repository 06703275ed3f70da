//! From what Kafka says to what the relay does about it: one table.

use postrider_core::Refusal;
use postrider_core::cloudevents::Malformed;
use postrider_core::verdict::{Reason, Rejection, Scope, Silence};
use rdkafka::error::RDKafkaErrorCode::{self as Code, *};

use crate::certificate::Doubt;

/// What an error code means for a message that it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The broker, or this much of it, takes nothing: nothing was stored.
    Busy(Scope),
    /// The message, or one that travelled with it, can never succeed.
    Rejected,
    /// The broker does not take the message as it is, and may take it once somebody has changed the topic.
    Transient,
    /// It may have been stored, or not; this much of the broker is at fault.
    Unknown(Scope),
    /// Given up with its producer because of a neighbour.
    Purged,
}

use Class::{Busy, Purged, Rejected, Transient, Unknown as InDoubt};
use Scope::{Partition, Sink, Topic};

const LARGER: &str =
    "Send less in one event, or raise the topic's max.message.bytes and the broker's message.max.bytes";
const CREATE: &str = "Create the topic, or let `postrider migrate` do it";
const ALLOW: &str = "Let the relay's user write to it: kafka-acls --add --producer --topic …";
const LOGIN: &str = "Check security.protocol, sasl.mechanism, sasl.username and sasl.password of the sink";
const CERTIFICATE: &str = "Check security.protocol and ssl.ca.location of the sink, and that the name in its url is in the certificate";
const NAME: &str = "Write the broker in the sink's url, and in its own advertised.listeners, by a name that is in its certificate, or have it show one for the name that is there";
const AUTHORITY: &str = "Let ssl.ca.location of the sink name the authority that signed the broker's certificate, and look whether the certificate has expired";
const NO_AUTHORITY: &str = "Set ssl.ca.location of the sink to the authority that signed the broker's certificate: without it only the system's own are trusted";
const TLS: &str = "Check security.protocol of the sink and, where the broker asks for a certificate, ssl.certificate.location and ssl.key.location";
const REACH: &str = "Check that the brokers run, that the sink's url names them, and its security.protocol";
const PROTOCOL: &str = "The likely cause is security.protocol of the sink, plaintext where nothing is set: write the one that the broker's listener has (ssl, sasl_plaintext or sasl_ssl)";
const FROZEN: &str =
    "Look whether the broker is frozen, starting or overloaded, and whether its listener is one for clients";
const REPLICAS: &str =
    "Bring the topic's other replicas back: min.insync.replicas asks for more than are in sync";
const RECORD: &str =
    "Look at the topic's settings: cleanup.policy=compact wants a key, and schemas may be validated";
const CLOCKS: &str = "Set the clocks of the relay's machine and of the brokers, or the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms";
const VERSION: &str = "Look at the broker's version and the topic's settings";
const WAIT: &str = "";

/// Every code that a produced message or a question about a topic has been seen or documented to end with.
#[rustfmt::skip]
const TABLE: &[(Code, Class, &str)] = &[
    (MessageSizeTooLarge,           Rejected,           LARGER),
    (MessageBatchTooLarge,          Rejected,           LARGER),
    (InvalidMessageSize,            Rejected,           LARGER),
    (InvalidRecord,                 Transient,          RECORD),
    (InvalidDifferentRecord,        Purged,             WAIT),
    (UnknownTopicOrPartition,       Busy(Topic),        CREATE),
    (UnknownTopic,                  Busy(Topic),        CREATE),
    (UnknownTopicId,                Busy(Topic),        CREATE),
    (InvalidTopic,                  Busy(Topic),        "Route the event to a topic whose name Kafka takes"),
    (TopicAuthorizationFailed,      Busy(Topic),        ALLOW),
    (NotEnoughReplicas,             Busy(Topic),        REPLICAS),
    (InvalidTimestamp,              Busy(Topic),        CLOCKS),
    (PolicyViolation,               Busy(Topic),        VERSION),
    (UnsupportedForMessageFormat,   Busy(Topic),        VERSION),
    (UnsupportedCompressionType,    Busy(Topic),        VERSION),
    (UnknownPartition,              Busy(Partition),    "It is looked for again by itself; was the topic created anew with fewer partitions, restart the relay"),
    (LeaderNotAvailable,            Busy(Partition),    "Bring a broker back that has a replica of it"),
    (ReplicaNotAvailable,           Busy(Partition),    WAIT),
    (NotLeaderForPartition,         Busy(Partition),    WAIT),
    (KafkaStorageError,             Busy(Partition),    "Look at the disks of the partition's leader"),
    (ClusterAuthorizationFailed,    Busy(Sink),         "Let the relay's user write to the cluster idempotently: kafka-acls --add --idempotent"),
    (SaslAuthenticationFailed,      Busy(Sink),         LOGIN),
    (Authentication,                Busy(Sink),         LOGIN),
    (UnsupportedSASLMechanism,      Busy(Sink),         LOGIN),
    (IllegalSASLState,              Busy(Sink),         LOGIN),
    (SSL,                           Busy(Sink),         CERTIFICATE),
    (Resolve,                       Busy(Sink),         REACH),
    (AllBrokersDown,                Busy(Sink),         REACH),
    (BrokerNotAvailable,            Busy(Sink),         REACH),
    (ThrottlingQuotaExceeded,       Busy(Sink),         "Raise the quota of the relay's user"),
    (UnsupportedVersion,            Busy(Sink),         VERSION),
    (UnsupportedFeature,            Busy(Sink),         VERSION),
    (QueueFull,                     Busy(Sink),         WAIT),
    (NotEnoughReplicasAfterAppend,  InDoubt(Topic),     REPLICAS),
    (RequestTimedOut,               InDoubt(Partition), WAIT),
    (OutOfOrderSequenceNumber,      InDoubt(Partition), WAIT),
    (DuplicateSequenceNumber,       InDoubt(Partition), WAIT),
    (InvalidProducerEpoch,          InDoubt(Partition), WAIT),
    (UnknownProducerId,             InDoubt(Partition), WAIT),
    (InvalidProducerIdMapping,      InDoubt(Partition), WAIT),
    (NetworkException,              InDoubt(Sink),      REACH),
    (BrokerTransportFailure,        InDoubt(Sink),      REACH),
    (OperationTimedOut,             InDoubt(Sink),      REACH),
    (MessageTimedOut,               InDoubt(Sink),      REACH),
    (TimedOutQueue,                 InDoubt(Sink),      REACH),
    (PurgeQueue,                    Purged,             WAIT),
    (PurgeInflight,                 Purged,             WAIT),
    (BrokerDestroy,                 Purged,             WAIT),
    (Fatal,                         Purged,             WAIT),
    (Fenced,                        Purged,             WAIT),
    (ProducerFenced,                Purged,             WAIT),
    (GaplessGuarantee,              Purged,             WAIT),
    (Inconsistent,                  Purged,             WAIT),
];

/// What a code means, and what to do about it.
pub(crate) fn class(code: Code) -> (Class, &'static str) {
    let row = TABLE.iter().find(|(known, ..)| *known == code);
    // What nobody has heard of kills no entry: a broker's word holds the partition, librdkafka's own leaves it in doubt.
    let unheard = if code as i32 > 0 { Busy(Partition) } else { InDoubt(Sink) };
    row.map_or((unheard, VERSION), |(_, class, remedy)| (*class, remedy))
}

/// A code as the refusal of one message, which travelled alone.
pub(crate) fn refusal(code: Code, place: &str) -> Refusal {
    let (class, remedy) = class(code);
    let reason = Reason::new(sentence(place, &code.to_string(), remedy));
    match class {
        Busy(scope) => Refusal::Busy { scope, reason },
        Rejected => Refusal::Rejected(Rejection { reason, in_company: false }),
        Transient => Refusal::Transient(reason),
        InDoubt(scope) => Refusal::Unknown(Silence::Broker { scope, reason }),
        Purged => Refusal::Unknown(Silence::Purged),
    }
}

/// Nothing was asked of this much of the cluster, or it said no: nothing was stored.
pub(crate) fn busy(scope: Scope, place: &str, said: &str, remedy: &str) -> Refusal {
    Refusal::Busy { scope, reason: Reason::new(sentence(place, said, remedy)) }
}

/// What is wrong with a cluster that did not answer, and what to do about it.
pub(crate) fn missing(
    said: Option<(Code, String)>,
    code: Code,
    accepts: bool,
    doubt: Option<Doubt>,
) -> (String, &'static str) {
    if let (Some((_, text)), Some(doubt)) = (&said, doubt) {
        return doubted(text, doubt);
    }
    match said {
        // They are not: somebody is there, and hangs up.
        Some((AllBrokersDown, text)) if accepts => {
            (format!("{text}, and yet a connection is accepted and closed again"), PROTOCOL)
        }
        Some((code, text)) => {
            let remedy = told(code, &text);
            (text, remedy)
        }
        None if accepts => (format!("it accepts connections but does not answer: {code}"), FROZEN),
        None => (format!("it does not answer: {code}"), REACH),
    }
}

/// librdkafka advises to look at the authority, whatever it is.
fn doubted(text: &str, doubt: Doubt) -> (String, &'static str) {
    let (why, remedy) = match doubt {
        Doubt::Name => ("it is for another name", NAME),
        Doubt::Authority { is_set: true } => ("nobody vouches for it whom ssl.ca.location names", AUTHORITY),
        Doubt::Authority { is_set: false } => ("nobody vouches for it whom the system trusts", NO_AUTHORITY),
    };
    let text = text.split(": broker certificate could not be verified").next().unwrap_or(text);
    (format!("{text}: {why}"), remedy)
}

/// What to do about what librdkafka says of a connection: with TLS 1.3 a certificate is refused after the handshake, and a wrong
/// protocol is a lost connection, so that the code alone says little.
pub(crate) fn told(code: Code, text: &str) -> &'static str {
    match class(code).1 {
        CERTIFICATE if text.contains("alert") => TLS,
        REACH if text.contains("security.protocol") => PROTOCOL,
        REACH if ["SSL", "ssl"].iter().any(|word| text.contains(word)) => TLS,
        remedy => remedy,
    }
}

/// No producer can be made of the settings.
pub(crate) fn cannot_open(why: &str) -> Refusal {
    busy(Sink, "no producer can be opened", why, "")
}

/// A producer that was spoilt before it had sent anything.
pub(crate) fn unfit((code, text): &(Code, String)) -> Refusal {
    busy(Sink, "the producer cannot begin", text, class(*code).1)
}

/// A producer that is spoilt by what the cluster said.
pub(crate) fn spoilt((code, text): (Code, String)) -> Refusal {
    let scope = Sink;
    let reason = Reason::new(sentence("the producer cannot go on", &text, class(code).1));
    Refusal::Unknown(Silence::Broker { scope, reason })
}

/// The payload is over the limit.
pub(crate) fn too_large(bytes: usize, bytes_max: usize) -> Refusal {
    rejected(format!("the payload has {bytes} bytes, over payload_bytes_max = {bytes_max}"))
}

/// The message cannot fit into the topic.
pub(crate) fn over_limit(topic: &str, bytes: usize, limit: usize) -> Refusal {
    let said =
        format!("the message has {bytes} bytes and more, and max.message.bytes of the topic is {limit}");
    rejected(sentence(&format!("topic \"{topic}\""), &said, LARGER))
}

/// The message cannot be encoded.
pub(crate) fn not_encodable(problem: &Malformed) -> Refusal {
    rejected(format!("it cannot be encoded: {problem}"))
}

fn rejected(reason: String) -> Refusal {
    Refusal::Rejected(Rejection { reason: Reason::new(reason), in_company: false })
}

fn sentence(place: &str, said: &str, remedy: &str) -> String {
    let stop = if remedy.is_empty() { "" } else { ". " };
    format!("{place}: {said}{stop}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B7: a row of the table is what the relay hears, whatever the code.
    #[test]
    fn each_row_becomes_the_refusal_that_it_says() {
        for (code, class, remedy) in TABLE {
            let refusal = refusal(*code, "topic \"t\"");
            let right = match (&refusal, class) {
                (Refusal::Busy { scope, reason }, Busy(wanted)) => {
                    scope == wanted && reason.0.ends_with(remedy)
                }
                (Refusal::Rejected(rejection), Rejected) => {
                    !rejection.in_company && rejection.reason.0.ends_with(LARGER) == (*remedy == LARGER)
                }
                (Refusal::Transient(reason), Transient) => reason.0.ends_with(remedy),
                (Refusal::Unknown(Silence::Broker { scope, .. }), InDoubt(wanted)) => scope == wanted,
                (Refusal::Unknown(Silence::Purged), Purged) => true,
                _ => false,
            };
            assert!(right, "{code:?}: {refusal:?}");
        }
    }

    #[test]
    fn no_code_has_two_rows() {
        for (at, (code, ..)) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|(earlier, ..)| earlier != code), "{code:?}");
        }
    }

    /// No entry dies of a code that nobody has heard of.
    #[test]
    fn an_unheard_code_buries_nothing() {
        assert_eq!(class(InvalidGroupId).0, Busy(Partition));
        assert_eq!(class(Conflict).0, InDoubt(Sink));
    }

    /// F5: the cause is named, not its consequence.
    #[test]
    fn a_wrong_protocol_and_a_frozen_broker_are_told_apart() {
        for text in [
            "Disconnected: verify that security.protocol is correctly configured, broker might require SASL authentication",
            "Disconnected: requesting ApiVersion: might be caused by incorrect security.protocol configuration (connecting to a SSL listener?)",
        ] {
            let (_, remedy) =
                missing(Some((BrokerTransportFailure, text.to_owned())), OperationTimedOut, true, None);
            assert!(remedy.starts_with("The likely cause is security.protocol"), "{remedy}");
        }
        let down = || Some((AllBrokersDown, "1/1 brokers are down".to_owned()));
        assert_eq!(missing(down(), OperationTimedOut, true, None).1, PROTOCOL);
        assert_eq!(missing(down(), OperationTimedOut, false, None).1, REACH);
        let (said, remedy) = missing(None, OperationTimedOut, true, None);
        assert!(
            said.starts_with("it accepts connections but does not answer") && remedy.contains("frozen"),
            "{said}"
        );
        assert!(missing(None, OperationTimedOut, false, None).0.starts_with("it does not answer"));
    }

    #[test]
    fn an_outage_says_what_librdkafka_said_of_it() {
        let said = Some((Authentication, "SASL authentication failed".to_owned()));
        let (said, remedy) = missing(said, OperationTimedOut, true, None);
        assert_eq!((&*said, remedy), ("SASL authentication failed", LOGIN));
    }

    /// F5: of a certificate it is told what is wrong with it, where that was found out.
    #[test]
    fn a_name_and_an_authority_are_told_apart() {
        let text = "ssl://b:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: \
                    broker certificate could not be verified, verify that ssl.ca.location is correctly configured";
        let told = |doubt| missing(Some((SSL, text.to_owned())), OperationTimedOut, true, doubt);
        for (doubt, why, remedy) in [
            (Doubt::Name, "failed: it is for another name", NAME),
            (
                Doubt::Authority { is_set: true },
                "failed: nobody vouches for it whom ssl.ca.location names",
                AUTHORITY,
            ),
            (
                Doubt::Authority { is_set: false },
                "failed: nobody vouches for it whom the system trusts",
                NO_AUTHORITY,
            ),
        ] {
            let (said, advised) = told(Some(doubt));
            assert!(said.ends_with(why) && advised == remedy, "{doubt:?}: {said}");
        }
        assert_eq!(told(None), (text.to_owned(), CERTIFICATE));
    }
}
