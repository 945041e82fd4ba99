//! Playing a script: the same service that agents call, over files in memory.

use std::path::Path;
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guided::api::{ContinueRequest, Handle, Intent, PreferenceDelta, Reply, StartRequest};
use guided::{Guided, Verifier};
use serde::Serialize;
use serde_json::Value;
use storage::disk::MemoryDisk;
use storage::files::FileSessions;

use super::script::{Script, ScriptedAttempt};
use crate::failure::Failure;
use crate::service;

/// The result of a script.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Played {
    pub(super) script: String,
    pub(super) passed: bool,
    /// The calls that went as expected.
    pub(super) calls: Vec<PlayedCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<Difference>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlayedCall {
    pub(super) step: String,
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) skipped: Vec<String>,
}

/// Where a run first differs from its script.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    /// Which call, from 1; nothing for the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<usize>,
    pub(super) expected: String,
    pub(super) actual: String,
    /// Why, and what to do: the blockers as an agent gets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reasons: Vec<Reason>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reason {
    pub(super) code: String,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Difference {
    fn new(call: Option<usize>, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self { call, expected: expected.into(), actual: actual.into(), reasons: Vec::new() }
    }
}

/// Plays a script against the one workflow in `folder`. Nothing of the data directory is read or written.
pub(super) fn play(
    folder: &Path,
    workflow_id: &str,
    name: String,
    script: Script,
) -> Result<Played, Failure> {
    let store = FileSessions::open(Arc::new(MemoryDisk::default()))?;
    let options =
        CatalogueOptions { configured_dirs: vec![folder.to_owned()], ..CatalogueOptions::default() };
    let guided = service::guided(Catalogue::new(options), Arc::new(store), Verifier::none());
    let mut calls = Vec::new();
    let difference = ports::wait(run(&guided, workflow_id, script, &mut calls));
    Ok(Played { script: name, passed: difference.is_none(), calls, difference })
}

async fn run(
    guided: &Guided,
    workflow_id: &str,
    script: Script,
    played: &mut Vec<PlayedCall>,
) -> Option<Difference> {
    let preferences = PreferenceDelta {
        autonomy: script.preferences.autonomy,
        risk_policy: script.preferences.risk_policy,
    };
    let started = guided.start(StartRequest {
        workflow_id: workflow_id.to_owned(),
        goal: script.goal,
        context: script.context,
        preferences: Some(preferences),
        ..StartRequest::default()
    });
    let mut reply = match started.await {
        Ok(reply) => reply,
        Err(refusal) => {
            let envelope = refusal.envelope();
            let mut difference = Difference::new(None, "the run starts", "the start was refused");
            difference.reasons.push(Reason {
                code: envelope.code().to_owned(),
                message: envelope.message().to_owned(),
                fix: Some(envelope.suggestion().to_owned()).filter(|text| !text.is_empty()),
            });
            return Some(difference);
        }
    };
    for (position, call) in script.calls.into_iter().enumerate() {
        let number = Some(position + 1);
        if pending(&reply) != Some(call.step.as_str()) {
            return Some(Difference::new(number, format!("`{}` is pending", call.step), place(&reply)));
        }
        let (next, outcome) = match attempt(guided, &reply, &call).await {
            Ok(next) => next,
            Err(mut difference) => {
                difference.call = number;
                return Some(difference);
            }
        };
        let skipped: Vec<String> = next.skipped.iter().map(|skipped| skipped.id.clone()).collect();
        if let Some(expected) = call.skips.filter(|expected| *expected != skipped) {
            let words = |ids: &[String]| if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") };
            let expected = format!("`{}` skips {}", call.step, words(&expected));
            return Some(Difference::new(number, expected, format!("it skips {}", words(&skipped))));
        }
        played.push(PlayedCall { step: call.step, outcome, skipped });
        reply = next;
    }
    let end = match &script.expect.pending {
        Some(step) => format!("`{step}` is pending"),
        None => "the run is complete".to_owned(),
    };
    if end != place(&reply) {
        return Some(Difference::new(None, end, place(&reply)));
    }
    let open = reply.open_gaps.as_ref().map_or(0, |gaps| gaps.count);
    script.expect.gaps.filter(|expected| *expected != open).map(|expected| {
        let mut difference = Difference::new(None, gaps(expected), gaps(open));
        for gap in reply.open_gaps.iter().flat_map(|gaps| &gaps.gaps) {
            let code = serde_json::to_value(gap.severity).ok();
            let code = code.as_ref().and_then(Value::as_str).unwrap_or("gap").to_owned();
            difference.reasons.push(Reason { code, message: gap.summary.clone(), fix: None });
        }
        difference
    })
}

/// Sends a call, and compares what comes back. A blocked attempt's reply has the handle for the retry.
async fn attempt(
    guided: &Guided,
    reply: &Reply,
    call: &ScriptedAttempt,
) -> Result<(Reply, String), Difference> {
    let retry = reply.blocked.as_ref().and_then(|blocked| blocked.retry_continue_token.clone());
    let Some(token) = retry.or_else(|| reply.continue_token.clone()) else {
        return Err(Difference::new(None, format!("`{}` can be attempted", call.step), place(reply)));
    };
    let sent = guided.proceed(ContinueRequest {
        handle: Handle::Single(token),
        intent: Intent::Advance,
        notes_markdown: call.notes.clone(),
        artifacts: call.artifacts.clone(),
        context: call.context.clone(),
        preferences: None,
    });
    let mut expected_codes = call.blocked.clone();
    expected_codes.sort();
    let expected = if expected_codes.is_empty() {
        "accepted".to_owned()
    } else {
        format!("blocked by {}", expected_codes.join(", "))
    };
    let expects = || format!("`{}` is {expected}", call.step);
    let next = match sent.await {
        Ok(next) => next,
        Err(refusal) => {
            let envelope = refusal.envelope();
            let mut difference = Difference::new(None, expects(), "the call was refused");
            difference.reasons.push(Reason {
                code: envelope.code().to_owned(),
                message: envelope.message().to_owned(),
                fix: Some(envelope.suggestion().to_owned()).filter(|text| !text.is_empty()),
            });
            return Err(difference);
        }
    };
    let blockers = next.blocked.as_ref().map(|blocked| blocked.blockers.blockers()).unwrap_or_default();
    let code = |blocker: &guide::record::Blocker| super::super::wire(&blocker.code);
    let mut codes: Vec<String> = blockers.iter().map(code).collect();
    codes.sort();
    codes.dedup();
    let outcome =
        if codes.is_empty() { "accepted".to_owned() } else { format!("blocked by {}", codes.join(", ")) };
    if outcome == expected {
        return Ok((next, outcome));
    }
    let mut difference = Difference::new(None, expects(), format!("it is {outcome}"));
    difference.reasons.extend(blockers.iter().map(|blocker| Reason {
        code: code(blocker),
        message: blocker.message.clone(),
        fix: blocker.suggested_fix.clone(),
    }));
    Err(difference)
}

fn pending(reply: &Reply) -> Option<&str> {
    reply.pending.as_ref().map(|step| step.step_id.as_str())
}

fn place(reply: &Reply) -> String {
    match pending(reply) {
        Some(step) => format!("`{step}` is pending"),
        None if reply.is_complete => "the run is complete".to_owned(),
        None => "the run is blocked permanently".to_owned(),
    }
}

fn gaps(count: usize) -> String {
    match count {
        0 => "no gap is open".to_owned(),
        1 => "1 gap is open".to_owned(),
        _ => format!("{count} gaps are open"),
    }
}
