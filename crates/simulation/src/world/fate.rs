//! What befalls a world, and how it calms down.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use postrider_core::Text;

use super::{After, World, is_poison};
use crate::scenario::Blow;
use crate::sink::{Faults, Outage};
use crate::source::Trouble;

impl World {
    pub(super) fn strike(&mut self, blow: Blow, now: Duration) {
        self.watch.note(format!("{blow:?}"));
        match blow {
            Blow::Kill { relay, back_after } => {
                self.executor.kill(self.lives[relay].task);
                self.later(now + back_after, After::Start(relay));
            }
            Blow::Restart { relay } => {
                self.lives[relay].stop.stop();
                self.lives[relay].restarting = true;
            }
            Blow::Pause { relay, span } => {
                self.executor.pause(self.lives[relay].task, true);
                self.later(now + span, After::Resume(relay));
            }
            Blow::Outage { topic, span } => {
                let any = usize::try_from(self.chance.below(self.scenario.sinks as u64)).unwrap_or(0);
                let sink = topic.map_or(any, |topic| self.sink_of(topic));
                let outage = match topic {
                    Some(topic) => Outage::of_topic(format!("t{topic}")),
                    None => Outage::whole(),
                };
                let outage = if self.chance.probability(0.3) { outage.silently() } else { outage };
                self.brokers[sink].begin_outage(outage.clone());
                self.later(now + span, After::OutageOver(sink, outage));
            }
            Blow::DatabaseOutage { span } => {
                self.set_trouble(true);
                self.later(now + span, After::DatabaseBack);
            }
            Blow::ClockJump { millis } => self.database_clock.jump(SignedDuration::from_millis(millis)),
            Blow::RelayClockJump { relay, millis } => {
                self.lives[relay].clock.jump(SignedDuration::from_millis(millis));
            }
        }
    }

    fn later(&mut self, at: Duration, after: After) {
        self.numbers += 1;
        self.due.insert((at, self.numbers), after);
    }

    /// What was to happen by now happens, and who was asked to restart and has stopped is started again.
    pub(super) fn let_happen(&mut self, now: Duration) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                After::Start(place) => {
                    self.executor.kill(self.lives[place].task);
                    self.lives[place] = self.start(place);
                }
                After::Resume(place) => self.executor.pause(self.lives[place].task, false),
                After::OutageOver(sink, outage) => self.brokers[sink].end_outage(&outage),
                After::DatabaseBack => self.set_trouble(false),
            }
        }
        for place in 0..self.lives.len() {
            if self.lives[place].restarting && !self.executor.alive(self.lives[place].task) {
                self.lives[place] = self.start(place);
            }
        }
    }

    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.let_happen(Duration::MAX);
        self.set_trouble(false);
        self.set_faults(true);
        for broker in &self.brokers {
            broker.set_outage(None);
        }
    }

    fn set_trouble(&self, away: bool) {
        let faults = self.scenario.faults;
        self.outbox.set_trouble(if self.calm {
            Trouble::default()
        } else {
            Trouble {
                away,
                reply_lost: faults.database_reply_lost,
                slow: faults.slow / 4.0,
                slow_most: self.scenario.lease_ttl,
            }
        });
    }

    /// Messages' own faults stay when the rest is calm: they are no faults of the world.
    pub(super) fn set_faults(&mut self, calm: bool) {
        self.set_trouble(false);
        let faults = self.scenario.faults;
        let poison: BTreeSet<Text> = (1..=self.scenario.events + 16)
            .filter(|no| is_poison(&self.scenario, *no))
            .map(|no| format!("e{no}").into())
            .collect();
        let own = Faults {
            latency_max: Duration::from_millis(20),
            transient: self.scenario.transient,
            own_silence: self.scenario.transient / 4.0,
            poison,
            poison_in_company: self.scenario.seed.is_multiple_of(2),
            ..Faults::default()
        };
        let all = Faults {
            slow: faults.slow,
            slow_max: self.scenario.publish_deadline.mul_f64(1.5),
            reply_lost_after_write: faults.reply_lost,
            reply_lost_before_write: faults.reply_lost,
            partition_busy: faults.reply_lost / 2.0,
            ..own.clone()
        };
        for broker in &self.brokers {
            broker.set_faults(if calm { own.clone() } else { all.clone() });
        }
    }
}
