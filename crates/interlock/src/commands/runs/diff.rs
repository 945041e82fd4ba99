//! `interlock runs diff`.

mod generated;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::generated::Names;
use crate::api::{Api, Run, block_on};
use crate::arguments::{Globals, RunsDiff};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, DIM, GOOD, HEADING, Layout};

/// The longest value in a line.
const VALUE_CHARACTERS: usize = 120;

/// A value that differs: its path, and both sides.
struct Difference {
    path: String,
    a: Option<Value>,
    b: Option<Value>,
}

pub(super) fn run(arguments: &RunsDiff, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let (a, b) = block_on(async { Ok((api.find(&arguments.a).await?, api.find(&arguments.b).await?)) })?;
    let differences = compared(&a, &b, arguments.generated);
    if arguments.target.answering.json {
        let difference =
            |difference: &Difference| json!({"path": difference.path, "a": difference.a, "b": difference.b});
        let listed: Vec<_> = differences.iter().map(difference).collect();
        output::json(
            &json!({"a": a.id(), "b": b.id(), "equal": listed.is_empty(), "differences": listed}),
            Layout::Compact,
        )?;
    } else {
        output::text(&words(&a, &b, &differences))?;
    }
    Ok(ExitStatus::success_if(differences.is_empty()))
}

/// What a run did: workflow, state, error, values and nodes.
fn view(run: &Run, generated: bool) -> Value {
    let snapshot = run.document();
    let parts = ["workflowId", "status", "error", "inputs", "variables", "channels", "tags", "nodeStates"];
    let mut view: Value = parts
        .iter()
        .map(|part| ((*part).to_owned(), snapshot[*part].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    if !generated {
        Names::new(run.id()).replace(&mut view);
    }
    view
}

fn compared(a: &Run, b: &Run, generated: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare("", Some(&view(a, generated)), Some(&view(b, generated)), &mut differences);
    differences
}

/// The smallest parts that differ. Documents of the API are at most 128 levels deep.
fn compare(path: &str, a: Option<&Value>, b: Option<&Value>, differences: &mut Vec<Difference>) {
    match (a, b) {
        (a, b) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, a.get(name), b.get(name), differences);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for place in 0..a.len().max(b.len()) {
                compare(&format!("{path}[{place}]"), a.get(place), b.get(place), differences);
            }
        }
        (a, b) => differences.push(Difference { path: path.to_owned(), a: a.cloned(), b: b.cloned() }),
    }
}

fn words(a: &Run, b: &Run, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return format!("{GOOD}No differences{GOOD:#} between {} and {}.", a.short_id(), b.short_id());
    }
    let mut words = format!(
        "{HEADING}{} difference{}{HEADING:#} between {BAD}- {}{BAD:#} and {GOOD}+ {}{GOOD:#}\n",
        differences.len(),
        if differences.len() == 1 { "" } else { "s" },
        a.id(),
        b.id()
    );
    for Difference { path, a, b } in differences {
        let _ = writeln!(words, "{DIM}{}{DIM:#}", output::clean(path));
        if let Some(a) = a {
            let _ =
                writeln!(words, "  {BAD}- {}{BAD:#}", output::shortened(&a.to_string(), VALUE_CHARACTERS));
        }
        if let Some(b) = b {
            let _ =
                writeln!(words, "  {GOOD}+ {}{GOOD:#}", output::shortened(&b.to_string(), VALUE_CHARACTERS));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, child: &str, severity: &str, at: &str) -> Run {
        Run::new(json!({
            "runId": id, "workflowId": "w", "status": "completed",
            "nodeStates": {
                "fan": {"status": "completed", "startedAt": at, "outputs": {"children": [child], "list": [1, 2]}},
                "triage": {"status": "completed", "outputs": {"severity": severity, "of": format!("{child}/x")}},
            },
        }))
    }

    #[test]
    fn generated_ids_and_times_are_ignored() {
        let ids = ["run_01a1e48d4cdd1a8726240ecea203eaf0", "run_02a1e48d4cdd1a8726240ecea203eaf1"];
        let children = ["run_0aa1e48d4cdd1a8726240ecea203eaf0", "run_0ba1e48d4cdd1a8726240ecea203eaf0"];
        let a = run(ids[0], children[0], "high", "2026-11-16T13:02:11.204Z");
        let b = run(ids[1], children[1], "high", "2026-11-17T13:02:11.204Z");
        assert!(compared(&a, &b, false).is_empty());
        assert_eq!(compared(&a, &b, true).len(), 3);
        let c = run(ids[1], children[1], "low", "2026-11-17T13:02:11.204Z");
        let differences = compared(&a, &c, false);
        let paths: Vec<_> = differences.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["nodeStates.triage.outputs.severity"]);
    }

    #[test]
    fn a_member_on_one_side_is_a_difference() {
        let mut differences = Vec::new();
        compare("", Some(&json!({"a": [1, 2], "b": 1})), Some(&json!({"a": [1], "c": 1})), &mut differences);
        let paths: Vec<_> = differences.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["a[1]", "b", "c"]);
    }
}
