//! Sends a batch and gathers what is said of each message.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::sink::{Permit, Sink, Verdicts};
use postrider_core::{Refusal, Verdict};

use super::letters::Letters;
use super::{SinkHarness, Stored};

/// What was said of each message of a batch.
pub(super) struct Answers {
    ids: Vec<String>,
    verdicts: Vec<Verdict>,
}

impl Answers {
    pub(super) fn of(&self, id: &str) -> &Verdict {
        let index =
            self.ids.iter().position(|other| other == id).expect("the case names an event of its batch");
        &self.verdicts[index]
    }

    /// Ids of those that got a receipt.
    pub(super) fn received(&self) -> Vec<&str> {
        self.pick(|verdict| *verdict == Verdict::Receipt)
    }

    pub(super) fn withheld(&self) -> Vec<&str> {
        self.pick(|verdict| *verdict == Verdict::Refusal(Refusal::Withheld))
    }

    pub(super) fn unknown(&self) -> Vec<&str> {
        self.pick(|verdict| matches!(verdict, Verdict::Refusal(Refusal::Unknown(_))))
    }

    fn pick(&self, wanted: impl Fn(&Verdict) -> bool) -> Vec<&str> {
        self.ids
            .iter()
            .zip(&self.verdicts)
            .filter(|(_, verdict)| wanted(verdict))
            .map(|(id, _)| &**id)
            .collect()
    }
}

/// A deadline that no healthy sink meets.
pub(super) fn soon<H: SinkHarness>(harness: &H) -> Instant {
    harness.clock().instant() + Duration::from_secs(30)
}

/// Publishes with a permit for everything.
pub(super) async fn send<H: SinkHarness>(harness: &H, sink: &H::Sink, letters: &Letters) -> Answers {
    send_with(sink, letters, soon(harness), |_| true).await
}

/// Publishes, and sees to it that each message gets one verdict and is asked for at most once (SNK-02).
pub(super) async fn send_with<S: Sink>(
    sink: &S,
    letters: &Letters,
    deadline: Instant,
    permit: impl Fn(usize) -> bool + Sync,
) -> Answers {
    let gathered = Gathered { verdicts: Mutex::new(vec![None; letters.len()]) };
    let permits = Permits { permit, asked: Mutex::new(vec![false; letters.len()]) };
    sink.publish(&letters.messages(), deadline, &permits, &gathered).await;
    let verdicts = gathered.verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let verdicts = verdicts
        .into_iter()
        .enumerate()
        .map(|(index, verdict)| verdict.unwrap_or_else(|| panic!("SNK-02: message {index} got no verdict")))
        .collect();
    Answers { ids: letters.ids().map(str::to_owned).collect(), verdicts }
}

/// Takes verdicts, and one for each.
pub(super) struct Gathered {
    verdicts: Mutex<Vec<Option<Verdict>>>,
}

impl Verdicts for Gathered {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, verdict) in chunk {
            let place =
                verdicts.get_mut(index).unwrap_or_else(|| panic!("SNK-02: there is no message {index}"));
            assert_eq!(place.replace(verdict), None, "SNK-02: message {index} got a second verdict");
        }
    }
}

struct Permits<F> {
    permit: F,
    asked: Mutex<Vec<bool>>,
}

impl<F: Fn(usize) -> bool + Sync> Permit for Permits<F> {
    fn ask(&self, index: usize) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!std::mem::replace(&mut asked[index], true), "SNK-06: message {index} was asked for twice");
        (self.permit)(index)
    }
}

/// The ids of a key in the order in which a consumer that drops duplicates sees them.
pub(super) fn seen<'a>(stored: &'a [Stored], key: &str) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for message in stored.iter().filter(|message| message.key.as_deref() == Some(key)) {
        if !seen.contains(&&*message.id) {
            seen.push(&*message.id);
        }
    }
    seen
}

/// How often an event is there.
pub(super) fn count(stored: &[Stored], id: &str) -> usize {
    stored.iter().filter(|message| message.id == id).count()
}
