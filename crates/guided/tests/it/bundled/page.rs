//! `docs/bundled-workflows.md`, generated from the workflows and the plays.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use guide::workflow::context_keys::ContextType;
use guide::workflow::registry;
use serde_json::Value;

use super::Stage;
use super::plays::PLAYS;

const HEAD: &str = "<!-- Generated: run `UPDATE_DOCS=1 cargo test -p guided --test it bundled`. -->

# Bundled workflows

These [guided workflows](concepts/guided-sessions.md) come with the program. An agent finds them with `list_workflows`; you see them with
`interlock workflow list` and `interlock workflow show ID`. The namespace can be omitted: `bug-investigation` is `wr.bug_investigation`. To change one, copy the idea into
[a workflow of your own](how-to/write-a-workflow.md): ids that start with `wr.` always belong to the program.

## Choose one

";

const RIGOR: &str = "
## Rigor

Every workflow has the context key `rigor` with the values `small`, `standard` and `thorough`. It makes a run shorter or deeper. An early step asks the agent for
it, with advice on what fits; to decide it yourself, tell the agent, or pass it with the start:

```json
{\"name\": \"start_workflow\", \"arguments\": {\"workflowId\": \"wr.change_review\", \"goal\": \"review branch feature/export\", \"context\": {\"rigor\": \"thorough\"}}}
```

No level skips an approval or the final check of the result. The steps that a level skips are named in the reply, in `interlock session show` and in the console.

The table counts the steps of a full run of each level, with one pass of each loop.

| Workflow | small | standard | thorough |
|---|---|---|---|
";

const DECISIONS: &str = "
## Outcomes

A run records what was decided as context keys. They choose the steps that follow, so a forgotten or misspelled one blocks with
[`MISSING_CONTEXT_KEY`](formats/workflow-source.md#declared-context-keys). Steps that end with a review hand in a verdict: `clean`, `minor` or `blocking`.

| Workflow | Keys |
|---|---|
";

const ROUTINES: &str = "
## Routines

Parts that workflows share. Each is also a workflow of its own, for example to delegate it to another agent.

| Routine | What it does |
|---|---|
";

fn source(id: &str) -> Value {
    serde_json::from_str(registry::bundled_workflow(id).unwrap().source).unwrap()
}

fn text<'s>(source: &'s Value, member: &str) -> &'s str {
    source[member].as_str().unwrap()
}

/// The number of different steps that the longest play of a level shows.
fn steps(id: &str, level: &str) -> usize {
    let plays = PLAYS.iter().filter(|play| play.workflow == id && play.choice("rigor") == Some(level));
    plays.map(|play| play.shown.split(' ').collect::<BTreeSet<_>>().len()).max().unwrap()
}

fn page() -> String {
    let stage = Stage::set();
    let is_routine = |id: &str| id.starts_with("wr.routine-");
    let ids = || registry::bundled().iter().map(|bundled| bundled.id);
    let mut out = HEAD.to_owned();
    out.push_str("| Workflow | When |\n|---|---|\n");
    let (mut levels, mut decisions) = (String::new(), String::new());
    for id in ids().filter(|id| !is_routine(id)) {
        let source = source(id);
        let when = text(&source, "about").lines().next().unwrap().strip_prefix("Use it ").unwrap();
        let when = format!("{}{}", when[..1].to_uppercase(), &when[1..]);
        writeln!(out, "| [{}](transcripts/{id}.md)<br>`{id}` | {when} |", text(&source, "name")).unwrap();
        let [small, standard, thorough] = ["small", "standard", "thorough"].map(|level| steps(id, level));
        writeln!(levels, "| `{id}` | {small} | {standard} | {thorough} |").unwrap();
        let workflow = stage.workflow(id);
        let declared = workflow.steps.iter().flat_map(|step| &step.produces_context);
        let keys: Vec<String> = declared
            .filter(|(key, _)| *key != "rigor")
            .map(|(key, allowed)| match allowed {
                ContextType::OneOf(values) => format!("`{key}`: `{}`", values.join("`, `")),
                ContextType::Plain(_) => format!("`{key}`"),
            })
            .collect();
        if !keys.is_empty() {
            writeln!(decisions, "| `{id}` | {} |", keys.join("<br>")).unwrap();
        }
    }
    out.extend([RIGOR, &levels, DECISIONS, &decisions, ROUTINES]);
    for id in ids().filter(|id| is_routine(id)) {
        let source = source(id);
        writeln!(out, "| {}<br>`{id}` | {} |", text(&source, "name"), text(&source, "description")).unwrap();
    }
    out
}

#[test]
fn the_page_of_the_bundled_workflows_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bundled-workflows.md");
    let expected = page();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{path:?}: {cause}"));
    assert!(found == expected, "{path:?} is stale: run again with UPDATE_DOCS=1");
}
