//! Suggestions for misspelled names.

/// The maximum number of compared character pairs, about a tenth of a second. Further candidates are ignored.
pub const MAX_COMPARISONS: usize = 40_000_000;

/// The candidates most similar to `name`, best first, at most `count`.
///
/// Only likely typos are returned: up to a third of the characters may differ. Equally good candidates are in byte
/// order, so the result is deterministic.
///
/// ```
/// let keys = ["listen", "public_url", "trusted_proxies"];
/// assert_eq!(canon::nearest::nearest("public-url", keys, 1), ["public_url"]);
/// assert!(canon::nearest::nearest("colour", keys, 1).is_empty());
/// ```
pub fn nearest<T: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = T>, count: usize) -> Vec<T> {
    let length = name.chars().count();
    let mut comparisons = 0_usize;
    let mut near: Vec<(usize, T)> = Vec::new();
    for candidate in candidates {
        let text = candidate.as_ref();
        let other_length = text.chars().count();
        let allowed = (length.max(other_length) / 3).max(1);
        // The distance is at least the difference in length.
        if other_length.abs_diff(length) > allowed {
            continue;
        }
        comparisons = comparisons.saturating_add(length.saturating_mul(other_length).max(1));
        if comparisons > MAX_COMPARISONS {
            break;
        }
        let distance = strsim::osa_distance(name, text);
        if distance <= allowed {
            near.push((distance, candidate));
        }
    }
    near.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.as_ref().cmp(other.as_ref())));
    near.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typos_only() {
        let names = ["home", "settings", "projects", "project"];
        let cases: [(&str, &[&str]); 5] = [
            ("hom", &["home"]),
            ("project", &["project", "projects"]),
            ("setitngs", &["settings"]),
            ("unrelated", &[]),
            ("", &[]),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, names, 2), expected, "{name:?}");
        }
        let long = "x".repeat(100_000);
        assert!(nearest(&long, names, 2).is_empty(), "a long name is cheap");
        assert!(nearest(&long, [long.clone()], 2).is_empty(), "and so are long candidates");
    }
}
