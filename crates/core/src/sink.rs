//! Where messages go.

use std::time::Duration;

use crate::clock::{BoxFuture, Instant};
use crate::{Envelope, Fault, Key, Verdict};

/// Publishes messages and says what became of each.
///
/// # Contract
/// - **SNK-01** No receipt before durable acceptance.
/// - **SNK-02** Exactly one verdict per message, handed over before `publish` returns, as soon as it is known.
/// - **SNK-03** A reply that was lost is `Unknown`, never success, never failure.
/// - **SNK-04** A lost connection is a verdict for each message; there is no second error channel.
/// - **SNK-05** After any verdict but a receipt, no later message of that key gets a receipt, in this call or another, until
///   one comes that [leads](Message::leads).
/// - **SNK-06** A message without a permit is not attempted and is `Withheld`.
/// - **SNK-07** At the deadline whatever is not attempted is `Withheld`, and what is unanswered is `Unknown` and cannot
///   succeed unseen later.
/// - **SNK-08** What cannot be encoded or is too large is `Rejected` and costs its neighbours nothing.
/// - **SNK-09** A message sent again has the same id and the same bytes.
/// - **SNK-10** After `drain` everything accepted is durable and nothing is in flight.
/// - **SNK-11** An empty batch is answered at once; messages without a key have no order among them.
/// - **SNK-12** When `publish` is dropped, messages may be in doubt, but later calls are not harmed.
pub trait Sink: Send + Sync {
    /// What this sink can do.
    fn features(&self) -> SinkFeatures;

    /// Publishes a batch, in order, asking `permit` right before each message is attempted.
    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()>;

    /// Whether the sink can be reached and would take messages; for `check`.
    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Ends: whatever is buffered is made durable, connections close.
    fn drain(&self, within: Duration) -> BoxFuture<'_, ()>;
}

/// What a sink can do; asked, not guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkFeatures {
    /// Within a call, a failed message takes its successors of the same key and topic with it, so that several may be in
    /// flight. Across calls the relay awaits the verdicts of a key before it sends more of it.
    pub ordered_stream: bool,
    /// Messages in one call, at most.
    pub batch_entries_max: usize,
    /// Calls under way at once, at most.
    pub calls_max: usize,
}

/// An envelope on its way to one topic. The sink encodes it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What it says.
    pub envelope: &'a Envelope,
    /// Where it goes within the sink.
    pub topic: &'a str,
    /// What it stays in order with.
    pub key: Option<&'a Key>,
    /// The relay has the verdict of every earlier message of this key: the key's stream starts anew here.
    pub leads: bool,
}

/// Asked right before each message is attempted.
pub trait Permit: Sync {
    /// Whether the message at this index may be attempted now.
    fn ask(&self, index: usize) -> bool;
}

/// Takes verdicts as they arrive.
pub trait Verdicts: Sync {
    /// Hands over a chunk of `(index, verdict)`.
    fn hand(&self, chunk: Vec<(usize, Verdict)>);
}
