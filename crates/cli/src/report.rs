//! What this relay says about itself, for `postrider status`: gathered as it happens, written every few seconds.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::breaker::Circuit;
use postrider_core::clock::Instant;
use postrider_core::report::{Report, Role, Tripped, Trouble};
use postrider_core::store::Store;
use postrider_core::verdict::{Refusal, Silence};
use postrider_core::{Text, limits};
use postrider_relay::{Observer, Step};
use tracing::debug;

use crate::commands::SharedClock;
use crate::config::secret::scrub;
use crate::log::Steps;

/// Time enough for the first claim to say whether this relay is active.
const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_secs(2);
/// A relay that has ended waits no longer than this for its last word.
const LAST_AT_MOST: Duration = Duration::from_secs(1);

/// Looks on and keeps what a report needs.
pub(crate) struct Pulse {
    holder: String,
    clock: SharedClock,
    /// Counted for every message: no lock.
    published: AtomicU64,
    told: Mutex<Told>,
}

struct Told {
    standby: bool,
    reported: bool,
    circuits: BTreeMap<(Text, Option<Text>), (Circuit, Timestamp)>,
    trouble: Option<Trouble>,
    /// The sink that was last away, and what it said.
    away: Option<(Text, Text)>,
    /// Nothing further is read: too much is parked.
    full: bool,
    /// Nothing is left but ids that may still commit.
    waits_for_commits: bool,
    /// Nothing is left but what is in other hands.
    waits_for_others: bool,
    /// When the last report was made, and how much was published by then.
    last: (Instant, u64),
}

impl Pulse {
    pub(crate) fn new(holder: impl Into<String>, clock: &SharedClock) -> Self {
        let told = Told {
            standby: false,
            reported: false,
            circuits: BTreeMap::new(),
            trouble: None,
            away: None,
            full: false,
            waits_for_commits: false,
            waits_for_others: false,
            last: (clock.instant(), 0),
        };
        Self {
            holder: holder.into(),
            clock: clock.clone(),
            published: AtomicU64::new(0),
            told: Mutex::new(told),
        }
    }

    pub(crate) fn stands_by(&self) -> bool {
        self.told().standby
    }

    /// The sink that was last away, and what it said.
    pub(crate) fn away(&self) -> Option<(Text, Text)> {
        self.told().away.as_ref().map(|(sink, reason)| (sink.clone(), shown(reason)))
    }

    /// Whether a circuit is not closed.
    pub(crate) fn leaves_alone(&self) -> bool {
        !self.told().circuits.is_empty()
    }

    /// Whether so much is parked that nothing further is read.
    pub(crate) fn is_full(&self) -> bool {
        self.told().full
    }

    /// Whether nothing is left but ids that may still commit.
    pub(crate) fn waits_for_commits(&self) -> bool {
        self.told().waits_for_commits
    }

    /// Whether nothing is left but what is in other hands.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.told().waits_for_others
    }

    /// Reports for as long as it is polled. A report that fails harms nobody: the next one says it all.
    pub(crate) async fn keep_reporting(&self, store: &dyn Store) -> Infallible {
        self.clock.sleep(FIRST).await;
        loop {
            let role = if self.stands_by() { Role::Standby } else { Role::Active };
            self.write(store, role).await;
            self.clock.sleep(EVERY).await;
        }
    }

    /// Says that it ended in good order, if it ever said that it began.
    pub(crate) async fn say_stopped(&self, store: &dyn Store) {
        if self.told().reported {
            tokio::select! {
                () = self.write(store, Role::Stopped) => {}
                () = self.clock.sleep(LAST_AT_MOST) => {}
            }
        }
    }

    async fn write(&self, store: &dyn Store, role: Role) {
        let report = self.report(role);
        if let Err(error) = store.report(&report).await {
            debug!(%error, "the report is left for the next time");
        }
    }

    fn report(&self, role: Role) -> Report {
        let (now, published) = (self.clock.instant(), self.published.load(Ordering::Relaxed));
        let mut told = self.told();
        told.reported = true;
        let (then, before) = std::mem::replace(&mut told.last, (now, published));
        let seconds = now.since(then).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let per_second = if seconds > 0.0 { (published - before) as f64 / seconds } else { 0.0 };
        let tripped = told.circuits.iter().map(|((sink, topic), (circuit, since))| Tripped {
            sink: sink.clone(),
            topic: topic.clone(),
            circuit: *circuit,
            since: *since,
        });
        Report {
            holder: self.holder.clone(),
            role,
            published,
            per_second,
            circuits: tripped.take(limits::REPORT_CIRCUITS_MAX).collect(),
            full: told.full,
            trouble: told
                .trouble
                .as_ref()
                .map(|trouble| Trouble { reason: shown(&trouble.reason), at: trouble.at }),
        }
    }

    fn trouble(&self, reason: Text) {
        self.told().trouble = Some(Trouble { reason, at: self.clock.now() });
    }

    fn circuit(&self, sink: &str, topic: Option<&str>, circuit: Circuit) {
        let name = (Text::from(sink), topic.map(Text::from));
        let mut told = self.told();
        if circuit == Circuit::Closed {
            told.circuits.remove(&name);
        } else {
            told.circuits.entry(name).or_insert((circuit, self.clock.now())).0 = circuit;
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Pulse {
    fn saw(&self, step: &Step<'_>) {
        match step {
            Step::Published { .. } => drop(self.published.fetch_add(1, Ordering::Relaxed)),
            Step::Standby(standby) => self.told().standby = *standby,
            Step::Circuit { sink, topic, circuit, .. } => self.circuit(sink, *topic, *circuit),
            // Neither was this message's or the broker's doing.
            Step::Refused { refusal: Refusal::Withheld | Refusal::Unknown(Silence::Purged), .. } => {}
            Step::Refused { refusal, to, .. } => {
                let reason = refusal.reason().0;
                if matches!(refusal, Refusal::Busy { .. } | Refusal::Unknown(_)) {
                    self.told().away = Some((to.sink.clone(), Text::from(&*reason)));
                }
                self.trouble(Text::from(&*reason));
            }
            Step::Full(full) => self.told().full = *full,
            Step::WaitsForCommits(waits) => self.told().waits_for_commits = *waits,
            Step::WaitsForOthers(waits) => self.told().waits_for_others = *waits,
            Step::Buried { reason, .. } => self.trouble(Text::from(*reason)),
            Step::SourceAway { error, .. } => self.trouble(Text::from(error.to_string())),
            Step::Claimed { .. }
            | Step::Halted { .. }
            | Step::Overdue { .. }
            | Step::Settled { .. }
            | Step::Fenced { .. }
            | Step::SourceBack => {}
        }
    }
}

/// Logs, and keeps what a report needs.
pub(crate) struct Watched {
    pub(crate) steps: Steps,
    pub(crate) pulse: Arc<Pulse>,
}

impl Observer for Watched {
    fn saw(&self, step: &Step<'_>) {
        self.steps.saw(step);
        self.pulse.saw(step);
    }
}

/// What others may read: no secret, and no more than a refusal may say.
fn shown(reason: &str) -> Text {
    let clean: String = scrub(reason).chars().take(limits::REASON_CHARS_MAX).collect();
    Text::from(clean)
}
