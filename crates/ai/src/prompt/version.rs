//! Version order of Semantic Versioning 2.0.0.

use std::cmp::Ordering;

/// Whether a string is a version.
pub(crate) fn is_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let numbers: Vec<&str> = core.split('.').collect();
    let digits = |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let words = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
    };
    text.len() <= 256
        && numbers.len() == 3
        && numbers.iter().all(digits)
        && pre.is_none_or(words)
        && build.is_none_or(words)
}

/// Compares two versions. Invalid versions sort first.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| {
        let rest = text.split('+').next().unwrap_or_default().to_owned();
        match rest.split_once('-') {
            Some((core, pre)) => (core.to_owned(), Some(pre.to_owned())),
            None => (rest, None),
        }
    };
    let ((core_a, pre_a), (core_b, pre_b)) = (parts(a), parts(b));
    let numbers = core_a.split('.').zip(core_b.split('.')).map(|(a, b)| number(a, b));
    let core = numbers.fold(Ordering::Equal, Ordering::then);
    core.then_with(|| match (pre_a, pre_b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => {
            let words = a.split('.').zip(b.split('.')).map(|(a, b)| word(a, b));
            words
                .fold(Ordering::Equal, Ordering::then)
                .then_with(|| a.split('.').count().cmp(&b.split('.').count()))
        }
    })
}

/// Compares numbers of any length.
fn number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn word(a: &str, b: &str) -> Ordering {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number(a), is_number(b)) {
        (true, true) => number(a, b),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_versions() {
        let ordered = [
            "0.0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.2",
            "1.0.0-rc.11",
            "1.0.0",
            "1.0.10",
            "1.2.0",
            "10.0.0",
        ];
        for (place, a) in ordered.iter().enumerate() {
            assert!(is_version(a), "{a}");
            for b in &ordered[place + 1..] {
                assert_eq!(compare(a, b), Ordering::Less, "{a} {b}");
                assert_eq!(compare(b, a), Ordering::Greater, "{a} {b}");
            }
        }
        for text in ["", "1", "1.0", "1.0.x", "1.0.0-", "1.0.0+", "v1.0.0", "1.0.0 "] {
            assert!(!is_version(text), "{text}");
        }
    }
}
