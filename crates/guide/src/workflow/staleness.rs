//! Whether a workflow was written for the authoring rules of today.

use serde::Serialize;

/// The version of the authoring rules that this program checks and documents. It grows when a rule is added that an author of
/// an earlier workflow should look at.
pub const AUTHORING_RULES: u32 = 3;

/// How likely it is that a workflow is behind the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StalenessLevel {
    None,
    /// The rules changed once since its last review.
    Possible,
    /// The rules changed more than once.
    Likely,
    /// It was reviewed against rules that this program does not have.
    Newer,
}

/// What the stamp `validatedAgainstSpecVersion` of a workflow says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Staleness {
    pub level: StalenessLevel,
    pub reason: String,
    pub spec_version_at_last_review: u32,
}

/// How a stamp compares with the rules of today.
pub fn staleness(stamp: u32) -> Staleness {
    let level = match AUTHORING_RULES.checked_sub(stamp) {
        Some(0) => StalenessLevel::None,
        Some(1) => StalenessLevel::Possible,
        Some(_) => StalenessLevel::Likely,
        None => StalenessLevel::Newer,
    };
    let reason = match level {
        StalenessLevel::None => "It was reviewed against the current authoring rules.".to_owned(),
        StalenessLevel::Possible | StalenessLevel::Likely => format!(
            "It was last reviewed against version {stamp} of the authoring rules; the current version is {AUTHORING_RULES}. \
             Review it, then set `validatedAgainstSpecVersion` to {AUTHORING_RULES}."
        ),
        StalenessLevel::Newer => format!(
            "It was reviewed against version {stamp} of the authoring rules, and this program has version {AUTHORING_RULES}. \
             Use a newer version of the program."
        ),
    };
    Staleness { level, reason, spec_version_at_last_review: stamp }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding G5: a stamp of 1 and one of 99 were both accepted without a word.
    #[test]
    fn a_stamp_is_compared_with_the_rules_of_today() {
        for (stamp, expected) in [
            (AUTHORING_RULES, StalenessLevel::None),
            (AUTHORING_RULES - 1, StalenessLevel::Possible),
            (1, StalenessLevel::Likely),
            (99, StalenessLevel::Newer),
        ] {
            let found = staleness(stamp);
            assert_eq!((found.level, found.spec_version_at_last_review), (expected, stamp), "{stamp}");
            assert!(found.level == StalenessLevel::None || found.reason.contains(&stamp.to_string()));
        }
    }
}
