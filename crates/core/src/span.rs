//! Spans of time as people write them: `200ms`, `5s`, `1m`, `2h`, `7d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A span of time in a configuration or layout file.
///
/// ```
/// use postrider_core::span::TimeSpan;
/// use std::time::Duration;
/// assert_eq!("200ms".parse::<TimeSpan>().unwrap().0, Duration::from_millis(200));
/// assert_eq!(TimeSpan(Duration::from_secs(300)).to_string(), "5m");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeSpan(pub Duration);

/// No span is longer: a hundred years, which every database's time can be moved by.
const SPAN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The units, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Reads a span: a whole number and its unit.
///
/// # Errors
/// A sentence that says what a span looks like.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "\"{}\" is no span of time: write a whole number and a unit, like 200ms, 5s, 1m, 2h or 7d",
            shown(text)
        )
    };
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(wrong)?;
    let span = number.checked_mul(*micros).map(Duration::from_micros).filter(|span| *span <= SPAN_MAX);
    span.ok_or_else(|| format!("\"{}\" is longer than a hundred years", shown(text)))
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map(Self)
    }
}

impl From<Duration> for TimeSpan {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        span.0
    }
}

/// In the largest unit that leaves a whole number.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let whole = UNITS.iter().find(|(_, unit)| micros > 0 && micros.is_multiple_of(u128::from(*unit)));
        match whole {
            Some((name, unit)) => write!(f, "{}{name}", micros / u128::from(*unit)),
            None => f.write_str("0s"),
        }
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = TimeSpan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a span of time like \"200ms\", \"5s\" or \"7d\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TimeSpan, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, micros) in [
            ("7us", 7),
            ("200ms", 200_000),
            ("5s", 5_000_000),
            ("1m", 60_000_000),
            ("2h", 7_200_000_000),
            (" 1 d ", 86_400_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_micros(micros), "{text}");
        }
    }

    /// F5: what is no span is refused with what one looks like.
    #[test]
    fn what_is_no_span_is_refused_with_the_remedy() {
        for text in ["", "5", "s", "1.5s", "-1s", "5 weeks", "99999999999999999999s", "4000000000d"] {
            assert!(
                parse(text).unwrap_err().contains(if text.ends_with('d') { "hundred" } else { "7d" }),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(micros in 0u64..3_000_000_000_000_000) {
            let span = TimeSpan(Duration::from_micros(micros));
            prop_assert_eq!(span.to_string().parse::<TimeSpan>().unwrap(), span);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
