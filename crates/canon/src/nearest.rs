//! What a misspelt name was probably meant to be.

/// How much is compared at the most, in pairs of characters: about a tenth of a second. A guess is not worth
/// more time than the answer it goes with, so later candidates are not looked at.
pub const MAX_COMPARISONS: usize = 40_000_000;

/// The candidates that are most like `name`, best first, at most `count` of them.
///
/// Only what could be a slip is offered: up to a third of the characters may differ. Equally
/// good candidates come in byte order, so that the same mistake gets the same answer.
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
        // Lengths that differ by more cannot be that near.
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
    fn slips_are_found_and_strangers_are_not() {
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
        assert!(nearest(&long, names, 2).is_empty(), "a long name costs nothing");
        assert!(nearest(&long, [long.clone()], 2).is_empty(), "and neither do long candidates");
    }
}
