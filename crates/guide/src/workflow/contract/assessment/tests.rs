//! Assessments as callers send them.

use super::*;
use crate::workflow::contract::{ContractVerdict, check};

fn dimension(id: &str, levels: &[&str], required: bool) -> Dimension {
    Dimension {
        id: id.to_owned(),
        purpose: "Whether claims are backed".to_owned(),
        levels: levels.iter().map(|&level| level.to_owned()).collect(),
        required,
    }
}

fn readiness() -> Assessment {
    Assessment {
        id: "readiness".to_owned(),
        purpose: "Is it ready?".to_owned(),
        dimensions: vec![
            dimension("evidence", &["Very High", "low"], true),
            dimension("style", &["good", "bad"], false),
        ],
    }
}

fn risk() -> Assessment {
    Assessment {
        id: "risk".to_owned(),
        purpose: "What could happen?".to_owned(),
        dimensions: vec![dimension("blast-radius", &["wide", "narrow"], true)],
    }
}

#[test]
fn levels_ignore_case_and_spacing() {
    let plain = dimension("d", &["Very High", "low"], true);
    let picky = dimension("d", &["A b", "a-B"], true);
    let cases = [
        (&plain, "Very High", Some(("Very High", Normalization::Exact))),
        (&plain, "  very_HIGH ", Some(("Very High", Normalization::Normalized))),
        (&plain, "very--high", Some(("Very High", Normalization::Normalized))),
        (&plain, "veryhigh", None),
        (&plain, "", None),
        (&picky, "a-B", Some(("a-B", Normalization::Exact))),
        (&picky, "a b", None),
    ];
    for (dimension, level, expected) in cases {
        assert_eq!(normalise(dimension, level), expected, "{level:?}");
    }
}

#[test]
fn an_assessment_is_read_with_its_corrections() {
    let artifact = json!({
        "kind": "wr.assessment",
        "dimensions": {"evidence": {"level": "very high", "rationale": "cited"}, "style": "good"},
        "summary": "fine",
    });
    let [Reading::Given(assessed)] = &read(&[&readiness()], &[json!(1), artifact])[..] else {
        panic!("given")
    };
    assert_eq!(assessed.artifact_index, 1);
    assert_eq!(assessed.summary.as_deref(), Some("fine"));
    assert_eq!(assessed.normalization_notes, [r#"evidence: "very high" was read as "Very High""#]);
    let levels: Vec<&str> = assessed.dimensions.iter().map(|dimension| dimension.level.as_str()).collect();
    assert_eq!(levels, ["Very High", "good"]);
    assert_eq!(assessed.dimensions[0].rationale.as_deref(), Some("cited"));
}

#[test]
fn invalid_assessments_have_issues() {
    let kind = "wr.assessment";
    let cases = [
        (
            json!({"kind": kind}),
            vec![r#"artifacts[0].dimensions.evidence: is missing; its levels are "Very High", "low""#],
        ),
        (
            json!({"kind": kind, "dimensions": []}),
            vec!["artifacts[0].dimensions: must be an object, not a list"],
        ),
        (
            json!({"kind": kind, "dimensions": {"evidence": "so-so"}}),
            vec![r#"artifacts[0].dimensions.evidence: must be one of "Very High", "low", not "so-so""#],
        ),
        (
            json!({"kind": kind, "mood": 1, "dimensions": {"evidence": {"level": "low", "why": 1}, "styles": "good"}}),
            vec![
                "artifacts[0].dimensions.evidence.why: is an unknown field",
                "artifacts[0].dimensions.styles: is not a dimension of `readiness`; did you mean `style`?",
                "artifacts[0].mood: is an unknown field",
            ],
        ),
        (
            json!({"kind": kind, "dimensions": {"evidence": {"level": "low", "rationale": "x".repeat(513)}}}),
            vec!["artifacts[0].dimensions.evidence.rationale: has 513 characters; the limit is 512"],
        ),
        (
            json!({"kind": kind, "assessmentId": "readyness", "dimensions": {"evidence": "low"}}),
            vec![
                r#"artifacts[0].assessmentId: "readyness" is not an assessment of this step; use `readiness`"#,
            ],
        ),
    ];
    for (artifact, expected) in cases {
        let [Reading::Invalid { issues }] = &read(&[&readiness()], std::slice::from_ref(&artifact))[..]
        else {
            panic!("{artifact} is invalid")
        };
        assert_eq!(*issues, expected, "{artifact}");
    }
}

#[test]
fn assessments_are_identified_by_id_or_by_dimensions() {
    let (readiness, risk) = (readiness(), risk());
    let artifacts = [
        json!({"kind": "wr.assessment", "dimensions": {"blast-radius": "wide"}}),
        json!({"kind": "wr.assessment", "assessmentId": "readiness", "dimensions": {"evidence": "low"}}),
    ];
    let readings = read(&[&readiness, &risk], &artifacts);
    let places: Vec<Option<usize>> = readings
        .iter()
        .map(|reading| match reading {
            Reading::Given(assessed) => Some(assessed.artifact_index),
            _ => None,
        })
        .collect();
    assert_eq!(places, [Some(1), Some(0)]);

    let nothing = read(&[&readiness, &risk], &[json!({"kind": "note"})]);
    assert_eq!(nothing[1], Reading::Missing { submitted_kinds: vec!["note".to_owned()] });
    let [_, Reading::Invalid { issues }] =
        &read(&[&readiness, &risk], &[json!({"kind": "wr.assessment"})])[..]
    else {
        panic!("it belongs to neither")
    };
    assert_eq!(*issues, ["artifacts[0].assessmentId: is missing; use one of `readiness`, `risk`"]);
}

#[test]
fn the_blocker_has_an_example_without_a_level() {
    for definition in [readiness(), risk()] {
        let pack = pack_of(&definition);
        assert!(
            matches!(read(&[&definition], std::slice::from_ref(&pack.example))[0], Reading::Invalid { .. }),
            "copying the example chooses no level"
        );
        let mut judged = pack.example.clone();
        for dimension in &definition.dimensions {
            if let Some(level) = judged["dimensions"].get_mut(&dimension.id) {
                *level = json!(dimension.levels[0]);
            }
        }
        assert_eq!(check(&pack, std::slice::from_ref(&judged)), ContractVerdict::Satisfied { index: 0 });
        assert!(matches!(read(&[&definition], &[judged])[0], Reading::Given(_)));
        let fix = missing_blocker(&definition, &[]).suggested_fix.unwrap();
        assert!(fix.contains(&format!(r#""assessmentId":"{}""#, definition.id)), "{fix}");
    }
}
