//! Definitions that steps refer to: assessments, named conditions, functions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    model::{
        ConditionDefinition, ConditionTest, FunctionCall, FunctionDefinition, Parameter, ParameterType,
        ScopeName,
    },
    names,
    reader::{MAX_ITEMS, Object, Reader, ValueAt},
};
use crate::workflow::{
    compiled::{Assessment, AssessmentConsequence, Condition, Dimension, OutputContract},
    problem::ProblemCode as Code,
};

pub(super) fn assessment(reader: &mut Reader, found: ValueAt<'_>) -> Assessment {
    let mut o = reader.object(found);
    let assessment = Assessment {
        id: o.need(reader, "id").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default(),
        purpose: o.need_text(reader, "purpose", names::PURPOSE),
        dimensions: match o.need(reader, "dimensions") {
            Some(found) => {
                let items = reader.items(found, 1..=32);
                items.into_iter().map(|found| dimension(reader, found)).collect()
            }
            None => Vec::new(),
        },
    };
    reader.finish(&o);
    assessment
}

fn dimension(reader: &mut Reader, found: ValueAt<'_>) -> Dimension {
    let mut o = reader.object(found);
    let dimension = Dimension {
        id: o.need(reader, "id").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default(),
        purpose: o.need_text(reader, "purpose", names::PURPOSE),
        levels: match o.need(reader, "levels") {
            Some(found) => {
                let items = reader.items(found, 2..=32);
                items.into_iter().map(|found| reader.text(found, 1..=64)).collect()
            }
            None => Vec::new(),
        },
        required: o.flag(reader, "required").unwrap_or(true),
    };
    let folded: Vec<String> = dimension.levels.iter().map(|level| level.trim().to_lowercase()).collect();
    if let Some(twice) = (1..folded.len()).find(|index| folded[..*index].contains(&folded[*index])) {
        let path = crate::workflow::problem::item(&o.path_of("levels"), twice);
        let message = format!("duplicate level {:?}: levels are case-insensitive", folded[twice]);
        reader.report(&path, Code::DuplicateId, message, "Give each level a different name.");
    }
    reader.finish(&o);
    dimension
}

pub(super) fn consequence(reader: &mut Reader, found: ValueAt<'_>) -> AssessmentConsequence {
    let mut o = reader.object(found);
    let (mut any_equals_level, mut for_assessment, mut guidance) = (String::new(), None, String::new());
    if let Some(found) = o.need(reader, "when") {
        let mut when = reader.object(found);
        any_equals_level = when.need_text(reader, "anyEqualsLevel", 1..=64);
        for_assessment = when.text(reader, "forAssessment", 1..=64);
        reader.finish(&when);
    }
    if let Some(found) = o.need(reader, "effect") {
        let mut effect = reader.object(found);
        if let Some(found) = effect.need(reader, "kind") {
            reader.choice(found, &[("require_followup", ())]);
        }
        guidance = effect.need_text(reader, "guidance", names::PURPOSE);
        reader.finish(&effect);
    }
    reader.finish(&o);
    AssessmentConsequence { any_equals_level, for_assessment, guidance }
}

pub(super) fn output_contract(reader: &mut Reader, found: ValueAt<'_>) -> OutputContract {
    let mut o = reader.object(found);
    let contract = OutputContract {
        contract_ref: o.need_text(reader, "contractRef", names::REGISTRY_ID),
        required: o.flag(reader, "required").unwrap_or(true),
    };
    reader.finish(&o);
    contract
}

pub(super) fn condition(reader: &mut Reader, found: ValueAt<'_>) -> ConditionDefinition {
    let mut o = reader.object(found);
    let condition_id =
        o.need(reader, "conditionId").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default();
    let contract_ref = o.text(reader, "contractRef", names::REGISTRY_ID);
    let test = match (o.condition(reader, "condition"), contract_ref) {
        (Some(condition), None) => ConditionTest::Condition(condition),
        (None, Some(contract_ref)) => ConditionTest::ContractRef(contract_ref),
        (condition, _) => {
            let message = "a named condition requires exactly one of `condition` and `contractRef`";
            let fix = "Add a condition on the context, or the contract of a decision artifact.";
            reader.report(o.path(), Code::InvalidCondition, message, fix);
            ConditionTest::Condition(condition.unwrap_or(Condition(Value::Object(serde_json::Map::new()))))
        }
    };
    reader.finish(&o);
    ConditionDefinition { condition_id, test }
}

pub(super) fn functions(reader: &mut Reader, object: &mut Object<'_>) -> Vec<FunctionDefinition> {
    object.list(reader, "functionDefinitions", 0..=MAX_ITEMS, |reader, found| {
        let mut o = reader.object(found);
        let function = FunctionDefinition {
            name: o
                .need(reader, "name")
                .map(|found| reader.name(found, &names::FUNCTION))
                .unwrap_or_default(),
            definition: o.need_text(reader, "definition", names::PROMPT),
            parameters: o.list(reader, "parameters", 0..=32, parameter),
            scope: o.choice(
                reader,
                "scope",
                &[("workflow", ScopeName::Workflow), ("loop", ScopeName::Loop), ("step", ScopeName::Step)],
            ),
        };
        reader.finish(&o);
        function
    })
}

const PARAMETER_TYPES: [(&str, ParameterType); 6] = [
    ("string", ParameterType::String),
    ("number", ParameterType::Number),
    ("boolean", ParameterType::Boolean),
    ("array", ParameterType::Array),
    ("object", ParameterType::Object),
    ("any", ParameterType::Any),
];

fn parameter(reader: &mut Reader, found: ValueAt<'_>) -> Parameter {
    let mut o = reader.object(found);
    let parameter = Parameter {
        name: o.need(reader, "name").map(|found| reader.name(found, &names::FUNCTION)).unwrap_or_default(),
        value_type: o
            .need(reader, "type")
            .and_then(|found| reader.choice(found, &PARAMETER_TYPES))
            .unwrap_or(ParameterType::Any),
        required: o.flag(reader, "required").unwrap_or(false),
        description: o.text(reader, "description", names::PURPOSE),
        choices: o.list(reader, "enum", 1..=64, |_, (value, _)| value.clone()),
        default: o.get("default").map(|(value, _)| value.clone()),
    };
    reader.finish(&o);
    parameter
}

pub(super) fn call(reader: &mut Reader, found: ValueAt<'_>) -> FunctionCall {
    let mut o = reader.object(found);
    let call = FunctionCall {
        name: o.need(reader, "name").map(|found| reader.name(found, &names::FUNCTION)).unwrap_or_default(),
        args: values(reader, &mut o, "args"),
    };
    reader.finish(&o);
    call
}

/// A map of arguments with any values.
pub(super) fn values(
    reader: &mut Reader,
    object: &mut Object<'_>,
    name: &'static str,
) -> BTreeMap<String, Value> {
    let entries = object.entries(reader, name);
    entries.into_iter().map(|(key, (value, _))| (key.to_owned(), value.clone())).collect()
}
