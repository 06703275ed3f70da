//! A load as a relay brings it: forty keys and a hot one, each streamed, and sent again from the first without a receipt.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, join_all, select};
use futures_util::stream::FuturesUnordered;
use postrider_core::sink::Sink;
use postrider_core::{Refusal, Verdict};
use postrider_servers::{Record, until};

use crate::letters::{letter, send};
use crate::wait::moment;

const KEYS: usize = 40;
const HOT: &str = "hot-";

/// What has come of it so far.
#[derive(Default)]
pub(crate) struct Progress {
    receipts: AtomicUsize,
    /// Sent, and no answer.
    unknown: AtomicUsize,
    /// The same, of the hot key.
    hot_unknown: AtomicUsize,
    over: AtomicBool,
}

/// How a key is streamed: messages in a call, calls at once, and how long between them.
struct Pace {
    width: usize,
    calls: usize,
    pause_ms: u64,
}

/// Streams all keys until the script is through, and then to their ends; how many events each key has.
pub(crate) async fn run<S: Sink>(
    sink: &S,
    topic: &str,
    deadline: Duration,
    progress: &Progress,
) -> BTreeMap<String, usize> {
    let hot = Pace { width: 10, calls: 200, pause_ms: 10 };
    let mild = Pace { width: 2, calls: 2, pause_ms: 60 };
    let keys = (0..KEYS).map(|key| (format!("k{key}-"), &mild)).chain([(HOT.to_owned(), &hot)]);
    let streams = keys.map(|(key, pace)| async move {
        let count = stream(sink, topic, &key, pace, deadline, progress).await;
        (key, count)
    });
    join_all(streams).await.into_iter().collect()
}

async fn stream<S: Sink>(
    sink: &S,
    topic: &str,
    key: &str,
    pace: &Pace,
    deadline: Duration,
    progress: &Progress,
) -> usize {
    let (mut received, mut next, mut last, mut broken) = (BTreeSet::new(), 0, 0, false);
    let mut calls = FuturesUnordered::new();
    let mut pause = Box::pin(moment(pace.pause_ms));
    loop {
        let over = progress.over.load(Ordering::SeqCst);
        if calls.is_empty() {
            // Everything is answered: the key starts anew at the first without a receipt.
            next = (0..last).find(|number| !received.contains(number)).unwrap_or(last);
            broken = false;
            if over && next == last {
                return last;
            }
        }
        let goes_on = !broken && calls.len() < pace.calls && (!over || next < last);
        let answered = async {
            match calls.next().await {
                Some(answered) => answered,
                None => pending::<(Vec<usize>, Vec<Verdict>)>().await,
            }
        };
        let due = async { if goes_on { pause.as_mut().await } else { pending().await } };
        let answered = match select(pin!(answered), pin!(due)).await {
            Either::Left((answered, _)) => Some(answered),
            Either::Right(_) => None,
        };
        match answered {
            Some((numbers, verdicts)) => {
                for (number, verdict) in numbers.into_iter().zip(verdicts) {
                    progress.count(key, &verdict);
                    if verdict == Verdict::Receipt {
                        received.insert(number);
                    } else {
                        broken = true;
                    }
                }
            }
            None => {
                let numbers = (next..next + pace.width).filter(|number| !received.contains(number)).collect();
                (next, last) = (next + pace.width, last.max(next + pace.width));
                let leads = calls.is_empty();
                calls.push(call(sink, topic, key, numbers, leads, deadline));
                pause = Box::pin(moment(pace.pause_ms));
            }
        }
    }
}

async fn call<S: Sink>(
    sink: &S,
    topic: &str,
    key: &str,
    numbers: Vec<usize>,
    leads: bool,
    deadline: Duration,
) -> (Vec<usize>, Vec<Verdict>) {
    let mut letters: Vec<_> = numbers.iter().map(|number| letter(topic, &format!("{key}{number}"))).collect();
    if let Some(first) = letters.first_mut() {
        first.leads = leads;
    }
    let verdicts = send(sink, &letters, deadline).await;
    (numbers, verdicts)
}

impl Progress {
    fn count(&self, key: &str, verdict: &Verdict) {
        match verdict {
            Verdict::Receipt => self.receipts.fetch_add(1, Ordering::SeqCst),
            Verdict::Refusal(Refusal::Unknown(_)) => {
                self.hot_unknown.fetch_add(usize::from(key == HOT), Ordering::SeqCst);
                self.unknown.fetch_add(1, Ordering::SeqCst)
            }
            Verdict::Refusal(_) => 0,
        };
    }

    /// Waits until it flows.
    pub(crate) fn flows(&self) {
        let wanted = self.receipts.load(Ordering::SeqCst) + 300;
        until("messages flow", || self.receipts.load(Ordering::SeqCst) >= wanted);
    }

    /// Waits until the trouble is felt.
    pub(crate) fn suffers(&self) {
        more_of("a message goes unanswered", &self.unknown);
    }

    /// Waits until it is felt by the hot key, of which many more are on their way then.
    pub(crate) fn hot_key_suffers(&self) {
        more_of("a message of the hot key goes unanswered", &self.hot_unknown);
    }

    /// The script is through.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

fn more_of(what: &str, count: &AtomicUsize) {
    let before = count.load(Ordering::SeqCst);
    until(what, || count.load(Ordering::SeqCst) > before);
}

/// What a consumer sees of it that drops repeats.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) missing: usize,
    pub(crate) overtaken: usize,
    pub(crate) repeats: usize,
}

/// Compares what is in the topic with what was sent.
pub(crate) fn seen(records: &[Record], sent: &BTreeMap<String, usize>) -> Seen {
    let mut seen = Seen::default();
    for (key, count) in sent {
        let (mut known, mut top) = (BTreeSet::new(), None);
        for record in records.iter().filter(|record| record.key_text() == *key) {
            let number: usize = id(record).strip_prefix(&**key).unwrap().parse().unwrap();
            if !known.insert(number) {
                seen.repeats += 1;
                continue;
            }
            seen.overtaken += usize::from(top > Some(number));
            top = top.max(Some(number));
        }
        let all: Range<usize> = 0..*count;
        seen.missing += all.filter(|number| !known.contains(number)).count();
    }
    seen
}

/// An event's id, in whichever form.
pub(crate) fn id(record: &Record) -> String {
    let header = record.header("ce_id");
    if !header.is_empty() {
        return header;
    }
    let value = record.value.clone().unwrap_or_default();
    postrider_core::cloudevents::structured::decode(&value.into()).unwrap().id.to_string()
}
