//! The suite's own test: a plain sink passes, and one with a bug fails the case that forbids the bug.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use postrider_conformance::clock::ManualClock;
use postrider_conformance::sink::{SinkHarness, Stored, Trouble, cases};
use postrider_core::broken::BrokenKeys;
use postrider_core::clock::{BoxFuture, Clock, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::verdict::{Reason, Rejection, Scope, Silence};
use postrider_core::{Fault, Refusal, Verdict};

postrider_conformance::sink_suite!(block_on, Plain::with(None));

/// A sink in memory never waits.
fn block_on(future: impl Future<Output = ()>) {
    future.now_or_never().expect("it does not wait");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    ReceiptWithoutWrite,
    LosesAVerdict,
    SaysItTwice,
    LostReplyIsSuccess,
    LostReplyIsFailure,
    UnreachableIsRejected,
    ForgetsBrokenKeys,
    NeverMends,
    IgnoresPermits,
    IgnoresTheDeadline,
    RejectsTheWholeBatch,
    StampsItsBytes,
    KeylessIsAKey,
}

macro_rules! caught {
    ($($name:ident: $bug:ident by $case:ident;)+) => {
        $(
            #[test]
            #[should_panic]
            fn $name() {
                block_on(cases::$case(&Plain::with(Some(Bug::$bug))));
            }
        )+
    };
}

caught! {
    snk_01_catches_a_receipt_without_a_write: ReceiptWithoutWrite by snk_01_a_receipt_means_that_it_is_stored;
    snk_02_catches_a_lost_verdict: LosesAVerdict by snk_02_each_message_gets_exactly_one_verdict;
    snk_02_catches_a_second_verdict: SaysItTwice by snk_02_each_message_gets_exactly_one_verdict;
    snk_03_catches_unknown_taken_for_success: LostReplyIsSuccess by snk_03_a_reply_lost_before_the_write_is_unknown;
    snk_01_catches_unknown_taken_for_success: LostReplyIsSuccess by snk_01_trouble_never_brings_a_false_receipt;
    snk_03_catches_unknown_taken_for_failure: LostReplyIsFailure by snk_03_a_reply_lost_after_the_write_is_unknown;
    snk_04_catches_an_outage_taken_for_a_bad_message: UnreachableIsRejected by snk_04_an_unreachable_sink_is_a_verdict_for_each;
    snk_05_catches_a_key_that_goes_on: ForgetsBrokenKeys by snk_05_after_a_refusal_no_later_message_of_the_key_gets_a_receipt;
    snk_05_catches_a_key_that_goes_on_in_another_call: ForgetsBrokenKeys by snk_05_after_a_refusal_another_call_gets_no_receipt_until_one_leads;
    snk_05_catches_a_key_that_goes_on_after_trouble: ForgetsBrokenKeys by snk_05_after_trouble_no_later_message_of_the_key_gets_a_receipt;
    snk_05_catches_a_key_that_never_goes_on: NeverMends by snk_05_after_a_refusal_another_call_gets_no_receipt_until_one_leads;
    snk_06_catches_an_ignored_permit: IgnoresPermits by snk_06_without_a_permit_nothing_is_attempted;
    snk_07_catches_an_ignored_deadline: IgnoresTheDeadline by snk_07_past_the_deadline_everything_is_withheld;
    snk_08_catches_a_neighbour_that_pays: RejectsTheWholeBatch by snk_08_what_is_too_large_is_rejected_and_its_neighbours_flow_on;
    snk_09_catches_other_bytes: StampsItsBytes by snk_09_a_message_sent_again_has_the_same_id_and_bytes;
    snk_11_catches_order_where_none_is: KeylessIsAKey by snk_11_messages_without_a_key_do_not_hold_each_other_back;
}

/// Harness and place in one.
struct Plain {
    clock: ManualClock,
    bug: Option<Bug>,
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
struct Place {
    stored: Vec<Stored>,
    trouble: Option<Trouble>,
}

impl Plain {
    fn with(bug: Option<Bug>) -> Self {
        Self { clock: ManualClock::default(), bug, place: Arc::default() }
    }
}

const PAYLOAD_BYTES_MAX: usize = 1_000;

impl SinkHarness for Plain {
    type Sink = PlainSink;

    async fn open(&self) -> PlainSink {
        PlainSink {
            clock: self.clock.clone(),
            bug: self.bug,
            place: Arc::clone(&self.place),
            broken: Mutex::default(),
        }
    }

    async fn stored(&self) -> Vec<Stored> {
        self.place.lock().expect("no case panicked before").stored.clone()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn payload_bytes_max(&self) -> usize {
        PAYLOAD_BYTES_MAX
    }

    fn checks_json(&self) -> bool {
        false
    }

    fn trouble(&self, trouble: Trouble) -> bool {
        self.place.lock().expect("no case panicked before").trouble = Some(trouble);
        // It answers at once, so it cannot be silent.
        trouble != Trouble::Silence
    }

    fn mend(&self) {
        self.place.lock().expect("no case panicked before").trouble = None;
    }
}

struct PlainSink {
    clock: ManualClock,
    bug: Option<Bug>,
    place: Arc<Mutex<Place>>,
    broken: Mutex<BrokenKeys>,
}

impl PlainSink {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn take(
        &self,
        message: &Message<'_>,
        late: bool,
        permitted: impl FnOnce() -> bool,
    ) -> Result<(), Refusal> {
        if late && !self.has(Bug::IgnoresTheDeadline) {
            return Err(Refusal::Withheld);
        }
        let leads = message.leads && !self.has(Bug::NeverMends);
        let admitted = self.broken.lock().expect("no case panicked before").admits(message.key, leads);
        if !admitted && !self.has(Bug::ForgetsBrokenKeys) {
            return Err(Refusal::Withheld);
        }
        if message.envelope.data.len() > PAYLOAD_BYTES_MAX {
            return Err(rejected());
        }
        if !permitted() && !self.has(Bug::IgnoresPermits) {
            return Err(Refusal::Withheld);
        }
        self.store(message)
    }

    fn store(&self, message: &Message<'_>) -> Result<(), Refusal> {
        let place = &mut *self.place.lock().expect("no case panicked before");
        let unknown = || {
            let silence = Silence::Broker { scope: Scope::Sink, reason: Reason::new("lost") };
            match self.bug {
                Some(Bug::LostReplyIsSuccess) => Ok(()),
                Some(Bug::LostReplyIsFailure) => Err(Refusal::Transient(Reason::new("lost"))),
                _ => Err(Refusal::Unknown(silence)),
            }
        };
        match place.trouble {
            Some(Trouble::Unreachable) if self.has(Bug::UnreachableIsRejected) => return Err(rejected()),
            Some(Trouble::Unreachable) => {
                return Err(Refusal::Busy { scope: Scope::Sink, reason: Reason::new("away") });
            }
            Some(Trouble::ReplyLostBeforeWrite) => return unknown(),
            Some(Trouble::ReplyLostAfterWrite | Trouble::Silence) | None => {}
        }
        let mut bytes = message.envelope.data.to_vec();
        if self.has(Bug::StampsItsBytes) {
            bytes.push(place.stored.len() as u8);
        }
        if !self.has(Bug::ReceiptWithoutWrite) {
            let key = message.key.map(|key| key.id.to_string());
            place.stored.push(Stored { id: message.envelope.id.to_string(), key, bytes });
        }
        if place.trouble == Some(Trouble::ReplyLostAfterWrite) { unknown() } else { Ok(()) }
    }

    fn publish_all(
        &self,
        messages: &[Message<'_>],
        late: bool,
        permit: &dyn Permit,
    ) -> Vec<(usize, Verdict)> {
        let mut answers = Vec::new();
        let mut keyless_failed = false;
        for (index, message) in messages.iter().enumerate() {
            let held = self.has(Bug::KeylessIsAKey) && message.key.is_none() && keyless_failed;
            let taken =
                if held { Err(Refusal::Withheld) } else { self.take(message, late, || permit.ask(index)) };
            if taken.is_err() {
                keyless_failed |= message.key.is_none();
                self.broken.lock().expect("no case panicked before").add(message.key);
            }
            answers.push((index, taken.map_or_else(Verdict::Refusal, |()| Verdict::Receipt)));
        }
        if self.has(Bug::RejectsTheWholeBatch)
            && answers.iter().any(|(_, verdict)| *verdict != Verdict::Receipt)
        {
            answers.iter_mut().for_each(|(_, verdict)| *verdict = Verdict::Refusal(rejected()));
        }
        if self.has(Bug::LosesAVerdict) {
            answers.pop();
        }
        if self.has(Bug::SaysItTwice) {
            answers.extend(answers.first().cloned());
        }
        answers
    }
}

fn rejected() -> Refusal {
    Refusal::Rejected(Rejection { reason: Reason::new("no"), in_company: false })
}

impl Sink for PlainSink {
    fn features(&self) -> SinkFeatures {
        SinkFeatures { ordered_stream: true, batch_entries_max: 1_000, calls_max: 2 }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let late = self.clock.instant() >= deadline;
            verdicts.hand(self.publish_all(messages, late, permit));
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn drain(&self, _within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
