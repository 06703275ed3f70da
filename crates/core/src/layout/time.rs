//! How a column spells a time.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// How a column spells a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeForm {
    /// The database's own time type, or text: RFC 3339, or SQL's `2026-01-02 03:04:05.678` in the layout's zone.
    #[default]
    Text,
    /// Seconds since 1970.
    UnixS,
    /// Milliseconds since 1970.
    UnixMs,
    /// Microseconds since 1970.
    UnixUs,
}

impl TimeForm {
    /// The number that stands for a time; `None` where times are text.
    #[must_use]
    pub fn number(self, time: Timestamp) -> Option<i64> {
        match self {
            Self::Text => None,
            Self::UnixS => Some(time.as_second()),
            Self::UnixMs => Some(time.as_millisecond()),
            Self::UnixUs => Some(time.as_microsecond()),
        }
    }

    /// The time that a number stands for; `None` when it is out of any calendar, or times are text.
    #[must_use]
    pub fn from_number(self, number: i64) -> Option<Timestamp> {
        match self {
            Self::Text => None,
            Self::UnixS => Timestamp::from_second(number).ok(),
            Self::UnixMs => Timestamp::from_millisecond(number).ok(),
            Self::UnixUs => Timestamp::from_microsecond(number).ok(),
        }
    }
}

/// The zone of times that are written without one: `UTC`, an offset such as `+09:00`, or a name such as `Asia/Seoul`, which
/// only a database can tell the meaning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone(Offset, Option<Name>);

impl Default for Zone {
    fn default() -> Self {
        Self(Offset::UTC, None)
    }
}

/// A zone's name; inline, so that a zone is a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name([u8; Name::BYTES_MAX]);

impl Name {
    /// The longest that the world knows has 32.
    const BYTES_MAX: usize = 40;

    /// Letters, digits and `_+-`, in parts with a slash between: nothing else is one, and nothing else reaches a statement.
    fn new(text: &str) -> Option<Self> {
        let is_part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphabetic())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b))
        };
        let is_name = text.contains('/') && text.split('/').all(is_part) && text.len() <= Self::BYTES_MAX;
        let mut name = [0; Self::BYTES_MAX];
        name.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        is_name.then_some(Self(name))
    }

    fn as_str(&self) -> &str {
        let bytes = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Zone {
    /// Reads `UTC`, `Z`, `+09:00` or `Asia/Seoul`.
    ///
    /// # Errors
    /// A sentence that says what a zone looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
            return Ok(Self(Offset::UTC, None));
        }
        let named = || Name::new(text).map(|name| Self(Offset::UTC, Some(name)));
        offset(text).map(|offset| Self(offset, None)).or_else(named).ok_or_else(|| {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
            format!(
                "\"{shown}\" is no zone: write UTC, an offset such as +09:00, or a name such as Asia/Seoul"
            )
        })
    }

    /// The name, where it is one: then only a database can tell what a time without a zone means.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.1.as_ref().map(Name::as_str)
    }

    /// Reads a time as people and databases write it: RFC 3339, or without a zone, then in this one. Where the zone is a name,
    /// a time without a zone is none.
    #[must_use]
    pub fn read(self, text: &str) -> Option<Timestamp> {
        let text = text.trim();
        if let Ok(time) = text.parse::<Timestamp>() {
            return Some(time);
        }
        if self.1.is_some() {
            return None;
        }
        let civil: DateTime = text.parse().ok()?;
        TimeZone::fixed(self.0).to_timestamp(civil).ok()
    }

    /// The moment of a date and time in this zone, given in microseconds since 1970 as if it were UTC.
    #[must_use]
    pub fn moment(self, local_us: i64) -> Option<Timestamp> {
        if self.1.is_some() {
            return None;
        }
        Timestamp::from_microsecond(local_us.checked_sub(self.offset_us())?).ok()
    }

    /// The date and time in this zone at a moment, as [`Self::moment`] reads it.
    #[must_use]
    pub fn local(self, time: Timestamp) -> i64 {
        time.as_microsecond().saturating_add(self.offset_us())
    }

    fn offset_us(self) -> i64 {
        i64::from(self.0.seconds()) * 1_000_000
    }

    /// Writes a time as SQL has it, in this zone, with microseconds; in UTC where the zone is a name.
    #[must_use]
    pub fn write(self, time: Timestamp) -> String {
        let civil = self.0.to_datetime(time);
        format!("{} {}", civil.date(), civil.strftime("%H:%M:%S%.6f"))
    }
}

fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, text.strip_prefix('-')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |part: &str, below: i32| {
        (part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<i32>().ok())?
            .filter(|n| *n < below)
    };
    Offset::from_seconds(sign * (two(hours, 24)? * 3_600 + two(minutes, 60)? * 60)).ok()
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        let seconds = self.0.seconds();
        if seconds == 0 {
            return f.write_str("UTC");
        }
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.unsigned_abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// C1: timestamps without zone are read as configured, UTC by default.
    #[test]
    fn times_without_a_zone_are_read_in_the_layouts() {
        let seoul = Zone::parse("+09:00").unwrap();
        let expected: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        for text in [
            "2026-01-02 12:04:05.678",
            "2026-01-02T12:04:05.678",
            "2026-01-02T03:04:05.678Z",
            "2026-01-02 12:04:05.678+09:00",
        ] {
            assert_eq!(seoul.read(text), Some(expected), "{text}");
        }
        assert_eq!(Zone::default().read("2026-01-02 03:04:05.678"), Some(expected));
        assert_eq!(Zone::default().read("yesterday"), None);
        assert_eq!(seoul.write(expected), "2026-01-02 12:04:05.678000");
    }

    #[test]
    fn zones_are_utc_an_offset_or_a_name() {
        let seoul = Zone::parse("Asia/Seoul").unwrap();
        assert_eq!((seoul.to_string().as_str(), seoul.name()), ("Asia/Seoul", Some("Asia/Seoul")));
        assert_eq!(seoul.read("2026-01-02 12:04:05"), None, "not to be guessed");
        assert!(seoul.read("2026-01-02T12:04:05+09:00").is_some());
        assert_eq!(seoul.moment(0), None);
        assert!(Zone::parse("America/Argentina/ComodRivadavia").is_ok());

        assert_eq!(Zone::parse("utc").unwrap().to_string(), "UTC");
        assert_eq!(Zone::parse("-03:30").unwrap().to_string(), "-03:30");
        let long = format!("A/{}", "b".repeat(60));
        for text in [
            "", "Seoul", "Asia/", "/Seoul", "A/b'c", "A/b c", "A/\0", &long, "+9", "+24:00", "+01:60",
            "+0a:00", "09:00",
        ] {
            assert!(Zone::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(us in -60_000_000_000_000_000i64..200_000_000_000_000_000, minutes in -1_400i32..1_400) {
            let zone = Zone(Offset::from_seconds(minutes * 60).unwrap(), None);
            let time = Timestamp::from_microsecond(us).unwrap();
            prop_assert_eq!(zone.read(&zone.write(time)), Some(time));
            prop_assert_eq!(Zone::parse(&zone.to_string()).unwrap(), zone);
            prop_assert_eq!(zone.moment(zone.local(time)), Some(time));
            prop_assert_eq!(TimeForm::UnixUs.from_number(us), Some(time));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = Zone::default().read(&text);
            let _ = Zone::parse(&text);
        }
    }
}
