//! The work that levels of an assessment require.

use super::Assessed;
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, BLOCKERS, SUGGESTED_FIX_BYTES};
use crate::record::{Blocker, BlockerCode, Pointer};
use crate::workflow::compiled::AssessmentConsequence;
use crate::workflow::contract::issues::fit;

/// A consequence that applies, with the level that triggered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggeredConsequence {
    pub assessment_id: String,
    pub dimension_id: String,
    pub level: String,
    /// The required work.
    pub guidance: String,
}

/// The consequences that apply, in the author's order, one for each dimension that triggers it.
///
/// At most as many as a report can contain. After a fix, the next attempt shows the rest.
pub fn triggered_consequences(
    consequences: &[AssessmentConsequence],
    assessments: &[Assessed],
) -> Vec<TriggeredConsequence> {
    // The compiler accepts a level in a different case than the dimension's, so compare accordingly.
    let alike = |level: &str| level.trim().to_lowercase();
    let mut triggered = Vec::new();
    for consequence in consequences {
        let level = alike(&consequence.any_equals_level);
        let looks_at = |assessed: &&Assessed| {
            consequence.for_assessment.as_ref().is_none_or(|id| *id == assessed.assessment_id)
        };
        for assessed in assessments.iter().filter(looks_at) {
            for dimension in &assessed.dimensions {
                if triggered.len() < BLOCKERS && alike(&dimension.level) == level {
                    triggered.push(TriggeredConsequence {
                        assessment_id: assessed.assessment_id.clone(),
                        dimension_id: dimension.dimension_id.clone(),
                        level: dimension.level.clone(),
                        guidance: consequence.guidance.clone(),
                    });
                }
            }
        }
    }
    triggered
}

/// The blocker of a consequence that applies.
pub fn followup_blocker(triggered: &TriggeredConsequence) -> Blocker {
    let message = format!(
        "The assessment `{}` rates `{}` as `{}`, which requires more work before the step is accepted.",
        fit(&triggered.assessment_id, 96),
        fit(&triggered.dimension_id, 96),
        fit(&triggered.level, 96)
    );
    let ending = " Then assess again and make the call in `nextCall`.";
    let guidance = fit(&triggered.guidance, SUGGESTED_FIX_BYTES - ending.len());
    Blocker {
        code: BlockerCode::AssessmentFollowupRequired,
        pointer: Pointer::AssessmentDimension {
            assessment_id: triggered.assessment_id.clone(),
            dimension_id: triggered.dimension_id.clone(),
        },
        message: fit(&message, BLOCKER_MESSAGE_BYTES),
        suggested_fix: Some(format!("{guidance}{ending}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AssessedDimension, BlockerReport, Normalization};

    fn assessed(id: &str, levels: &[(&str, &str)]) -> Assessed {
        Assessed {
            assessment_id: id.to_owned(),
            artifact_index: 0,
            summary: None,
            normalization_notes: Vec::new(),
            dimensions: levels
                .iter()
                .map(|&(dimension, level)| AssessedDimension {
                    dimension_id: dimension.to_owned(),
                    level: level.to_owned(),
                    rationale: None,
                    normalization: Normalization::Exact,
                })
                .collect(),
        }
    }

    fn consequence(level: &str, for_assessment: Option<&str>) -> AssessmentConsequence {
        AssessmentConsequence {
            any_equals_level: level.to_owned(),
            for_assessment: for_assessment.map(str::to_owned),
            guidance: format!("Improve what is {level}."),
        }
    }

    #[test]
    fn consequences_apply_on_their_own() {
        let given = [
            assessed("readiness", &[("evidence", "low"), ("scope", "high")]),
            assessed("risk", &[("reach", "low")]),
        ];
        let cases: [(&str, Vec<AssessmentConsequence>, Vec<&str>); 5] = [
            ("in another case", vec![consequence(" Low", Some("risk"))], vec!["risk.reach"]),
            ("none", vec![consequence("medium", None)], vec![]),
            ("all that are low", vec![consequence("low", None)], vec!["readiness.evidence", "risk.reach"]),
            ("of one assessment", vec![consequence("low", Some("risk"))], vec!["risk.reach"]),
            (
                "two of them",
                vec![consequence("high", None), consequence("low", Some("readiness"))],
                vec!["readiness.scope", "readiness.evidence"],
            ),
        ];
        for (name, consequences, expected) in cases {
            let found: Vec<String> = triggered_consequences(&consequences, &given)
                .iter()
                .map(|triggered| format!("{}.{}", triggered.assessment_id, triggered.dimension_id))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_blockers_of_many_consequences_are_a_report() {
        let dimensions: Vec<String> = (0..40).map(|index| format!("{}{index}", "d".repeat(300))).collect();
        let levels: Vec<(&str, &str)> =
            dimensions.iter().map(|dimension| (dimension.as_str(), "low")).collect();
        let mut consequence = consequence("low", None);
        consequence.guidance = "g".repeat(5000);
        let triggered = triggered_consequences(&[consequence], &[assessed("a", &levels)]);
        BlockerReport::new(triggered.iter().map(followup_blocker).collect()).unwrap();
    }
}
