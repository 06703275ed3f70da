//! How often something that costs time may be done, so that it costs a small part of it.

/// What takes less is done whenever it is asked for.
const CHEAP_US: i64 = 1_000;

/// Times by the database's clock, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    ended_us: i64,
    /// What the last one took.
    took_us: i64,
    /// What the one under way has taken.
    spent_us: i64,
}

impl Looks {
    /// For something that is known to be there: a twentieth of the time.
    #[must_use]
    pub fn is_due_soon(&self, now_us: i64) -> bool {
        self.is_due(now_us, 20, 2_000_000)
    }

    /// While there is other work: a fortieth.
    #[must_use]
    pub fn is_due_at_work(&self, now_us: i64) -> bool {
        self.is_due(now_us, 40, 15_000_000)
    }

    /// While there is none: a hundredth, for nobody would understand what an idle relay is busy with. But a row that came to
    /// stand before the mark, late or by a wrong clock, is not left there for long.
    #[must_use]
    pub fn is_due_at_rest(&self, now_us: i64) -> bool {
        self.is_due(now_us, 100, 2_000_000)
    }

    fn is_due(&self, now_us: i64, times: i64, longest_us: i64) -> bool {
        let since = now_us.saturating_sub(self.ended_us);
        // A clock that went backwards makes nobody wait.
        self.took_us <= CHEAP_US || since < 0 || since >= self.took_us.saturating_mul(times).min(longest_us)
    }

    /// The one under way has taken so much more.
    pub fn spend(&mut self, us: i64) {
        self.spent_us = self.spent_us.saturating_add(us.max(0));
    }

    /// The one under way is over.
    pub fn end(&mut self, now_us: i64) {
        (self.took_us, self.ended_us) = (std::mem::take(&mut self.spent_us), now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_done_rarely() {
        let mut looks = Looks::default();
        assert!(looks.is_due_at_rest(0));
        looks.spend(50_000);
        looks.end(50_000);
        assert!(!looks.is_due_soon(1_049_000) && looks.is_due_soon(1_050_000));
        assert!(!looks.is_due_at_work(2_049_000) && looks.is_due_at_work(2_050_000));
        assert!(!looks.is_due_at_rest(2_049_000) && looks.is_due_at_rest(2_050_000));
        looks.spend(5_000);
        looks.end(0);
        assert!(!looks.is_due_at_rest(499_000) && looks.is_due_at_rest(500_000));
        looks.spend(900);
        looks.end(0);
        assert!(looks.is_due_at_rest(901));
    }
}
