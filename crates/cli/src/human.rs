//! Numbers and times as people read them.

use std::time::Duration;

use jiff::Timestamp;

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 entry`, `2 entries`.
pub(crate) fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{} entries", count(number)) }
}

/// `1 event`, `2 events`.
pub(crate) fn events(number: u64) -> String {
    if number == 1 { "1 event".to_owned() } else { format!("{} events", count(number)) }
}

/// A span in its two largest units: `340ms`, `4.2s`, `3m 5s`, `2d 4h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit} {small}{small_unit}") }
    };
    match seconds {
        0 if span.as_millis() == 0 && !span.is_zero() => format!("{:.1}ms", span.as_secs_f64() * 1e3),
        0 => format!("{}ms", span.as_millis()),
        1..60 if span.subsec_millis() < 50 => format!("{seconds}s"),
        1..60 => format!("{:.1}s", span.as_secs_f64()),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// How long ago a time was; nothing for what lies ahead.
pub(crate) fn age(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(time)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_as_people_read_them() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        for (millis, text) in [
            (0, "0ms"),
            (340, "340ms"),
            (4_210, "4.2s"),
            (20_000, "20s"),
            (60_000, "1m"),
            (185_000, "3m 5s"),
            (187_200_000, "2d 4h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
        assert_eq!(span(Duration::from_micros(250)), "0.2ms");
        assert_eq!((entries(1).as_str(), events(2_000).as_str()), ("1 entry", "2,000 events"));
    }
}
