//! Composing takes at most twice as long as writing the plan.
//!
//! Both sides alternate in the same run, and the fastest turn of each counts, so that load affects
//! both equally. Validation is measured too, without a limit. Exits with 1 if the limit is
//! exceeded. `cargo bench -p workspace --bench compose`.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use workspace::compose::{Request, compose};
use workspace::plan::ValidPlan;

/// The limit of composing relative to writing.
const MOST_PER_WRITE: f64 = 2.0;

/// The size that the limit applies to.
const ENTRIES: usize = 10_000;

/// The minimum time and number of turns per shape.
const PATIENCE: Duration = Duration::from_secs(2);
const FEWEST_TURNS: usize = 10;

fn main() -> ExitCode {
    let shapes = [
        ("a bit of everything", mixed()),
        ("skills", skills()),
        ("pages", pages()),
        ("input artifacts", artifacts()),
    ];
    let mut is_broken = false;
    println!(
        "{:<22} {:>8} {:>12} {:>12} {:>12} {:>7}",
        "request", "entries", "compose", "write", "validate", "ratio"
    );
    for (name, request) in shapes {
        let request = Request::from_value(request, &[]).expect("a shallow request");
        let plan = compose(&request, None).expect("a request without mistakes");
        let value = plan.to_value();
        let (mut composing, mut writing, mut validating) = (Duration::MAX, Duration::MAX, Duration::MAX);
        let (start, mut turns) = (Instant::now(), 0);
        while turns < FEWEST_TURNS || start.elapsed() < PATIENCE {
            composing = composing.min(time(|| compose(&request, None).expect("composed before")));
            writing = writing.min(time(|| serde_json::to_vec(&plan).expect("a plan is JSON")));
            validating =
                validating.min(time(|| ValidPlan::check(&value, None, false).expect("a valid plan")));
            turns += 1;
        }
        let ratio = composing.as_secs_f64() / writing.as_secs_f64();
        is_broken |= ratio > MOST_PER_WRITE;
        println!(
            "{name:<22} {:>8} {composing:>12.2?} {writing:>12.2?} {validating:>12.2?} {ratio:>7.2}",
            plan.entries.len()
        );
    }
    println!("limit of the ratio: {MOST_PER_WRITE}");
    if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The duration of the work, without dropping its result.
fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let taken = start.elapsed();
    drop(result);
    taken
}

fn request(context: &Value) -> Value {
    let slots =
        ["inputs", "uploads", "references", "repos", "deliverable-specs", "deliverables", "attachments"];
    let mounts: serde_json::Map<String, Value> =
        slots.iter().map(|slot| ((*slot).to_owned(), json!({"enabled": true, "config": {}}))).collect();
    json!({
        "orgId": "org1", "projectId": "proj1", "agentOverrides": {"role": "engineer"},
        "workflowRun": {"runId": "run1", "jobRunId": "job1"}, "agentContext": context,
        "manifest": {
            "slug": "m", "version": "1.0.0", "agent": {"slug": "engineer", "groupKey": "engineering", "role": "engineer"},
            "mounts": mounts, "seedFiles": [], "env": [], "requiredTemplateNames": [],
        },
    })
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index}")).collect()
}

fn artifact_list(count: usize) -> Vec<Value> {
    let artifact = |index| json!({"artifactId": format!("artifact-{index}"), "version": 3, "fileName": format!("pages/page-{index}.html"), "payloadField": "body", "contentType": "text/html"});
    (0..count).map(artifact).collect()
}

fn page_mounts(count: usize) -> Vec<Value> {
    (0..count)
        .map(|index| json!({"spaceId": format!("space-{index}"), "pageSlugs": ["overview", "details"]}))
        .collect()
}

/// About a tenth of each kind: skills make two entries.
fn mixed() -> Value {
    let tenth = ENTRIES / 10;
    request(&json!({
        "prompt": "Review the change.", "delegatedSubAgents": names("agent", tenth), "skills": names("skill", tenth),
        "instructions": names("section", tenth), "kbSpaceIds": names("space", tenth), "kbPageMounts": page_mounts(tenth),
        "externalProjectIds": names("project", tenth), "deliverablesRef": names("contract", tenth),
        "inputArtifacts": artifact_list(2 * tenth - 5),
    }))
}

fn skills() -> Value {
    request(&json!({"skills": names("skill", ENTRIES / 2 - 2)}))
}

fn pages() -> Value {
    request(&json!({"kbPageMounts": page_mounts(ENTRIES - 5)}))
}

fn artifacts() -> Value {
    request(&json!({"inputArtifacts": artifact_list(ENTRIES - 5)}))
}
