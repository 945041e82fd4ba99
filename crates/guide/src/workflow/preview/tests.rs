use super::{to_mermaid, to_svg, to_text};
use crate::workflow::compile::{Bindings, validate};
use crate::workflow::compiled::CompiledWorkflow;
use crate::workflow::ids::SourceOrigin;
use crate::workflow::source::Format;

const SOURCE: &str = r#"
id: project.release
name: Release <it>
description: A release, step by step.
version: 1.0.0
inputs:
  kind: {enum: [minor, major]}
steps:
  - id: look
    title: Look around
    prompt: Look at {{goal}}.
    readOnly: true
  - id: passes
    type: loop
    title: Work in passes
    loop: {type: for, count: 3, maxIterations: 3}
    body:
      - id: work
        title: Do the next part
        prompt: Work.
  - id: migrate
    title: Migrate the data
    prompt: Migrate.
    runCondition: {and: [{var: kind, equals: major}, {not: {var: kind, equals: minor}}]}
  - id: publish
    title: Publish "it"
    prompt: Publish.
    requireConfirmation: {kind: human_approval}
"#;

fn compiled() -> CompiledWorkflow {
    let validation = validate(SOURCE.as_bytes(), Format::Yaml, SourceOrigin::User, &Bindings::default());
    let problems = validation.problems;
    validation.compiled.unwrap_or_else(|| panic!("{problems:?}")).workflow
}

#[test]
fn a_workflow_is_drawn_as_text() {
    let expected = "\
project.release · Release <it>

● look  Look around
│   read-only
↻ passes  Work in passes
│   3 times, at most 3
│ ● work  Do the next part
● migrate  Migrate the data
│   only if kind is major and not kind is minor
◆ publish  Publish \"it\"
│   a person approves
■
";
    assert_eq!(to_text(&compiled()), expected);
}

#[test]
fn a_workflow_is_drawn_as_mermaid_with_loops_and_skipped_steps() {
    let drawn = to_mermaid(&compiled());
    for line in [
        "flowchart TD",
        "    start --> n1",
        "    n1 --> n2",
        "    n2 -. again .-> n2",
        "    n3 -->|yes| n4",
        "    n3 -->|no| n5",
        "    n5 --> done",
    ] {
        assert!(drawn.lines().any(|found| found == line), "{line}\n{drawn}");
    }
    assert_eq!(drawn.matches("subgraph ").count(), 1);
    assert!(!drawn.contains("\"it\""), "quotes are escaped: {drawn}");
}

#[test]
fn a_workflow_is_drawn_as_svg_with_escaped_text() {
    let drawn = to_svg(&compiled());
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    assert!(drawn.contains("Release &lt;it&gt;") && !drawn.contains("<it>"), "{drawn}");
    assert_eq!(drawn.matches("class=\"loop\"").count(), 1);
    assert_eq!(drawn.matches("conditional\"").count(), 1);
    assert_eq!(drawn.matches("class=\"person").count(), 1);
}
