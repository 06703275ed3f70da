//! What a sink says of one message: a receipt, or why there is none.

use crate::Text;

/// One per message, never more, never fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The broker's proof of durable acceptance.
    Receipt,
    /// Why there is none.
    Refusal(Refusal),
}

/// Five classes, because the relay does five different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The broker, or a part of it, is away. Nothing is counted: no entry dies of an outage.
    Busy {
        /// How much of the broker is away.
        scope: Scope,
        /// What it said.
        reason: Reason,
    },
    /// A fault of this message that may pass: the retry policy decides, and counts.
    Transient(Reason),
    /// This message can never succeed as it is.
    Rejected(Rejection),
    /// Sent, then no answer: published again with the same id and bytes.
    Unknown(Silence),
    /// Not attempted: no permit, or the deadline came first, or an earlier message of its key failed.
    Withheld,
}

/// How much of a broker a [`Refusal::Busy`] speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One partition of a topic. Refused, only its keys wait; silent, the topic's breaker hears of it.
    Partition,
    /// One topic: missing, forbidden, too few replicas.
    Topic,
    /// The whole sink: down, login refused, disk full.
    Sink,
}

/// Why a message was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What is wrong with it.
    pub reason: Reason,
    /// Whether it was refused together with others, so that the culprit is not known: the company is halved,
    /// in order, until it stands alone.
    pub in_company: bool,
}

/// Whose silence an [`Refusal::Unknown`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The broker, or this much of it, answered nobody: feeds that scope's breaker, counts nothing.
    Broker {
        /// How much of the broker was silent.
        scope: Scope,
        /// What is known.
        reason: Reason,
    },
    /// Its own partition answered a message sent later: this message's fault, so it counts.
    Own(Reason),
    /// Purged because of a neighbour: counts nothing, feeds nothing.
    Purged,
}

/// A short text for people: no payload, no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub Text);

impl Reason {
    /// A reason in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Text::from(text.into()))
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Refusal {
    /// What to write beside the entry.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Busy { reason, .. } | Self::Transient(reason) => reason.clone(),
            Self::Rejected(rejection) => rejection.reason.clone(),
            Self::Unknown(Silence::Broker { reason, .. } | Silence::Own(reason)) => reason.clone(),
            Self::Unknown(Silence::Purged) => {
                Reason(Text::from_static("purged with its producer before an answer came"))
            }
            Self::Withheld => Reason(Text::from_static("not attempted")),
        }
    }
}
