//! Every kind of problem, and where it is reported.

use std::collections::BTreeSet;

use guide::workflow::{
    compile::{self, Bindings, Registries},
    ids::SourceOrigin,
    problem::{Problem, ProblemCode as Code},
    registry::{Feature, FeatureItem},
    source::{self, Format},
};
use serde_json::{Value, json};

use super::{shown, step, with, workflow};

fn validate(value: &Value) -> Vec<Problem> {
    let text = value.to_string();
    compile::validate(text.as_bytes(), Format::Json, SourceOrigin::User, &Bindings::default()).problems
}

fn steps(more: Value) -> Value {
    workflow(json!([with(step("one"), more)]))
}

fn blocks(blocks: Value) -> Value {
    workflow(json!([{"id": "one", "title": "t", "promptBlocks": blocks}]))
}

fn looped(control: Value, body: Value) -> Value {
    workflow(json!([{"id": "again", "type": "loop", "title": "t", "loop": control, "body": body}]))
}

fn call(template: &str, args: Value) -> Value {
    workflow(json!([{"id": "one", "title": "t", "templateCall": {"templateId": template, "args": args}}]))
}

fn nested_loops(depth: usize) -> Value {
    (0..depth).fold(step("one"), |inner, level| {
        json!({"id": format!("loop{level}"), "type": "loop", "title": "t", "body": [inner],
            "loop": {"type": "for", "count": 2, "maxIterations": 2}})
    })
}

/// A name, the workflow, and the code and path of each expected problem.
type Case = (&'static str, Value, Vec<(Code, &'static str)>);

fn cases() -> Vec<Case> {
    let assessment = json!({"id": "ready", "purpose": "p", "dimensions":
        [{"id": "d", "purpose": "p", "levels": ["high", "low"]}]});
    let consequence = |level: &str, scope: Option<&str>| {
        let mut when = json!({"anyEqualsLevel": level});
        if let Some(scope) = scope {
            when["forAssessment"] = scope.into();
        }
        json!({"when": when, "effect": {"kind": "require_followup", "guidance": "g"}})
    };
    let assessed = |more: Value| with(steps(more), json!({"assessments": [assessment.clone()]}));
    let function = json!({"name": "cite", "definition": "d", "parameters":
        [{"name": "depth", "type": "number", "required": true}, {"name": "style", "type": "string", "enum": ["a"]}]});
    let calling = |calls: Value| {
        with(steps(json!({"functionCalls": calls})), json!({"functionDefinitions": [function.clone()]}))
    };
    let forever = json!({"type": "for", "count": 2, "maxIterations": 2});
    let slot = json!({"slotId": "who", "purpose": "p", "default": "wr.someone"});
    vec![
        ("not an object", json!([]), vec![(Code::WrongType, "")]),
        (
            "an empty object",
            json!({}),
            ["description", "id", "name", "steps", "version"].map(|name| (Code::MissingMember, name)).into(),
        ),
        (
            "a typo is one problem",
            with(workflow(json!([{"id": "one", "titel": "t", "prompt": "p"}])), json!({})),
            vec![(Code::UnknownMember, "steps[0].titel")],
        ),
        (
            "an unknown field",
            with(workflow(json!([step("one")])), json!({"wholly": 1})),
            vec![(Code::UnknownMember, "wholly")],
        ),
        ("null", steps(json!({"agentRole": null})), vec![(Code::WrongType, "steps[0].agentRole")]),
        (
            "a short role",
            steps(json!({"agentRole": "Be nice"})),
            vec![(Code::LengthOutOfRange, "steps[0].agentRole")],
        ),
        (
            "empty evidence, and invalid command names",
            workflow(json!([
                with(step("one"), json!({"evidence": {}})),
                with(
                    step("two"),
                    json!({"evidence": {"commands": ["cargo test", "lint", "lint"], "citation": true}})
                ),
            ])),
            vec![
                (Code::MissingMember, "steps[0].evidence"),
                (Code::UnknownMember, "steps[1].evidence.citation"),
                (Code::InvalidName, "steps[1].evidence.commands[0]"),
                (Code::DuplicateId, "steps[1].evidence.commands[2]"),
            ],
        ),
        (
            "a choice without its kind",
            steps(json!({"userDependencies": [{"id": "a", "reason": "needs_user_choice", "what": "w"}]})),
            vec![(Code::MissingMember, "steps[0].userDependencies[0].choiceKind")],
        ),
        (
            "a kind of choice without a choice",
            steps(json!({"userDependencies": [
                {"id": "a", "reason": "needs_user_approval", "what": "w", "choiceKind": "scope_boundary"}]})),
            vec![(Code::UnknownMember, "steps[0].userDependencies[0].choiceKind")],
        ),
        (
            "an unknown dependency, and an empty one",
            steps(json!({"userDependencies": [{"id": "a", "reason": "needs_user", "what": "w"}, {}]})),
            vec![
                (Code::UnknownValue, "steps[0].userDependencies[0].reason"),
                (Code::MissingMember, "steps[0].userDependencies[1].id"),
                (Code::MissingMember, "steps[0].userDependencies[1].reason"),
                (Code::MissingMember, "steps[0].userDependencies[1].what"),
            ],
        ),
        (
            "an unknown kind of choice",
            steps(json!({"userDependencies": [
                {"id": "a", "reason": "needs_user_choice", "what": "w", "choiceKind": "whim"}]})),
            vec![(Code::UnknownValue, "steps[0].userDependencies[0].choiceKind")],
        ),
        (
            "a duplicate and a reserved dependency id",
            steps(json!({"userDependencies": [
                {"id": "a", "reason": "needs_user_artifact", "what": "w"},
                {"id": "a", "reason": "needs_user_artifact", "what": "w"},
                {"id": "confirmation", "reason": "needs_user_approval", "what": "w"}]})),
            vec![
                (Code::DuplicateId, "steps[0].userDependencies[1].id"),
                (Code::DuplicateId, "steps[0].userDependencies[2].id"),
            ],
        ),
        (
            "a dependency with an unknown condition",
            steps(json!({"userDependencies": [{"id": "a", "reason": "needs_user_artifact", "what": "w",
                "condition": {"kind": "condition_ref", "conditionId": "unknown"}}]})),
            vec![(Code::UnknownCondition, "steps[0].userDependencies[0].condition")],
        ),
        (
            "too many dependencies",
            steps(json!({"userDependencies": (0..9).map(|number| json!(
                {"id": format!("a{number}"), "reason": "needs_user_artifact", "what": "w"})).collect::<Vec<_>>()})),
            vec![(Code::LengthOutOfRange, "steps[0].userDependencies")],
        ),
        (
            "a reserved token in a dependency",
            steps(
                json!({"userDependencies": [{"id": "a", "reason": "needs_user_artifact", "what": "{{wr.secret}}"}]}),
            ),
            vec![(Code::ReservedToken, "steps[0].userDependencies")],
        ),
        (
            "a dependency next to a template call",
            workflow(
                json!([{"id": "one", "title": "t", "templateCall": {"templateId": "wr.templates.routine.ideation"},
                "userDependencies": [{"id": "a", "reason": "needs_user_artifact", "what": "w"}]}]),
            ),
            vec![(Code::InvalidTemplateCall, "steps[0].userDependencies")],
        ),
        ("no steps", workflow(json!([])), vec![(Code::LengthOutOfRange, "steps")]),
        (
            "a long prompt",
            steps(json!({"prompt": "x".repeat(8193)})),
            vec![(Code::LengthOutOfRange, "steps[0].prompt")],
        ),
        ("a blank prompt", steps(json!({"prompt": "  "})), vec![(Code::EmptyPrompt, "steps[0].prompt")]),
        (
            "blank blocks",
            blocks(json!({"goal": " ", "verify": []})),
            vec![(Code::EmptyPrompt, "steps[0].promptBlocks")],
        ),
        ("no prompt", workflow(json!([{"id": "one", "title": "t"}])), vec![(Code::PromptChoice, "steps[0]")]),
        (
            "two prompts",
            steps(json!({"promptBlocks": {"goal": "g"}})),
            vec![(Code::PromptChoice, "steps[0]")],
        ),
        ("an id with a slash", workflow(json!([step("a/b")])), vec![(Code::InvalidName, "steps[0].id")]),
        (
            "a workflow id",
            with(workflow(json!([step("one")])), json!({"id": "a.b.c"})),
            vec![(Code::InvalidName, "id")],
        ),
        (
            "a reserved id",
            with(workflow(json!([step("one")])), json!({"id": "wr.mine"})),
            vec![(Code::ReservedId, "id")],
        ),
        (
            "a version",
            with(workflow(json!([step("one")])), json!({"version": "1.0"})),
            vec![(Code::InvalidVersion, "version")],
        ),
        (
            "an unknown tier",
            steps(json!({"modelTier": "huge"})),
            vec![(Code::UnknownValue, "steps[0].modelTier")],
        ),
        (
            "an unknown type",
            workflow(json!([with(step("one"), json!({"type": "lop"}))])),
            vec![(Code::UnknownValue, "steps[0].type")],
        ),
        (
            "an inexact number",
            calling(json!([{"name": "cite", "args": {"depth": 9_007_199_254_740_994_u64}}])),
            vec![(Code::NumberOutOfRange, "steps[0].functionCalls[0].args.depth")],
        ),
        (
            "too many iterations",
            looped(json!({"type": "for", "count": 1, "maxIterations": 1001}), json!([step("one")])),
            vec![(Code::NumberOutOfRange, "steps[0].loop.maxIterations")],
        ),
        (
            "the same id twice",
            workflow(json!([step("one"), step("one")])),
            vec![(Code::DuplicateId, "steps[1].id")],
        ),
        (
            "a generated id that is already used",
            workflow(json!([with(step("one"), json!({"audit": {}})), step("one__audit")])),
            vec![(Code::DuplicateId, "steps[1].id")],
        ),
        (
            "an assessment twice",
            with(workflow(json!([step("one")])), json!({"assessments": [assessment, assessment]})),
            vec![(Code::DuplicateId, "assessments[1]")],
        ),
        (
            "a fragment twice",
            steps(json!({"promptFragments": [{"id": "a", "text": "t"}, {"id": "a", "text": "t"}]})),
            vec![(Code::DuplicateId, "steps[0].promptFragments[1].id")],
        ),
        (
            "a condition",
            steps(json!({"runCondition": {"var": "a", "eq": 1}})),
            vec![(Code::InvalidCondition, "steps[0].runCondition")],
        ),
        (
            "a deep condition",
            steps(json!({"runCondition": {"and": [{"not": {"var": ""}}]}})),
            vec![(Code::InvalidCondition, "steps[0].runCondition.and[0].not.var")],
        ),
        (
            "criteria",
            steps(json!({"validationCriteria": [{"type": "regex", "pattern": "(", "message": "m"}]})),
            vec![(Code::InvalidCriteria, "steps[0].validationCriteria[0].pattern")],
        ),
        (
            "a named condition",
            steps(json!({"runCondition": {"kind": "condition_ref", "conditionId": "x"}})),
            vec![(Code::UnknownCondition, "steps[0].runCondition")],
        ),
        (
            "a contract",
            steps(json!({"outputContract": {"contractRef": "wr.contracts.loop_controls"}})),
            vec![(Code::UnknownContract, "steps[0].outputContract.contractRef")],
        ),
        (
            "a feature",
            with(workflow(json!([step("one")])), json!({"features": ["wr.features.x"]})),
            vec![(Code::UnknownFeature, "features[0]")],
        ),
        (
            "a ref",
            blocks(json!({"constraints": [[{"kind": "ref", "refId": "wr.refs.x"}]]})),
            vec![(Code::UnknownRef, "steps[0].promptBlocks")],
        ),
        (
            "a ref in the output",
            blocks(
                json!({"goal": "g", "outputRequired": {"a": [{"kind": "ref", "refId": "wr.refs.memory_usage"}]}}),
            ),
            vec![(Code::MisplacedRef, "steps[0].promptBlocks.outputRequired.a")],
        ),
        (
            "a template",
            call("wr.templates.routine.idea", json!({})),
            vec![(Code::UnknownTemplate, "steps[0].templateCall")],
        ),
        (
            "a missing argument",
            call("wr.templates.capability_probe", json!({})),
            vec![(Code::InvalidTemplateCall, "steps[0].templateCall")],
        ),
        (
            "an argument too many",
            call("wr.templates.capability_probe", json!({"capability": "x", "other": 1})),
            vec![(Code::InvalidTemplateCall, "steps[0].templateCall")],
        ),
        (
            "an argument that is a list",
            call("wr.templates.capability_probe", json!({"capability": []})),
            vec![(Code::InvalidTemplateCall, "steps[0].templateCall")],
        ),
        (
            "a slot",
            steps(json!({"prompt": "Ask {{wr.bindings.x}}."})),
            vec![(Code::UnknownSlot, "steps[0].prompt")],
        ),
        (
            "a slot without purpose",
            with(
                workflow(json!([step("one")])),
                json!({"extensionPoints": [{"slotId": "Who", "default": "x"}]}),
            ),
            vec![
                (Code::MissingMember, "extensionPoints[0].purpose"),
                (Code::InvalidName, "extensionPoints[0].slotId"),
            ],
        ),
        (
            "a slot twice",
            with(workflow(json!([step("one")])), json!({"extensionPoints": [slot, slot]})),
            vec![(Code::DuplicateId, "extensionPoints[1]")],
        ),
        (
            "a reserved token",
            steps(json!({"prompt": "Use {{ wr.refs.x }}."})),
            vec![(Code::ReservedToken, "steps[0].prompt")],
        ),
        (
            "a reserved token in a fragment",
            steps(json!({"promptFragments": [{"id": "a", "text": "{{wr.bindings.x}}"}]})),
            vec![(Code::ReservedToken, "steps[0].promptFragments")],
        ),
        (
            "an assessment",
            assessed(json!({"assessmentRefs": ["redy"]})),
            vec![(Code::UnknownAssessment, "steps[0].assessmentRefs[0]")],
        ),
        (
            "one level",
            with(
                workflow(json!([step("one")])),
                json!({"assessments": [{"id": "a", "purpose": "p", "dimensions": [{"id": "d", "purpose": "p", "levels": ["x"]}]}]}),
            ),
            vec![(Code::LengthOutOfRange, "assessments[0].dimensions[0].levels")],
        ),
        (
            "a level",
            assessed(
                json!({"assessmentRefs": ["ready"], "assessmentConsequences": [consequence("lowest", None)]}),
            ),
            vec![(Code::UnknownLevel, "steps[0].assessmentConsequences[0].when.anyEqualsLevel")],
        ),
        (
            "a consequence without an assessment",
            assessed(json!({"assessmentConsequences": [consequence("low", None)]})),
            vec![(Code::InvalidConsequence, "steps[0].assessmentConsequences[0]")],
        ),
        (
            "a consequence twice",
            assessed(
                json!({"assessmentRefs": ["ready"], "assessmentConsequences": [consequence("low", None), consequence(" Low", None)]}),
            ),
            vec![(Code::InvalidConsequence, "steps[0].assessmentConsequences[1]")],
        ),
        (
            "a consequence of another",
            assessed(
                json!({"assessmentRefs": ["ready"], "assessmentConsequences": [consequence("low", Some("other"))]}),
            ),
            vec![(Code::UnknownAssessment, "steps[0].assessmentConsequences[0].when.forAssessment")],
        ),
        (
            "an effect",
            assessed(
                json!({"assessmentRefs": ["ready"], "assessmentConsequences": [{"when": {"anyEqualsLevel": "low"}, "effect": {"kind": "stop", "guidance": "g"}}]}),
            ),
            vec![(Code::UnknownValue, "steps[0].assessmentConsequences[0].effect.kind")],
        ),
        (
            "a function",
            steps(json!({"functionReferences": ["cite()"]})),
            vec![(Code::UnknownFunction, "steps[0].functionReferences[0]")],
        ),
        (
            "a function of another step",
            workflow(json!([
                with(step("one"), json!({"functionDefinitions": [function]})),
                with(step("two"), json!({"functionReferences": ["cite()"]}))
            ])),
            vec![(Code::UnknownFunction, "steps[1].functionReferences[0]")],
        ),
        (
            "a call without its argument",
            calling(json!([{"name": "cite"}])),
            vec![(Code::InvalidFunctionCall, "steps[0].functionCalls[0]")],
        ),
        (
            "a call of another type",
            calling(json!([{"name": "cite", "args": {"depth": "2"}}])),
            vec![(Code::InvalidFunctionCall, "steps[0].functionCalls[0]")],
        ),
        (
            "a call with another choice",
            calling(json!([{"name": "cite", "args": {"depth": 2, "style": "b"}}])),
            vec![(Code::InvalidFunctionCall, "steps[0].functionCalls[0]")],
        ),
        (
            "a loop without control",
            looped(json!({"type": "while", "maxIterations": 2}), json!([step("one")])),
            vec![(Code::InvalidLoop, "steps[0].loop")],
        ),
        (
            "a loop without a count",
            looped(json!({"type": "for", "maxIterations": 2}), json!([step("one")])),
            vec![(Code::InvalidLoop, "steps[0].loop")],
        ),
        (
            "a loop with fields of another type",
            looped(
                json!({"type": "for", "count": 1, "items": "x", "maxIterations": 2}),
                json!([step("one")]),
            ),
            vec![(Code::InvalidLoop, "steps[0].loop.items")],
        ),
        (
            "a loop without a decision",
            looped(
                json!({"type": "while", "maxIterations": 2, "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}}),
                json!([step("one")]),
            ),
            vec![(Code::LoopWithoutDecision, "steps[0].loop")],
        ),
        (
            "a decision of the inner loop only",
            looped(
                json!({"type": "while", "maxIterations": 2, "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}}),
                json!([{"id": "inner", "type": "loop", "title": "t", "loop": {"type": "while", "maxIterations": 2}, "body": [with(step("one"), json!({"outputContract": {"contractRef": "wr.contracts.loop_control"}}))]}]),
            ),
            vec![(Code::LoopWithoutDecision, "steps[0].loop")],
        ),
        (
            "loops too deep",
            workflow(json!([nested_loops(9)])),
            vec![(
                Code::LoopTooDeep,
                "steps[0].body[0].body[0].body[0].body[0].body[0].body[0].body[0].body[0]",
            )],
        ),
        (
            "a variable",
            looped(json!({"type": "forEach", "items": "a b", "maxIterations": 2}), json!([step("one")])),
            vec![(Code::InvalidName, "steps[0].loop.items")],
        ),
        (
            "an empty body",
            looped(forever.clone(), json!([])),
            vec![(Code::LengthOutOfRange, "steps[0].body")],
        ),
        (
            "an unknown body",
            looped(forever.clone(), json!("two")),
            vec![(Code::InvalidBody, "steps[0].body")],
        ),
        (
            "a body that is audited",
            workflow(
                json!([{"id": "again", "type": "loop", "title": "t", "loop": forever, "body": "one"}, with(step("one"), json!({"audit": {}}))]),
            ),
            vec![(Code::InvalidBody, "steps[0].body")],
        ),
        (
            "a parallel loop of plain steps",
            looped(
                json!({"type": "forEach", "items": "files", "maxIterations": 2, "parallel": true}),
                json!([step("one")]),
            ),
            vec![(Code::InvalidBody, "steps[0].loop.parallel")],
        ),
        (
            "a jump forward, one to nowhere, and one on a key that is not declared",
            workflow(json!([
                with(
                    step("one"),
                    json!({"producesContext": {"ok": {"type": "boolean"}}, "jumpIf": {"condition": {"var": "ok"}, "target": "two", "maxJumps": 1}})
                ),
                with(
                    step("two"),
                    json!({"jumpIf": {"condition": {"var": "ok"}, "target": "on", "maxJumps": 1}})
                ),
                with(
                    step("three"),
                    json!({"jumpIf": {"condition": {"var": "okay"}, "target": "three", "maxJumps": 1}})
                ),
            ])),
            vec![
                (Code::InvalidJump, "steps[0].jumpIf.target"),
                (Code::InvalidJump, "steps[1].jumpIf.target"),
                (Code::UndeclaredContextKey, "steps[2].jumpIf.condition"),
            ],
        ),
        (
            "jumps that cross",
            workflow(json!([
                step("one"),
                with(
                    step("two"),
                    json!({"jumpIf": {"condition": {"var": "ok"}, "target": "one", "maxJumps": 1}})
                ),
                with(
                    step("three"),
                    json!({"jumpIf": {"condition": {"var": "ok"}, "target": "two", "maxJumps": 1}})
                ),
            ])),
            vec![(Code::InvalidJump, "steps[2].jumpIf")],
        ),
        (
            "a condition on an undeclared key",
            workflow(json!([
                with(step("one"), json!({"producesContext": {"fixDecision": {"enum": ["fix", "report"]}}})),
                with(step("two"), json!({"runCondition": {"var": "fixDecison", "equals": "fix"}})),
                step("end-step"),
            ])),
            vec![(Code::UndeclaredContextKey, "steps[1].runCondition")],
        ),
        (
            "a key with two types",
            workflow(json!([
                with(step("one"), json!({"producesContext": {"size": {"type": "number"}}})),
                with(step("two"), json!({"requiresContext": {"size": {"enum": ["small", "large"]}}})),
            ])),
            vec![(Code::ContextKeyConflict, "steps[1].requiresContext.size")],
        ),
        (
            "invalid declarations",
            steps(json!({"producesContext": {
                "a b": {"type": "string"}, "goal": {"type": "string"}, "list": {"type": "array"},
                "both": {"type": "string", "enum": ["a"]}, "none": {}, "empty": {"enum": []}, "numbers": {"enum": [1]}}})),
            vec![
                (Code::InvalidName, "steps[0].producesContext[\"a b\"]"),
                (Code::MissingMember, "steps[0].producesContext.both"),
                (Code::LengthOutOfRange, "steps[0].producesContext.empty.enum"),
                (Code::InvalidName, "steps[0].producesContext.goal"),
                (Code::UnknownValue, "steps[0].producesContext.list.type"),
                (Code::MissingMember, "steps[0].producesContext.none"),
                (Code::WrongType, "steps[0].producesContext.numbers.enum[0]"),
            ],
        ),
        (
            "context declarations next to a template call",
            with(
                call("wr.templates.routine.ideation", json!({})),
                json!({"steps": [{"id": "one", "title": "t", "templateCall": {"templateId": "wr.templates.routine.ideation"},
                    "producesContext": {"size": {"type": "number"}}}]}),
            ),
            vec![(Code::InvalidTemplateCall, "steps[0].producesContext")],
        ),
        ("never", steps(json!({"runCondition": {"or": []}})), vec![(Code::NotStartable, "steps")]),
        (
            "a loop without iterations",
            looped(json!({"type": "for", "count": 0, "maxIterations": 2}), json!([step("one")])),
            vec![(Code::NotStartable, "steps")],
        ),
        (
            "two independent causes",
            workflow(json!([
                with(step("one"), json!({"agentRole": 1, "outputContract": {"contractRef": "x"}})),
                with(step("two"), json!({"functionReferences": ["no()"]}))
            ])),
            vec![
                (Code::WrongType, "steps[0].agentRole"),
                (Code::UnknownContract, "steps[0].outputContract.contractRef"),
                (Code::UnknownFunction, "steps[1].functionReferences[0]"),
            ],
        ),
    ]
}

/// Registries with a routine that calls itself, an invalid one, and a feature with too much text.
struct Strange;

static LOUD: Feature = Feature {
    id: "wr.features.loud",
    summary: "Too much text.",
    constraints: &[FeatureItem::Ref("wr.refs.long")],
    procedure: &[],
    verify: &[],
};

impl Registries for Strange {
    fn feature(&self, _: &str) -> Option<&Feature> {
        Some(&LOUD)
    }

    fn reference_text(&self, _: &str) -> Option<&str> {
        static LONG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        Some(LONG.get_or_init(|| "long ".repeat(4000)))
    }

    fn routine(&self, template_id: &str) -> Option<&str> {
        match template_id {
            "circle" => Some(
                r#"{"id": "wr.circle", "name": "n", "description": "d", "version": "1.0.0", "steps":
                [{"id": "call", "title": "t", "templateCall": {"templateId": "circle"}}]}"#,
            ),
            "broken" => Some("{"),
            "wide" => Some(
                r#"{"id": "wr.wide", "name": "n", "description": "d", "version": "1.0.0", "steps": [
                {"id": "aaa", "title": "t", "prompt": "p"}, {"id": "bbb", "title": "t", "prompt": "p"},
                {"id": "ccc", "title": "t", "prompt": "p"}, {"id": "ddd", "title": "t", "prompt": "p"}]}"#,
            ),
            _ => None,
        }
    }
}

#[test]
fn every_problem_has_its_code_and_its_path() {
    let mut seen = BTreeSet::new();
    for (name, value, expected) in cases() {
        let problems = validate(&value);
        let found: Vec<(Code, &str)> =
            problems.iter().map(|problem| (problem.code, problem.path.as_str())).collect();
        assert_eq!(found, expected, "{name}:\n{}", shown(&problems));
        for problem in &problems {
            assert!(!problem.message.is_empty() && !problem.fix.is_empty(), "{name}: {problem}");
        }
        seen.extend(found.into_iter().map(|(code, _)| code));
    }
    for (name, bytes, code) in [
        ("not JSON", b"{".to_vec(), Code::Unreadable),
        ("a key twice", b"{\"id\": 1, \"id\": 2}".to_vec(), Code::Unreadable),
        ("too deep", "[".repeat(1000).into_bytes(), Code::Unreadable),
        ("too large", vec![b' '; (1 << 20) + 1], Code::TooLarge),
    ] {
        let problems = source::parse(&bytes, Format::Json).unwrap_err();
        assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), [code], "{name}");
        seen.insert(code);
    }
    let strange = [
        ("a circle", call("circle", json!({})), Code::TemplateRecursion),
        ("an invalid template", call("broken", json!({})), Code::InvalidTemplate),
        (
            "too much text",
            with(blocks(json!({"goal": "g"})), json!({"features": ["wr.features.loud"]})),
            Code::InjectionTooLarge,
        ),
        (
            "too many steps",
            workflow((0..2000).map(|index| json!({"id": format!("step{index}"), "title": "t", "templateCall": {"templateId": "wide"}})).collect()),
            Code::TooLarge,
        ),
    ];
    for (name, value, code) in strange {
        let source = source::parse(value.to_string().as_bytes(), Format::Json).unwrap();
        let problems = compile::compile_with(&source, &Bindings::default(), &Strange).unwrap_err();
        assert_eq!(
            problems.iter().map(|problem| problem.code).collect::<Vec<_>>(),
            [code],
            "{name}:\n{}",
            shown(&problems)
        );
        seen.insert(code);
    }
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}

#[test]
fn bindings_for_unknown_slots_are_problems() {
    let source = source::parse(workflow(json!([step("one")])).to_string().as_bytes(), Format::Json).unwrap();
    let bindings = Bindings([("who".to_owned(), "wr.someone".to_owned())].into());
    let problems = compile::compile(&source, &bindings).unwrap_err();
    assert_eq!((problems[0].code, problems[0].path.as_str()), (Code::UnknownSlot, "bindings.who"));
}

#[test]
fn many_problems_are_limited_and_counted() {
    let members: serde_json::Map<String, Value> =
        (0..50_000).map(|index| (format!("m{index}"), Value::Null)).collect();
    let problems = validate(&with(workflow(json!([step("one")])), Value::Object(members)));
    assert_eq!(problems.len(), 201);
    let many: Vec<Value> = (0..4000)
        .map(|index| {
            with(
                step(&format!("s{index:04}")),
                json!({"outputContract": {"contractRef": "wr.contracts.loop"}}),
            )
        })
        .collect();
    assert_eq!(validate(&workflow(Value::from(many))).len(), 201);
}

#[test]
fn the_longest_workflow_still_compiles() {
    let many: Vec<Value> = (0..4096).map(|index| step(&format!("s{index:04}"))).collect();
    assert!(validate(&workflow(Value::from(many.clone()))).is_empty());
    let more: Vec<Value> = many.into_iter().chain([step("more")]).collect();
    assert_eq!(validate(&workflow(Value::from(more)))[0].code, Code::LengthOutOfRange);
}
