//! Replies about runs.

use std::fmt::Write as _;

use guide::placeholder;
use guide::record::BlockerCode;
use guide::render::quoted;
use guide::verification::Verification;
use guided::api::{
    BlockedReply, CheckpointReply, DelegatedRun, NextCall, NextIntent, OpenGaps, Reply, ReplyKind,
    ResumeReply, RunWords, SkippedWords,
};
use serde_json::{Value, json};

use super::one_line;

/// A reply to `start_workflow` or `continue_workflow`.
pub(super) fn reply(reply: &Reply) -> String {
    let mut text = first_line(&reply.run);
    if reply.kind == ReplyKind::Blocked {
        text.push_str(
            "BLOCKED: the step was not accepted and is still pending. Fix the blockers under SYSTEM.\n",
        );
    }
    if let Some(step) = &reply.pending {
        let _ = write!(text, "\n# {}\n\n", one_line(&step.title));
        if let Some(role) = &step.agent_role {
            let _ = write!(text, "Your role: {role}\n\n");
        }
        let _ = writeln!(text, "{}", step.prompt.trim_end());
    }
    text.push_str("\n---\nSYSTEM\n\n");
    for warning in &reply.warnings {
        let _ = write!(text, "Warning: {}\n\n", one_line(warning));
    }
    if let Some(verification) = &reply.verification {
        text.push_str(&verified(verification, reply));
    }
    if let Some(facts) = &reply.step_context {
        let _ = write!(text, "Recorded about the previous step:\n\n{}\n", fenced(facts));
    }
    text.push_str(&skipped(&reply.skipped));
    if let Some(open) = &reply.open_gaps {
        text.push_str(&gaps(reply.is_complete, open));
    }
    if let Some(blocked) = &reply.blocked {
        text.push_str(&blockers(reply.kind, blocked));
    }
    text.push_str(&delegated(&reply.delegations));
    text.push_str(&next(reply));
    let preferences = json!(reply.preferences);
    let _ = writeln!(
        text,
        "{} Preferences: {}, {}.",
        reply.token_note,
        preferences["autonomy"].as_str().unwrap_or_default(),
        preferences["riskPolicy"].as_str().unwrap_or_default()
    );
    text
}

/// What the host verified itself, without the lines that a blocker repeats. Notes and artifacts are only
/// claims of the agent.
fn verified(verification: &Verification, reply: &Reply) -> String {
    let blockers = || reply.blocked.iter().flat_map(|blocked| blocked.blockers.blockers());
    let is_said = |line: &str| blockers().any(|blocker| blocker.message.contains(line));
    let lines: Vec<_> = verification.lines().into_iter().filter(|(_, line)| !is_said(line)).collect();
    if lines.is_empty() {
        return String::new();
    }
    let about = if reply.blocked.is_some() { "the blocked attempt" } else { "the previous step" };
    let mut text = format!("VERIFIED by the host for {about}; everything else in its output is a claim:\n\n");
    for (passed, line) in lines {
        let _ = writeln!(text, "- {}: {}", if passed { "passed" } else { "FAILED" }, indented(&line));
    }
    text.push('\n');
    text
}

/// The delegated runs, each with its call.
fn delegated(runs: &[DelegatedRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut text = String::from("DELEGATED RUNS: each call starts one of them, or shows its state.\n\n");
    for (index, run) in runs.iter().enumerate() {
        let status = run.status.map_or_else(String::new, |status| format!(" ({status})"));
        let _ = write!(
            text,
            "{}.{status} {} with\n\n{}\n",
            index + 1,
            run.start_call.tool,
            fenced(&run.start_call.params)
        );
    }
    text
}

/// The skipped steps, and which context key to send to run one of them.
fn skipped(skipped: &[SkippedWords]) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let mut text = String::from("SKIPPED: because of the recorded context, these steps do not run:\n\n");
    for step in skipped {
        let _ = write!(text, "- `{}` ({})", step.id, one_line(&step.title));
        for (index, key) in step.keys.iter().enumerate() {
            let lead = if index == 0 { ": depends on" } else { " and" };
            let allowed = key.allowed.as_ref().map_or_else(String::new, |allowed| format!(" ({allowed})"));
            let _ = write!(text, "{lead} `{}`{allowed}", key.key);
        }
        text.push_str(".\n");
    }
    text.push_str(
        "\nIf one of them should run, send the right value in `context` with the next advance. The step \
         then becomes pending; inside a loop, in the next iteration if there is one.\n\n",
    );
    text
}

fn blockers(kind: ReplyKind, blocked: &BlockedReply) -> String {
    let mut text = String::from(match kind {
        ReplyKind::Blocked => "Blockers:\n\n",
        ReplyKind::Ok => "The last attempt at this step was blocked. Blockers:\n\n",
    });
    for blocker in blocked.blockers.blockers() {
        let code = json!(blocker.code);
        let _ = writeln!(text, "- {}: {}", code.as_str().unwrap_or_default(), indented(&blocker.message));
        if let Some(fix) = &blocker.suggested_fix {
            let _ = writeln!(text, "  Fix: {}", indented(fix));
        }
    }
    text.push('\n');
    if let Some(validation) = &blocked.validation {
        if !validation.issues.is_empty() {
            text.push_str("Further issues:\n\n");
            for issue in &validation.issues {
                let _ = writeln!(text, "- {}", indented(issue));
            }
            text.push('\n');
        }
        if !validation.suggestions.is_empty() {
            text.push_str("Suggestions:\n\n");
            for suggestion in &validation.suggestions {
                let _ = writeln!(text, "- {}", indented(suggestion));
            }
            text.push('\n');
        }
    }
    text
}

/// The open gaps, and how to close them.
fn gaps(is_complete: bool, open: &OpenGaps) -> String {
    let more = match open.count.saturating_sub(open.gaps.len()) {
        0 => String::new(),
        more => format!(", and {more} earlier"),
    };
    let (lead, how) = if is_complete {
        (
            "GAPS: the run ended with these open",
            "Tell the user. To close one later, rehydrate the last step with the token that you advanced \
             it with. Then advance it again with the token of that reply, its output, and the artifact",
        )
    } else {
        (
            "GAPS: the run continues with these open",
            "Tell the user. When one is closed, add this to the artifacts of any later advance",
        )
    };
    let mut text = format!("{lead}{more}:\n\n");
    for gap in &open.gaps {
        let severity = json!(gap.severity);
        let severity = severity.as_str().unwrap_or_default();
        let _ = writeln!(text, "- {} ({severity}): {}", gap.gap_id, indented(&gap.summary));
    }
    let example = json!({"kind": "wr.gap_resolution", "gapId": open.gaps.first().map(|gap| &gap.gap_id),
        "summary": placeholder::CLOSED});
    let _ = write!(
        text,
        "\n{how}\n\n{}\nA gap that only the user can close also needs `answeredBy`: \"user\" and the \
         user's words.\n\n",
        fenced(&example)
    );
    text
}

/// What to do now, and the next call.
fn next(reply: &Reply) -> String {
    let terminal = reply.blocked.as_ref().is_some_and(|blocked| blocked.retryable != Some(true));
    if terminal {
        return match &reply.next_call {
            Some(back) => call(
                "This attempt cannot be retried. If only the user can fix a blocker above, tell the user, and wait. Once \
                 every blocker is fixed, return to the step; call",
                back,
            ),
            None => "This attempt cannot be retried. Tell the user what the blockers say, and wait.\n\n"
                .to_owned(),
        };
    }
    let Some(call) = &reply.next_call else {
        if let Some(back) = &reply.return_call {
            return call(
                "The run is COMPLETE. It was delegated: report its result to the agent that delegated it, \
                 and stop. If you also work on the delegating run, return to it; call",
                back,
            );
        }
        return match reply.next_intent {
            NextIntent::Complete if reply.open_gaps.is_some() => {
                "The run is COMPLETE, with gaps. No step is pending, and there is no next call. Tell the \
                 user the result and what is missing.\n\n"
                    .to_owned()
            }
            NextIntent::Complete => "The run is COMPLETE. There is no next call: do not call \
                                     continue_workflow for it again. Tell the user the result. For other work, start another \
                                     run with start_workflow.\n\n"
                .to_owned(),
            NextIntent::PerformPendingThenContinue
            | NextIntent::AwaitUserConfirmation
            | NextIntent::RehydrateOnly => "There is no next call. Tell the user, and wait.\n\n".to_owned(),
        };
    };
    let lead = match (reply.kind, reply.next_intent) {
        (ReplyKind::Blocked, _) if lacks_answer(reply) => {
            "Ask the user for what is missing, and WAIT for the answer. Fix every other blocker above, \
             then call"
        }
        (ReplyKind::Blocked, _) => "Fix every blocker above, then call",
        (ReplyKind::Ok, NextIntent::PerformPendingThenContinue) => {
            "Do the step above, all of it. When it is done, call"
        }
        (ReplyKind::Ok, NextIntent::AwaitUserConfirmation) => {
            "This step needs the user: see USER NEEDED above. Do the step, show the user what you have, \
             ask, and WAIT for the \
             answer. Then, with the answer among the artifacts, call"
        }
        (ReplyKind::Ok, NextIntent::RehydrateOnly) if reply.latest_call.is_some() => {
            "To start a new branch from this earlier step instead, do the step above, then call"
        }
        (ReplyKind::Ok, NextIntent::RehydrateOnly) => {
            "Nothing was changed. Do the step above unless you have already done it, then call"
        }
        (ReplyKind::Ok, NextIntent::Complete) => "No step is pending. To see the run again, call",
    };
    let mut text = String::new();
    if let Some(latest) = &reply.latest_call {
        text.push_str(&self::call(
            "Nothing was changed. This is an earlier step; the run has advanced since. To see its latest \
             step, call",
            latest,
        ));
    }
    text.push_str(&self::call(lead, call));
    if reply.next_intent != NextIntent::Complete {
        text.push_str(
            "and add `output`: `notesMarkdown` with what you did, found and decided, and `artifacts` if \
             the step asks for \
             them. Add `context` only for facts that changed.\n\n",
        );
    }
    if reply.kind == ReplyKind::Blocked {
        text.push_str(if lacks_answer(reply) {
            "The `context` and `preferences` of this attempt were kept. Send the complete `output` again, with the same \
             notes and artifacts: an approval counts only for those that the person saw."
        } else {
            "The `context` and `preferences` of this attempt were kept, but not its notes: send the complete `output` again."
        });
        if has_placeholder(reply) {
            text.push_str(" Replace each placeholder in angle brackets.");
        }
        text.push_str("\n\n");
    }
    if let Some(token) = &reply.checkpoint_token {
        let _ = write!(
            text,
            "To save a checkpoint before you stop, call checkpoint_workflow with `{}`.\n\n",
            json!({"checkpointToken": token})
        );
    }
    text
}

/// Whether the calls or artifacts that a reply offers have values that the caller must replace.
fn has_placeholder(reply: &Reply) -> bool {
    let blockers = reply.blocked.iter().flat_map(|blocked| blocked.blockers.blockers());
    reply.next_call.as_ref().is_some_and(|call| call.params.get("context").is_some())
        || blockers.filter_map(|blocker| blocker.suggested_fix.as_ref()).any(|fix| fix.contains("\"<"))
}

/// Whether a block waits for the user, among others.
fn lacks_answer(reply: &Reply) -> bool {
    let blockers = reply.blocked.iter().flat_map(|blocked| blocked.blockers.blockers());
    blockers.into_iter().any(|blocker| blocker.code == BlockerCode::UserOnlyDependency)
}

/// A reply to `checkpoint_workflow`.
pub(super) fn checkpoint(reply: &CheckpointReply) -> String {
    format!(
        "{}\nThe checkpoint is saved. The step stays pending.\n\n---\nSYSTEM\n\n{}{}{}Give the user that \
         token if the conversation ends here; resume_session also finds the run.\n",
        first_line(&reply.run),
        reply
            .warnings
            .iter()
            .map(|warning| format!("Warning: {}\n\n", one_line(warning)))
            .collect::<String>(),
        call("To continue now, do the step, then call", &reply.next_call),
        call("To resume from any conversation, call", &reply.resume_call),
    )
}

/// A reply to `resume_session`.
pub(super) fn resume(reply: &ResumeReply) -> String {
    reply
        .warnings
        .iter()
        .fold(found(reply), |text, warning| text + &format!("\nNote: {}\n", one_line(warning)))
}

fn found(reply: &ResumeReply) -> String {
    if reply.candidates.is_empty() {
        return "No run was found. Widen the search (fewer words, no `sameWorkspaceOnly`), or start one \
                with start_workflow; list_workflows lists the workflows.\n"
            .to_owned();
    }
    let mut text = format!(
        "{} of {} runs, best match first. Nothing was changed. Make the call of the run that the user \
         means. Ask the user if several fit.\n",
        reply.candidates.len(),
        reply.total_eligible
    );
    for (index, candidate) in reply.candidates.iter().enumerate() {
        let word = |name: &str| candidate[name].as_str().unwrap_or("unknown");
        let state = if candidate["isComplete"] == true { "complete" } else { "open" };
        let _ = write!(
            text,
            "\n{}. {} (workflow {}, {state}, match {})\n",
            index + 1,
            one_line(candidate["sessionTitle"].as_str().unwrap_or("a run without a title")),
            word("workflowId"),
            word("confidence"),
        );
        if let Some(why) = candidate["matchExplanation"].as_str() {
            let _ = writeln!(text, "   Why: {}", one_line(why));
        }
        if let Some(snippet) = candidate["snippet"].as_str().filter(|snippet| !snippet.trim().is_empty()) {
            let _ = writeln!(text, "{}", quoted(snippet.trim(), "   > "));
        }
        let next = &candidate["nextCall"];
        if next.is_object() {
            let tool = next["tool"].as_str().unwrap_or("continue_workflow");
            let _ = write!(text, "\n   Return to it: {tool} with\n\n{}", fenced(&next["params"]));
        }
    }
    text
}

fn call(lead: &str, next: &NextCall) -> String {
    format!("{lead} {} with\n\n{}\n", next.tool, fenced(&next.params))
}

fn fenced(value: &Value) -> String {
    format!("```json\n{value}\n```\n")
}

/// The line that identifies the run. Its goal is a caller's text, and stays on one line.
fn first_line(run: &RunWords) -> String {
    format!("Run: {}\n", one_line(&run.description))
}

/// Text of several lines within a list item. The lines after the first are quoted, so that they cannot
/// imitate the program's text.
fn indented(text: &str) -> String {
    let quoted = quoted(text, "  > ");
    quoted.strip_prefix("  > ").unwrap_or(&quoted).to_owned()
}
