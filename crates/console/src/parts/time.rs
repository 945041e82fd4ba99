//! Relative times with the exact timestamp as title.

use canon::time::Timestamp;
use maud::{Markup, html};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A time relative to now. The script keeps it up to date.
pub(crate) fn time(moment: Timestamp, now: Timestamp) -> Markup {
    let exact = moment.to_rfc3339();
    html! { time datetime=(exact) title=(exact) { (relative(moment, now)) } }
}

fn relative(moment: Timestamp, now: Timestamp) -> String {
    if moment > now {
        let until = moment.since(now);
        return if until < SECOND { "now".to_owned() } else { format!("in {}", rough(until)) };
    }
    let since = now.since(moment);
    if since < SECOND { "now".to_owned() } else { format!("{} ago", rough(since)) }
}

fn rough(milliseconds: u64) -> String {
    match milliseconds {
        0..MINUTE => format!("{} s", milliseconds / SECOND),
        MINUTE..HOUR => format!("{} min", milliseconds / MINUTE),
        HOUR..DAY => format!("{} h", milliseconds / HOUR),
        _ => format!("{} d", milliseconds / DAY),
    }
}

/// A duration in words.
pub(crate) fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..SECOND => format!("{milliseconds} ms"),
        SECOND..MINUTE => format!("{}.{} s", milliseconds / SECOND, milliseconds % SECOND / 100),
        MINUTE..HOUR => format!("{} min {} s", milliseconds / MINUTE, milliseconds % MINUTE / SECOND),
        HOUR..DAY => format!("{} h {} min", milliseconds / HOUR, milliseconds % HOUR / MINUTE),
        _ => format!("{} d {} h", milliseconds / DAY, milliseconds % DAY / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times() {
        let now = Timestamp(10 * DAY);
        let cases = [
            (now, "now"),
            (Timestamp(now.0 - 59 * SECOND), "59 s ago"),
            (Timestamp(now.0 - 61 * SECOND), "1 min ago"),
            (Timestamp(now.0 - 5 * HOUR), "5 h ago"),
            (Timestamp(now.0 - 3 * DAY), "3 d ago"),
            (Timestamp(now.0 + 90 * MINUTE), "in 1 h"),
        ];
        for (moment, words) in cases {
            assert_eq!(relative(moment, now), words);
        }
    }

    #[test]
    fn durations() {
        let cases = [
            (12, "12 ms"),
            (1250, "1.2 s"),
            (61_000, "1 min 1 s"),
            (90 * MINUTE, "1 h 30 min"),
            (26 * HOUR, "1 d 2 h"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(duration(milliseconds), text);
        }
    }
}
