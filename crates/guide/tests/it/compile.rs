//! The authoring format and its compiler: every problem, golden results, and properties.

#![expect(clippy::disallowed_methods, reason = "the ban on files is for the engine, not for its tests")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::needless_pass_by_value, reason = "literals read better without `&`")]

mod problems;

use std::{collections::BTreeMap, fs, path::PathBuf};

use guide::{
    record::Capability,
    workflow::{
        compile::{self, Bindings, Compiled, Pass},
        compiled::{CompiledWorkflow, LoopControl, SequenceItem, StepSource, WarningCode},
        ids::SourceOrigin,
        problem::Problem,
        registry,
        source::{self, Format},
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(folder("fixtures/workflows").join(name)).unwrap()
}

fn compiled(bytes: &[u8], format: Format) -> Compiled {
    let source = source::parse(bytes, format).unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    compile::compile(&source, &Bindings::default()).unwrap_or_else(|problems| panic!("{}", shown(&problems)))
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// A workflow with these steps.
fn workflow(steps: Value) -> Value {
    json!({"id": "project.sample", "name": "Sample", "description": "A sample.", "version": "1.0.0", "steps": steps})
}

fn step(id: &str) -> Value {
    json!({"id": id, "title": id, "prompt": "Do it."})
}

/// The object with more members.
fn with(mut value: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members") };
    value.as_object_mut().unwrap().extend(more);
    value
}

/// Compares with a golden file; with `UPDATE_GOLDEN` set, writes it.
fn assert_golden(name: &str, text: &str) {
    let path = folder("golden/workflows").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} has changed; if that is intended, run again with UPDATE_GOLDEN=1");
}

#[test]
fn representative_workflows_compile_to_the_golden_bytes() {
    let mut hashes = String::new();
    for (name, format) in [
        ("triage.json", Format::Json),
        ("review_passes.json", Format::Json),
        ("everything.yaml", Format::Yaml),
        ("user_needs.yaml", Format::Yaml),
    ] {
        let workflow = compiled(&fixture(name), format).workflow;
        let stem = name.split('.').next().unwrap();
        let text = serde_json::to_string_pretty(&workflow).unwrap() + "\n";
        assert_golden(&format!("{stem}.json"), &text);
        let reread: CompiledWorkflow = serde_json::from_str(&text).unwrap();
        assert_eq!(reread, workflow, "{name}: it is read back unchanged");
        hashes.push_str(&format!("{} {stem}\n", workflow.hash()));
    }
    assert_golden("hashes.txt", &hashes);
}

#[test]
fn user_dependencies_are_part_of_the_hash() {
    let yaml = fixture("user_needs.yaml");
    let workflow = compiled(&yaml, Format::Yaml).workflow;
    let value = source::read_value(&yaml, Format::Yaml).unwrap();
    let json = compiled(value.to_string().as_bytes(), Format::Json).workflow;
    assert_eq!(json.hash(), workflow.hash(), "YAML and JSON give the same hash");
    let mut other = value.clone();
    other["steps"][0]["userDependencies"][0]["what"] = "Something else.".into();
    assert_ne!(compiled(other.to_string().as_bytes(), Format::Json).workflow.hash(), workflow.hash());
    let reasons: Vec<Value> = workflow
        .steps
        .iter()
        .flat_map(|step| &step.user_dependencies)
        .map(|dependency| json!(dependency.reason))
        .collect();
    assert_eq!(reasons.len(), 7, "{reasons:?}");
    let publish = workflow.steps.iter().find(|step| step.step_id.as_str() == "publish").unwrap();
    let condition = publish.user_dependencies[1].condition.as_ref().unwrap();
    assert_eq!(condition.0, json!({"var": "breaking"}), "a named condition replaces its reference");
}

#[test]
fn merged_confirmations_never_get_weaker() {
    let confirmed = |own: Value, outer: Value| {
        let body = json!([with(step("one"), json!({"requireConfirmation": own}))]);
        let looped = json!({"id": "again", "type": "loop", "title": "t", "requireConfirmation": outer, "body": body,
            "loop": {"type": "for", "count": 2, "maxIterations": 2}});
        let text = workflow(json!([looped])).to_string();
        serde_json::to_value(&compiled(text.as_bytes(), Format::Json).workflow.steps[0].require_confirmation)
            .unwrap()
    };
    let coordinator = |condition: Option<Value>| match condition {
        None => json!({"kind": "coordinator_eval"}),
        Some(condition) => json!({"kind": "coordinator_eval", "condition": condition}),
    };
    let (a, b) = (json!({"var": "a"}), json!({"var": "b"}));
    let human = json!({"kind": "human_approval"});
    for (own, outer, expected) in [
        (json!(false), json!(true), human.clone()),
        (json!(true), json!(false), human.clone()),
        (coordinator(None), json!(true), human.clone()),
        (json!(true), coordinator(None), human.clone()),
        (coordinator(None), coordinator(None), coordinator(None)),
        (a.clone(), json!(true), human),
        (coordinator(Some(a.clone())), coordinator(Some(a.clone())), coordinator(Some(a.clone()))),
        (a.clone(), b.clone(), json!({"kind": "human_approval", "condition": {"or": [b, a]}})),
    ] {
        assert_eq!(confirmed(own.clone(), outer.clone()), expected, "{own} within {outer}");
    }
}

#[test]
fn the_confirmation_of_a_call_applies_to_its_last_step() {
    let call = json!({"id": "ideas", "title": "t", "requireConfirmation": true,
        "templateCall": {"templateId": "wr.templates.routine.ideation"}});
    let workflow = compiled(workflow(json!([call])).to_string().as_bytes(), Format::Json).workflow;
    let confirmed: Vec<bool> =
        workflow.steps.iter().map(|step| step.require_confirmation.is_some()).collect();
    let (last, before) = confirmed.split_last().unwrap();
    assert!(*last && !before.is_empty() && before.iter().all(|confirmed| !confirmed), "{confirmed:?}");
}

#[test]
fn the_explanation_has_the_pass_of_each_line() {
    let compiled = compiled(&fixture("everything.yaml"), Format::Yaml);
    let text: String = compiled.explanation.iter().map(|note| format!("{note}\n")).collect();
    assert_golden("everything.explain.txt", &text);
    let plan = compiled.workflow.steps.iter().find(|step| step.step_id.as_str() == "plan").unwrap();
    for line in 1..=plan.prompt.lines().count() {
        let blank = plan.prompt.lines().nth(line - 1).unwrap().is_empty();
        let known = compiled.explanation.iter().any(|note| {
            note.step_id.as_deref() == Some("plan")
                && note.lines.is_some_and(|(a, b)| (a..=b).contains(&line))
        });
        assert!(known || blank, "line {line} of the prompt has no pass");
    }
    assert!(compiled.explanation.is_sorted_by_key(|note| note.pass));
    assert!(compiled.explanation.iter().any(|note| note.pass == Pass::Features));
}

#[test]
fn every_field_is_compiled() {
    let workflow = compiled(&fixture("everything.yaml"), Format::Yaml).workflow;
    let ids: Vec<&str> = workflow.steps.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(ids[0], "probe-delegation.probe", "a probe of a required capability comes first");
    assert_eq!(workflow.steps[0].provenance.origin_id.as_deref(), Some("wr.templates.capability_probe"));
    assert_eq!(workflow.steps[0].provenance.source, StepSource::TemplateInjected);
    assert!(workflow.steps[0].title.contains("delegation"));
    let position =
        |id: &str| ids.iter().position(|other| *other == id).unwrap_or_else(|| panic!("{id} in {ids:?}"));
    for (before, after) in
        [("plan", "plan__verification"), ("plan__verification", "plan__audit"), ("views", "views__synthesis")]
    {
        assert_eq!(position(before) + 1, position(after), "{after}");
    }
    let at = |id: &str| &workflow.steps[position(id)];
    assert_eq!(at("plan__audit").provenance.source, StepSource::FeatureInjected);
    assert!(at("plan__audit").notes_optional);
    assert!(at("refine").notes_optional, "inner loops inherit from outer ones");
    assert!(
        at("build").require_confirmation.is_some(),
        "the confirmation of a loop applies to its first step"
    );
    assert!(at("plan").prompt.contains("wr.routine-design-review"), "a slot is filled");
    assert_eq!(at("views").delegations[0].workflow_id, "wr.routine-design-review");
    assert_eq!(at("plan").function_references, ["cite"]);
    assert_eq!(at("build").function_references, ["narrow"], "citing a function in the text is enough");
    let origins: Vec<&str> =
        at("plan").provenance.injections.iter().map(|it| it.origin_id.as_str()).collect();
    assert!(
        origins.contains(&"wr.refs.notes_first_durability") && origins.contains(&"wr.features.capabilities")
    );
    assert!(at("finish").prompt_fragments.iter().any(|fragment| fragment.id == "wr.metrics"));

    let gathered: Vec<_> =
        workflow.steps.iter().filter(|it| it.step_id.as_str().starts_with("gather.")).collect();
    assert!(!gathered.is_empty());
    for step in gathered {
        let condition = &step.run_condition.as_ref().unwrap().0;
        assert_eq!(
            condition,
            &json!({"var": "settings.rigor", "equals": "thorough"}),
            "a named condition is inserted"
        );
        assert_eq!(step.guidance[0], "Stay in one module.");
    }

    let loops: BTreeMap<&str, &LoopControl> =
        workflow.loops.iter().map(|it| (it.loop_id.as_str(), &it.control)).collect();
    assert!(matches!(loops["slices"], LoopControl::ForEach { object_items: true, .. }));
    assert!(matches!(loops["polish"], LoopControl::Decision { .. }));
    assert!(matches!(loops["count"], LoopControl::Count { .. }));
    assert!(matches!(loops["settle"], LoopControl::Condition { .. }));
    let slices = workflow.loops.iter().find(|it| it.loop_id.as_str() == "slices").unwrap();
    assert!(matches!(&slices.body[1], SequenceItem::Loop { loop_id } if loop_id.as_str() == "polish"));
    assert!(
        !workflow
            .sequence
            .iter()
            .any(|it| matches!(it, SequenceItem::Step { step_id } if step_id.as_str() == "measure"))
    );
    let packs: Vec<&str> = workflow.contracts.iter().map(|pack| pack.contract_ref.as_str()).collect();
    assert!(
        packs.is_sorted()
            && packs.contains(&"wr.contracts.loop_control")
            && packs.contains(&"wr.contracts.assessment")
    );
    let codes: Vec<WarningCode> = workflow.compiled_warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [WarningCode::ManyIterations, WarningCode::LoopReadsContext]);
}

#[test]
fn yaml_and_json_give_the_same_hash() {
    for name in ["triage.json", "review_passes.json"] {
        let value: Value = serde_json::from_slice(&fixture(name)).unwrap();
        let yaml = serde_saphyr::to_string(&value).unwrap();
        let (left, right) = (compiled(&fixture(name), Format::Json), compiled(yaml.as_bytes(), Format::Yaml));
        assert_eq!(left.workflow.hash(), right.workflow.hash(), "{name}");
    }
    let value = source::read_value(&fixture("everything.yaml"), Format::Yaml).unwrap();
    let json = serde_json::to_vec(&value).unwrap();
    assert_eq!(
        compiled(&json, Format::Json).workflow.hash(),
        compiled(&fixture("everything.yaml"), Format::Yaml).workflow.hash()
    );
}

#[test]
fn every_bundled_workflow_is_valid() {
    for bundled in registry::bundled() {
        let bytes = bundled.source.as_bytes();
        let result = compile::validate(bytes, Format::Json, SourceOrigin::Bundled, &Bindings::default());
        assert!(result.compiled.is_some(), "{}:\n{}", bundled.id, shown(&result.problems));
    }
}

#[test]
fn warnings() {
    let long = "word ".repeat(400);
    let cases = [
        (with(workflow(json!([step("one")])), json!({"id": "old-one"})), WarningCode::LegacyId, "id"),
        (workflow(json!([with(step("one"), json!({"prompt": long}))])), WarningCode::LongPrompt, "steps[0]"),
        (
            workflow(json!([with(step("one"), json!({"prompt": "Use {{misspelt}}."}))])),
            WarningCode::UndefinedVariable,
            "steps[0]",
        ),
        (
            workflow(json!([with(
                step("one"),
                json!({"validationCriteria":
                [{"type": "contains", "value": "done = true", "message": "m"}]})
            )])),
            WarningCode::FlagOnlyCriteria,
            "steps[0].validationCriteria",
        ),
        (
            workflow(json!([{"id": "again", "type": "loop", "title": "t", "body": [step("one")],
                "loop": {"type": "for", "count": 2, "maxIterations": 101}}])),
            WarningCode::ManyIterations,
            "steps[0].loop.maxIterations",
        ),
        (
            workflow(json!([{"id": "again", "type": "loop", "title": "t", "body": [step("one")],
                "loop": {"type": "while", "condition": {"var": "go"}, "maxIterations": 3}}])),
            WarningCode::LoopReadsContext,
            "steps[0].loop",
        ),
    ];
    for (value, code, path) in cases {
        let workflow = compiled(value.to_string().as_bytes(), Format::Json).workflow;
        let found: Vec<_> =
            workflow.compiled_warnings.iter().map(|warning| (warning.code, warning.path.as_str())).collect();
        assert_eq!(found, [(code, path)]);
    }
    let set = workflow(json!([
        step("one"),
        with(step("two"), json!({"prompt": "Set `part`. Use {{part.name}}."}))
    ]));
    let declared = workflow(json!([
        with(step("one"), json!({"title": "{{file}}", "producesContext": {"size": {"type": "number"}}})),
        with(
            step("two"),
            json!({"prompt": "Use {{size}} {{kind}}.", "requiresContext": {"kind": {"type": "string"}}})
        ),
    ]));
    let declared = with(declared, json!({"inputs": {"file": {"type": "string"}}}));
    for source in [set, declared] {
        let warnings = compiled(source.to_string().as_bytes(), Format::Json).workflow.compiled_warnings;
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn bindings_of_other_workflows_are_ignored() {
    let file = br#"{"project.sample": {"reviewer": "wr.ideation"}, "project.other": {"x": 1}}"#;
    let bindings = Bindings::parse(file, "project.sample").unwrap();
    assert_eq!(bindings.0, BTreeMap::from([("reviewer".to_owned(), "wr.ideation".to_owned())]));
    assert!(Bindings::parse(file, "project.other").is_err());
    assert!(Bindings::parse(b"[]", "project.sample").is_err());
    let value = with(
        workflow(json!([with(step("one"), json!({"prompt": "Ask {{ wr.bindings.reviewer }}."}))])),
        json!({"extensionPoints": [{"slotId": "reviewer", "purpose": "p", "default": "wr.other"}]}),
    );
    let source = source::parse(value.to_string().as_bytes(), Format::Json).unwrap();
    for (bindings, expected) in [(bindings, "wr.ideation"), (Bindings::default(), "wr.other")] {
        let workflow = compile::compile(&source, &bindings).unwrap().workflow;
        assert_eq!(workflow.steps[0].prompt, format!("Ask {expected}."));
        assert_eq!(workflow.bindings["reviewer"], expected);
    }
}

#[test]
fn hostile_yaml_is_rejected_within_limits() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let cases = [
        ("aliases", bomb),
        ("long aliases", format!("a: &a {}\nb: [{}]", "x".repeat(10_000), vec!["*a"; 500].join(", "))),
        ("depth", "[".repeat(50_000)),
        ("block depth", (0..3000).map(|depth| format!("{}a:\n", " ".repeat(depth % 300))).collect()),
        ("a key twice", "id: a\nid: b".into()),
        ("two documents", "a: 1\n---\nb: 2".into()),
        ("not a number", "id: .nan".into()),
        ("a tab", "\ta: 1".into()),
    ];
    for (name, text) in cases {
        let problems = source::parse(text.as_bytes(), Format::Yaml).unwrap_err();
        assert!(!problems.is_empty(), "{name}");
        assert!(problems.iter().all(|problem| problem.message.len() < 400), "{name}: {problems:?}");
    }
    let duplicate = source::parse(b"id: a\nid: b", Format::Yaml).unwrap_err();
    assert_eq!(duplicate[0].code.as_str(), "SOURCE_UNREADABLE", "{duplicate:?}");
}

#[test]
fn capabilities_that_are_only_preferred_are_not_probed() {
    let value = with(workflow(json!([step("one")])), json!({"capabilities": {"web_browsing": "preferred"}}));
    let workflow = compiled(value.to_string().as_bytes(), Format::Json).workflow;
    assert_eq!(workflow.steps.len(), 1);
    assert!(workflow.capabilities.contains_key(&Capability::WebBrowsing));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["loop", "wr.contracts.loop_control", "{{wr.x}}", "while", "one"])
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "id",
            "title",
            "prompt",
            "steps",
            "type",
            "loop",
            "body",
            "and",
            "or",
            "not",
            "var",
            "equals",
            "condition",
            "promptBlocks",
            "goal",
            "templateCall",
            "templateId",
            "args",
            "features",
            "kind",
            "maxIterations",
            "validationCriteria",
            "message",
            "schema",
            "runCondition",
            "assessments",
            "dimensions",
            "capabilities",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,6}",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_json_is_rejected_or_compiled_without_a_panic(value in any_json(), at in 0..4usize) {
        let whole = match at {
            0 => value,
            1 => with(workflow(json!([step("one")])), json!({"steps": value})),
            2 => workflow(json!([step("one"), value])),
            _ => workflow(json!([with(step("one"), json!({"runCondition": value.clone(), "validationCriteria": value}))])),
        };
        let text = whole.to_string();
        let result = compile::validate(text.as_bytes(), Format::Json, SourceOrigin::User, &Bindings::default());
        prop_assert_eq!(result.compiled.is_some(), result.problems.is_empty());
        if let Some(compiled) = result.compiled {
            compiled.workflow.hash();
        }
    }

    #[test]
    fn arbitrary_text_as_yaml_never_panics(text in "[ -~\n]{0,200}") {
        let _ = source::parse(text.as_bytes(), Format::Yaml);
    }

    #[test]
    fn the_order_of_features_does_not_matter(seed in prop::collection::vec(0..registry::features().len(), 0..8)) {
        let named: Vec<&str> = seed.iter().map(|index| registry::features()[*index].id).collect();
        let mut sorted = named.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let blocks = json!([{"id": "one", "title": "t", "promptBlocks": {"goal": "g"}}]);
        let hash = |features: &[&str]| {
            let value = with(workflow(blocks.clone()), json!({"features": features}));
            compiled(value.to_string().as_bytes(), Format::Json).workflow.hash()
        };
        prop_assert_eq!(hash(&named), hash(&sorted));
    }
}

/// Finding R5: required outputs are shown in the author's order, in both formats.
#[test]
fn required_outputs_keep_the_authors_order() {
    let json = br#"{"id": "project.order", "name": "O", "description": "O.", "version": "1.0.0", "steps": [{"id": "one",
        "title": "One", "promptBlocks": {"goal": "G.", "outputRequired": {"Symptom": "s", "Expected": "e", "Actual": "a"}}}]}"#;
    let yaml = b"id: project.order\nname: O\ndescription: O.\nversion: 1.0.0\nsteps:\n  - id: one\n    title: One\n    \
        promptBlocks:\n      goal: G.\n      outputRequired:\n        Symptom: s\n        Expected: e\n        Actual: a\n";
    let json = compiled(json, Format::Json).workflow;
    let prompt = &json.steps[0].prompt;
    let places: Vec<usize> =
        ["Symptom", "Expected", "Actual"].iter().map(|name| prompt.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "{prompt}");
    assert_eq!(compiled(yaml, Format::Yaml).workflow.hash(), json.hash(), "YAML and JSON give the same hash");
}
