//! Loops.

use serde_json::Value;

use super::{
    context_keys, definitions,
    model::{Body, ConditionSource, LoopSpec, LoopStep, LoopTag, LoopType},
    names,
    reader::{Object, Reader, ValueAt},
    steps::{self, Steps},
};
use crate::workflow::{
    compiled::{Condition, Count},
    condition,
    problem::ProblemCode as Code,
};

const LOOP_TYPES: [(&str, LoopType); 4] = [
    ("while", LoopType::While),
    ("until", LoopType::Until),
    ("for", LoopType::For),
    ("forEach", LoopType::ForEach),
];

/// The allowed maximum of iterations.
const ITERATIONS: std::ops::RangeInclusive<u32> = 1..=1000;

pub(super) fn read(reader: &mut Reader, o: &mut Object<'_>, state: &mut Steps) -> LoopStep {
    // The short form has `loopId` and the control next to the body.
    let id = match o.get("loopId") {
        Some(found) if !o.has("id") => reader.name(found, &names::STEP_ID),
        _ => o.need(reader, "id").map(|found| reader.name(found, &names::STEP_ID)).unwrap_or_default(),
    };
    let short = o.has("while") && !o.has("loop");
    let control = if short {
        let condition = o.get("while").map(|found| {
            let path = found.1.clone();
            let condition = reader.condition(found);
            if condition::check(&condition.0).is_ok() && condition::reference(&condition.0).is_none() {
                let message = "`while` must refer to a named condition";
                let fix = "Write {\"kind\": \"condition_ref\", \"conditionId\": \"…\"}, or use `loop`.";
                reader.report(&path, Code::InvalidLoop, message, fix);
            }
            condition
        });
        let mut spec = empty(LoopType::While);
        spec.condition = condition;
        spec.max_iterations = iterations(reader, o);
        spec
    } else {
        o.need(reader, "loop").map_or_else(|| empty(LoopType::While), |found| spec(reader, found))
    };
    LoopStep {
        id,
        step_type: LoopTag::Loop,
        title: o.need_text(reader, "title", names::TITLE),
        control,
        body: body(reader, o, state),
        function_definitions: definitions::functions(reader, o),
        require_confirmation: steps::confirmation(reader, o),
        run_condition: o.condition(reader, "runCondition"),
        requires_context: context_keys::read(reader, o, "requiresContext"),
        notes_optional: o.flag(reader, "notesOptional"),
    }
}

fn empty(loop_type: LoopType) -> LoopSpec {
    LoopSpec {
        loop_type,
        max_iterations: 1,
        condition: None,
        condition_source: None,
        count: None,
        items: None,
        iteration_var: None,
        item_var: None,
        index_var: None,
        parallel: None,
    }
}

fn iterations(reader: &mut Reader, o: &mut Object<'_>) -> u32 {
    o.need(reader, "maxIterations").map_or(1, |found| reader.number(found, ITERATIONS))
}

fn body(reader: &mut Reader, o: &mut Object<'_>, state: &mut Steps) -> Body {
    match o.need(reader, "body") {
        None => Body::Steps(Vec::new()),
        Some((Value::String(id), _)) => Body::Step(id.clone()),
        Some(found) => Body::Steps(steps::read_list(reader, found, state)),
    }
}

fn spec(reader: &mut Reader, found: ValueAt<'_>) -> LoopSpec {
    let mut object = reader.object(found);
    let o = &mut object;
    let loop_type = o.need(reader, "type").and_then(|found| reader.choice(found, &LOOP_TYPES));
    let spec = LoopSpec {
        loop_type: loop_type.unwrap_or(LoopType::While),
        max_iterations: iterations(reader, o),
        condition: o.condition(reader, "condition"),
        condition_source: o.get("conditionSource").map(|found| condition_source(reader, found)),
        count: o.get("count").map(|found| match found.0 {
            Value::String(_) => Count::Key(reader.name(found, &names::VARIABLE)),
            _ => Count::Number(reader.number(found, 0..=1000)),
        }),
        items: variable(reader, o, "items"),
        iteration_var: variable(reader, o, "iterationVar"),
        item_var: variable(reader, o, "itemVar"),
        index_var: variable(reader, o, "indexVar"),
        parallel: o.flag(reader, "parallel"),
    };
    if let Some(loop_type) = loop_type {
        fits(reader, o, loop_type);
    }
    reader.finish(&object);
    spec
}

fn variable(reader: &mut Reader, o: &mut Object<'_>, name: &'static str) -> Option<String> {
    o.get(name).map(|found| reader.name(found, &names::VARIABLE))
}

/// Checks that a loop has the fields that its type needs, and no others.
fn fits(reader: &mut Reader, o: &mut Object<'_>, loop_type: LoopType) {
    let (name, belongs): (&str, &[&str]) = match loop_type {
        LoopType::While => ("while", &["condition", "conditionSource"]),
        LoopType::Until => ("until", &["condition", "conditionSource"]),
        LoopType::For => ("for", &["count"]),
        LoopType::ForEach => ("forEach", &["items", "itemVar", "indexVar", "parallel"]),
    };
    for member in ["condition", "conditionSource", "count", "items", "itemVar", "indexVar", "parallel"] {
        if !belongs.contains(&member) && o.has(member) {
            let message = format!("`{member}` is not allowed in a `{name}` loop");
            let fix = format!("Remove it, or change `type`. Allowed here: `{}`.", belongs.join("`, `"));
            reader.report(&o.path_of(member), Code::InvalidLoop, message, fix);
        }
    }
    let path = o.path().to_owned();
    let missing = match loop_type {
        LoopType::For => (!o.has("count")).then_some("count"),
        LoopType::ForEach => (!o.has("items")).then_some("items"),
        // Without either, a decision step in the body decides; the compiler checks that one exists.
        LoopType::While | LoopType::Until => None,
    };
    if let Some(missing) = missing {
        let message = format!("a `{name}` loop requires `{missing}`");
        reader.report(&path, Code::InvalidLoop, message, format!("Add `{missing}`."));
    }
    if o.has("condition") && o.has("conditionSource") {
        let message = "a loop cannot have both `condition` and `conditionSource`";
        reader.report(&path, Code::InvalidLoop, message, "Keep `conditionSource`.");
    }
}

fn condition_source(reader: &mut Reader, found: ValueAt<'_>) -> ConditionSource {
    let mut o = reader.object(found);
    let kind = o
        .need(reader, "kind")
        .and_then(|found| reader.choice(found, &[("artifact_contract", true), ("context_variable", false)]));
    let source = match kind {
        Some(true) => ConditionSource::ArtifactContract {
            contract_ref: o.need_text(reader, "contractRef", names::REGISTRY_ID),
            loop_id: o.text(reader, "loopId", 1..=64),
        },
        Some(false) => ConditionSource::ContextVariable {
            condition: match o.need(reader, "condition") {
                Some(found) => reader.condition(found),
                None => always(),
            },
        },
        None => return ConditionSource::ContextVariable { condition: always() },
    };
    reader.finish(&o);
    source
}

fn always() -> Condition {
    Condition(Value::Object(serde_json::Map::new()))
}
