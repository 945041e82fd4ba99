//! Reads assessments: the structure is strict, the spelling of levels is lenient.
//!
//! A step names the assessments that it requires; the caller sends one `wr.assessment` artifact for each. A
//! level may differ from the author's spelling in case and spacing; it is then normalized and reported. Any
//! other difference is an issue.

mod followup;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use followup::{TriggeredConsequence, followup_blocker, triggered_consequences};

use super::issues::{Issues, clipped, fit, member, type_of};
use super::{blockers, submitted_kinds};
use crate::record::{AssessedDimension, Blocker, Normalization};
use crate::workflow::compiled::{Assessment, ContractPack, Dimension};

pub const CONTRACT_REF: &str = "wr.contracts.assessment";
/// The kind of their artifacts.
pub const ARTIFACT_KIND: &str = "wr.assessment";
/// The maximum length of a rationale, in characters.
pub const RATIONALE_CHARACTERS: usize = 512;
/// The maximum length of a summary, in characters.
pub const SUMMARY_CHARACTERS: usize = 1024;

/// A valid assessment, in the author's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessed {
    pub assessment_id: String,
    /// The index of its artifact in the call.
    pub artifact_index: usize,
    /// The caller's summary.
    pub summary: Option<String>,
    /// What was normalized, one line each.
    pub normalization_notes: Vec<String>,
    /// The levels, in the author's order of dimensions.
    pub dimensions: Vec<AssessedDimension>,
}

/// The result of reading one assessment from the artifacts of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    Given(Assessed),
    /// It was not sent.
    Missing {
        /// The kinds that were sent.
        submitted_kinds: Vec<String>,
    },
    /// It was sent but is invalid.
    Invalid {
        /// One issue for each violation.
        issues: Vec<String>,
    },
}

/// Reads the assessments of a step from the artifacts of one call: one result for each definition, in order.
///
/// An artifact belongs to the assessment in its `assessmentId`. Without one, it belongs to the only
/// assessment of the step, or to the only one that has all of its dimensions. The last artifact of an
/// assessment counts.
pub fn read(definitions: &[&Assessment], artifacts: &[Value]) -> Vec<Reading> {
    let mut given: Vec<Option<(usize, &Map<String, Value>)>> = vec![None; definitions.len()];
    let mut stray = Issues::default();
    let mut strays = false;
    for (index, artifact) in artifacts.iter().enumerate() {
        let Some(members) = artifact.as_object() else { continue };
        if members.get("kind").and_then(Value::as_str) != Some(ARTIFACT_KIND) {
            continue;
        }
        match owner(definitions, members) {
            Ok(owner) => given[owner] = Some((index, members)),
            Err(rule) => {
                strays = true;
                stray.add(&format!("artifacts[{index}].assessmentId"), &rule);
            }
        }
    }
    let stray = stray.finish();
    let readings = definitions.iter().zip(given).map(|(definition, given)| match given {
        Some((index, members)) => read_one(definition, index, members),
        // An artifact that could not be assigned was probably meant for a missing assessment.
        None if strays => Reading::Invalid { issues: stray.clone() },
        None => Reading::Missing { submitted_kinds: submitted_kinds(artifacts) },
    });
    readings.collect()
}

/// The author's spelling of a level; `None` if the dimension does not have it.
///
/// Case and word separators are ignored: `Very High`, `very-high` and `VERY_HIGH` are the same level. If an
/// author's levels differ only in that, the exact spelling is required.
pub fn normalise<'a>(dimension: &'a Dimension, level: &str) -> Option<(&'a str, Normalization)> {
    if let Some(exact) = dimension.levels.iter().find(|known| *known == level) {
        return Some((exact, Normalization::Exact));
    }
    // No level is longer, and normalizing a long string is expensive.
    if level.len() > 1024 {
        return None;
    }
    let folded = folded(level);
    let mut alike = dimension.levels.iter().filter(|known| self::folded(known) == folded);
    match (alike.next(), alike.next()) {
        (Some(only), None) => Some((only, Normalization::Normalized)),
        _ => None,
    }
}

pub fn missing_blocker(definition: &Assessment, submitted: &[String]) -> Blocker {
    blockers::missing_blocker(&pack_of(definition), submitted)
}

pub fn invalid_blocker(definition: &Assessment, issues: &[String]) -> Blocker {
    blockers::invalid_blocker(&pack_of(definition), issues)
}

/// The placeholder of a level in an example: it lists all levels, so that copying it decides nothing.
pub fn level_placeholder(dimension: &Dimension) -> String {
    format!("<{}>", dimension.levels.join(" | "))
}

/// The contract of one assessment: the general contract, restricted to its dimensions and levels, with a
/// matching example.
pub fn pack_of(definition: &Assessment) -> ContractPack {
    let mut properties = Map::new();
    let mut given = Map::new();
    for dimension in &definition.dimensions {
        let level = json!({"enum": dimension.levels});
        let explained = json!({
            "type": "object",
            "properties": {
                "level": level,
                "rationale": {"type": "string", "minLength": 1, "maxLength": RATIONALE_CHARACTERS},
            },
            "required": ["level"],
            "additionalProperties": false,
        });
        properties.insert(dimension.id.clone(), json!({"anyOf": [level, explained]}));
        if dimension.required {
            given.insert(dimension.id.clone(), json!(level_placeholder(dimension)));
        }
    }
    let required: Vec<&String> = given.keys().collect();
    let dimensions = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let guidance = definition.dimensions.iter().map(|dimension| {
        let optional = if dimension.required { "" } else { " (optional)" };
        let levels = dimension.levels.join(" | ");
        fit(&format!("`{}`{optional}: {levels}. {}", dimension.id, dimension.purpose), 512)
    });
    ContractPack {
        contract_ref: CONTRACT_REF.to_owned(),
        artifact_kind: ARTIFACT_KIND.to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "kind": {"const": ARTIFACT_KIND},
                "assessmentId": {"const": definition.id},
                "dimensions": dimensions,
                "summary": {"type": "string", "minLength": 1, "maxLength": SUMMARY_CHARACTERS},
            },
            "required": ["kind", "dimensions"],
            "additionalProperties": false,
        }),
        example: json!({"kind": ARTIFACT_KIND, "assessmentId": definition.id, "dimensions": given}),
        guidance: guidance.collect(),
    }
}

/// The index of the definition that an artifact belongs to.
fn owner(definitions: &[&Assessment], members: &Map<String, Value>) -> Result<usize, String> {
    let ids = || {
        let ids: Vec<String> =
            definitions.iter().map(|definition| format!("`{}`", fit(&definition.id, 64))).collect();
        ids.join(", ")
    };
    match members.get("assessmentId") {
        Some(Value::String(id)) => definitions
            .iter()
            .position(|definition| definition.id == *id)
            .ok_or_else(|| format!("{:?} is not an assessment of this step; use {}", clipped(id, 64), ids())),
        Some(other) => Err(format!("must be a string, not {}", type_of(other))),
        None if definitions.len() == 1 => Ok(0),
        None => {
            let given = members.get("dimensions").and_then(Value::as_object);
            let knows_all = |definition: &Assessment| {
                given.is_some_and(|given| {
                    !given.is_empty()
                        && given.len() <= definition.dimensions.len()
                        && given.keys().all(|id| definition.dimensions.iter().any(|known| known.id == *id))
                })
            };
            let mut knowing = (0..definitions.len()).filter(|&index| knows_all(definitions[index]));
            match (knowing.next(), knowing.next()) {
                (Some(only), None) => Ok(only),
                _ => Err(format!("is missing; use one of {}", ids())),
            }
        }
    }
}

fn read_one(definition: &Assessment, index: usize, members: &Map<String, Value>) -> Reading {
    let mut issues = Issues::default();
    let path = format!("artifacts[{index}]");
    for name in members.keys() {
        if !matches!(name.as_str(), "kind" | "assessmentId" | "dimensions" | "summary") {
            issues.add(&format!("{path}{}", member(name)), "is an unknown field");
        }
    }
    let summary = text(&mut issues, &format!("{path}.summary"), members.get("summary"), SUMMARY_CHARACTERS);
    let path = format!("{path}.dimensions");
    let none = Map::new();
    let given = match members.get("dimensions") {
        Some(Value::Object(given)) => given,
        Some(other) => {
            issues.add(&path, &format!("must be an object, not {}", type_of(other)));
            return Reading::Invalid { issues: issues.finish() };
        }
        None => &none,
    };
    for name in given.keys().filter(|name| !definition.dimensions.iter().any(|known| known.id == **name)) {
        let ids = definition.dimensions.iter().map(|known| known.id.as_str());
        let hint = match canon::nearest::nearest(name, ids, 1).first() {
            Some(near) => format!("; did you mean `{}`?", fit(near, 64)),
            None => String::new(),
        };
        issues.add(
            &format!("{path}{}", member(name)),
            &format!("is not a dimension of `{}`{hint}", fit(&definition.id, 64)),
        );
    }
    let mut notes = Vec::new();
    let mut dimensions = Vec::new();
    for dimension in &definition.dimensions {
        let path = format!("{path}{}", member(&dimension.id));
        match given.get(&dimension.id) {
            None if dimension.required => {
                issues.add(&path, &format!("is missing; its levels are {}", levels(dimension)));
            }
            None => {}
            Some(value) => dimensions.extend(level(&mut issues, &mut notes, &path, dimension, value)),
        }
    }
    let issues = issues.finish();
    if !issues.is_empty() {
        return Reading::Invalid { issues };
    }
    Reading::Given(Assessed {
        assessment_id: definition.id.clone(),
        artifact_index: index,
        summary,
        normalization_notes: notes,
        dimensions,
    })
}

/// A level: a string, or an object with the level and a rationale.
fn level(
    issues: &mut Issues,
    notes: &mut Vec<String>,
    path: &str,
    dimension: &Dimension,
    value: &Value,
) -> Option<AssessedDimension> {
    let (spelled, rationale) = match value {
        Value::String(level) => (level, None),
        Value::Object(members) => {
            for name in members.keys().filter(|name| !matches!(name.as_str(), "level" | "rationale")) {
                issues.add(&format!("{path}{}", member(name)), "is an unknown field");
            }
            let rationale = members.get("rationale");
            let rationale = text(issues, &format!("{path}.rationale"), rationale, RATIONALE_CHARACTERS);
            let Some(Value::String(level)) = members.get("level") else {
                issues.add(&format!("{path}.level"), &format!("must be one of {}", levels(dimension)));
                return None;
            };
            (level, rationale)
        }
        other => {
            issues.add(path, &format!("must be a string or an object, not {}", type_of(other)));
            return None;
        }
    };
    let Some((level, normalization)) = normalise(dimension, spelled) else {
        issues.add(path, &format!("must be one of {}, not {:?}", levels(dimension), clipped(spelled, 64)));
        return None;
    };
    if normalization == Normalization::Normalized {
        notes.push(fit(&format!("{}: {spelled:?} was read as {level:?}", dimension.id), 512));
    }
    Some(AssessedDimension {
        dimension_id: dimension.id.clone(),
        level: level.to_owned(),
        rationale,
        normalization,
    })
}

/// An optional string of limited length.
fn text(issues: &mut Issues, path: &str, value: Option<&Value>, characters: usize) -> Option<String> {
    match value? {
        Value::String(text) => {
            let has = text.chars().count();
            if has > characters {
                issues.add(path, &format!("has {has} characters; the limit is {characters}"));
            }
            Some(text.clone())
        }
        other => {
            issues.add(path, &format!("must be a string, not {}", type_of(other)));
            None
        }
    }
}

fn levels(dimension: &Dimension) -> String {
    let levels: Vec<String> =
        dimension.levels.iter().take(12).map(|level| format!("{:?}", clipped(level, 64))).collect();
    levels.join(", ")
}

fn folded(level: &str) -> String {
    let apart = |character: char| character.is_whitespace() || matches!(character, '_' | '-');
    let words: Vec<String> =
        level.split(apart).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.join(" ")
}
