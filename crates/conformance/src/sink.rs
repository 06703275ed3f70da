//! The Sink suite: what `postrider_core::sink::Sink` promises, case by case.
//!
//! An adapter implements [`SinkHarness`] and names the suite once; each MUST then shows up as a test of its own:
//!
//! ```ignore
//! postrider_conformance::sink_suite!(block_on, Harness::new());
//! ```

mod answers;
pub mod cases;
mod letters;

use std::future::Future;
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_core::sink::Sink;

pub use letters::envelope;

/// What an adapter lends to the suite: a place of its own, that is empty when the harness is made.
pub trait SinkHarness: Sync {
    /// The sink under test.
    type Sink: Sink;

    /// Opens a sink on the place; called again, another one on the same place, as after a restart.
    fn open(&self) -> impl Future<Output = Self::Sink> + Send;

    /// What is durably there, in the order of each key.
    fn stored(&self) -> impl Future<Output = Vec<Stored>> + Send;

    /// The clock that the sinks were given.
    fn clock(&self) -> &dyn Clock;

    /// Lets time pass on that clock.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Bytes of the longest payload that is taken.
    fn payload_bytes_max(&self) -> usize;

    /// Whether data that is not the JSON it says to be is found out.
    fn checks_json(&self) -> bool {
        true
    }

    /// Brings trouble on every publish until [`mend`](Self::mend); false when this place cannot have it, and the case
    /// has nothing to say then.
    fn trouble(&self, trouble: Trouble) -> bool;

    /// Resolves when the trouble has struck: only then does it make sense to let time pass.
    fn struck(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Ends the trouble.
    fn mend(&self);
}

/// What can go wrong between a sink and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing can be reached: the sink is refused, or finds nobody.
    Unreachable,
    /// The message arrives and is stored, the answer is lost.
    ReplyLostAfterWrite,
    /// The message is lost on its way, and so there is no answer.
    ReplyLostBeforeWrite,
    /// No answer at all until the trouble ends, and then it is as if nothing had been.
    Silence,
}

impl Trouble {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::Unreachable, Self::ReplyLostAfterWrite, Self::ReplyLostBeforeWrite, Self::Silence];
}

/// One message as the place has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The event's id.
    pub id: String,
    /// The id of its key.
    pub key: Option<String>,
    /// What a consumer would read, or a digest of it.
    pub bytes: Vec<u8>,
}

/// Makes a test of every case: `sink_suite!(block_on, harness)`, where `block_on` runs a future to its end and `harness` is
/// evaluated anew for each case.
#[macro_export]
macro_rules! sink_suite {
    ($block_on:path, $harness:expr) => {
        $crate::sink_suite! { @ $block_on, $harness,
            snk_01_a_receipt_means_that_it_is_stored
            snk_01_trouble_never_brings_a_false_receipt
            snk_02_each_message_gets_exactly_one_verdict
            snk_02_a_full_batch_is_answered_whole
            snk_03_a_reply_lost_after_the_write_is_unknown
            snk_03_a_reply_lost_before_the_write_is_unknown
            snk_04_an_unreachable_sink_is_a_verdict_for_each
            snk_05_a_keys_messages_are_stored_in_order_across_calls_under_way
            snk_05_after_a_refusal_no_later_message_of_the_key_gets_a_receipt
            snk_05_after_a_refusal_another_call_gets_no_receipt_until_one_leads
            snk_05_after_trouble_no_later_message_of_the_key_gets_a_receipt
            snk_06_without_a_permit_nothing_is_attempted
            snk_07_past_the_deadline_everything_is_withheld
            snk_07_what_is_unanswered_at_the_deadline_is_unknown_and_not_overtaken
            snk_08_what_is_too_large_is_rejected_and_its_neighbours_flow_on
            snk_08_what_cannot_be_encoded_is_rejected_and_its_neighbours_flow_on
            snk_09_a_message_sent_again_has_the_same_id_and_bytes
            snk_10_after_drain_everything_accepted_is_durable
            snk_11_an_empty_batch_is_answered_at_once
            snk_11_messages_without_a_key_do_not_hold_each_other_back
            snk_12_a_dropped_publish_does_not_harm_later_calls
        }
    };
    (@ $block_on:path, $harness:expr, $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let harness = $harness;
                $block_on($crate::sink::cases::$case(&harness));
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    /// A case that the macro forgets would never run.
    #[test]
    fn the_macro_names_every_case() {
        let named = |line: &str| line.trim().starts_with("snk_").then(|| line.trim().to_owned());
        let in_macro: Vec<String> = include_str!("sink.rs").lines().filter_map(named).collect();
        let in_cases: Vec<String> = include_str!("sink/cases.rs")
            .lines()
            .filter_map(|line| {
                line.strip_prefix("pub async fn ")?.split(['<', '(']).next().map(str::to_owned)
            })
            .collect();
        assert_eq!(in_macro, in_cases);
    }
}
