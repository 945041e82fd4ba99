//! Whether a workflow was reviewed against the current authoring rules.

use serde::Serialize;

/// The version of the authoring rules that this program checks and documents. It is incremented when a rule
/// is added that authors of earlier workflows should review.
pub const AUTHORING_RULES: u32 = 3;

/// How likely it is that a workflow does not follow the current rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StalenessLevel {
    None,
    /// The rules changed once since its last review.
    Possible,
    /// The rules changed more than once.
    Likely,
    /// It was reviewed against rules that are newer than this program.
    Newer,
}

/// The result of comparing a workflow's `validatedAgainstSpecVersion`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Staleness {
    pub level: StalenessLevel,
    pub reason: String,
    pub spec_version_at_last_review: u32,
}

/// Compares a stamp with the current rules.
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
            "It was reviewed against version {stamp} of the authoring rules, but this program has version {AUTHORING_RULES}. \
             Use a newer version of the program."
        ),
    };
    Staleness { level, reason, spec_version_at_last_review: stamp }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding G5: stamps of 1 and 99 were both accepted silently.
    #[test]
    fn stamps_are_compared_with_the_current_rules() {
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
