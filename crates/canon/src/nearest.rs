//! What a misspelt name was probably meant to be.

/// How many candidates are looked at: a guess is not worth more time than the answer it goes with.
pub const MAX_CANDIDATES: usize = 10_000;

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
    let mut near: Vec<(usize, T)> = candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter_map(|candidate| {
            let text = candidate.as_ref();
            let allowed = (length.max(text.chars().count()) / 3).max(1);
            // Lengths that differ by more cannot be that near, and long texts are dear to compare.
            if text.chars().count().abs_diff(length) > allowed || text.len() > 512 || name.len() > 512 {
                return None;
            }
            let distance = strsim::damerau_levenshtein(name, text);
            (distance <= allowed).then_some((distance, candidate))
        })
        .collect();
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
        assert!(nearest(&"x".repeat(100_000), names, 2).is_empty(), "a long name costs nothing");
    }
}
