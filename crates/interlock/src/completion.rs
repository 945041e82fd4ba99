//! Values for shell completion. Fast, silent on failure, and never a question.

use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;

use crate::api::{Api, ListRuns, Run, RunOutcome, block_on_within};
use crate::arguments::{Globals, Target};
use crate::commands::runs::filter::KEYS;
use crate::contexts::{Contexts, LOCAL};

/// A person who presses Tab waits no longer.
const LIMIT: Duration = Duration::from_millis(300);
/// How many runs are offered.
const OFFERED: usize = 50;

pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let contexts = Contexts::load().ok();
    let named = contexts.iter().flat_map(Contexts::all);
    let named = named.map(|context| candidate(&context.name, &context.url));
    std::iter::once(candidate(LOCAL, "the server of the data directory")).chain(named).collect()
}

pub(crate) fn statuses() -> Vec<CompletionCandidate> {
    RunOutcome::ALL.iter().map(|outcome| CompletionCandidate::new(outcome.word().to_lowercase())).collect()
}

pub(crate) fn filter_keys() -> Vec<CompletionCandidate> {
    KEYS.iter().map(|key| CompletionCandidate::new(format!("{key}:"))).collect()
}

pub(crate) fn runs() -> Vec<CompletionCandidate> {
    runs_that(|_| true)
}

/// Runs that have not ended.
pub(crate) fn open_runs() -> Vec<CompletionCandidate> {
    runs_that(|run| !run.status().is_terminal())
}

/// Runs that wait for a person.
pub(crate) fn waiting_runs() -> Vec<CompletionCandidate> {
    runs_that(|run| run.interrupt().is_some_and(|interrupt| !interrupt.is_for_agent()))
}

fn runs_that(applies: impl Fn(&Run) -> bool) -> Vec<CompletionCandidate> {
    let Some(api) = connected() else { return Vec::new() };
    let page = block_on_within(LIMIT, async { api.runs(&ListRuns::default(), OFFERED, None).await });
    let runs = page.map(|page| page.items).unwrap_or_default();
    let offered = |run: &Run| {
        let id = run.short_id();
        let words = format!("{}, {}", run.workflow(), run.outcome().word().to_lowercase());
        candidate(id.trim_start_matches('…'), &words)
    };
    runs.iter().filter(|run| applies(run)).map(offered).collect()
}

pub(crate) fn workflows() -> Vec<CompletionCandidate> {
    let Some(api) = connected() else { return Vec::new() };
    let page = block_on_within(LIMIT, async { api.workflows(None).await });
    let found = page.map(|page| page.items).unwrap_or_default();
    found
        .iter()
        .filter_map(|workflow| Some(CompletionCandidate::new(workflow["workflowId"].as_str()?)))
        .collect()
}

pub(crate) fn webhooks() -> Vec<CompletionCandidate> {
    let Some(api) = connected() else { return Vec::new() };
    let webhooks = block_on_within(LIMIT, async { api.webhooks().await }).unwrap_or_default();
    let offered = |webhook: &serde_json::Value| {
        Some(candidate(webhook["webhookId"].as_str()?, webhook["url"].as_str().unwrap_or_default()))
    };
    webhooks.iter().filter_map(offered).collect()
}

/// The server of the command line that is being completed.
fn connected() -> Option<Api> {
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let globals = Globals {
        data_dir: option(&words, "--data-dir").map(PathBuf::from),
        config: option(&words, "--config").map(PathBuf::from),
    };
    let target = Target { context: option(&words, "--context"), ..Target::default() };
    Api::connect(&target, &globals).ok()
}

/// The value of an option that was typed already.
fn option(words: &[String], name: &str) -> Option<String> {
    let joined = words.iter().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    joined.or_else(|| words.iter().skip_while(|word| *word != name).nth(1).cloned())
}

fn candidate(value: &str, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(help.to_owned().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_typed_are_found() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (typed, expected) in [
            ("interlock runs --context prod show", Some("prod")),
            ("interlock runs show --context=prod", Some("prod")),
            ("interlock runs show --context", None),
            ("interlock runs show", None),
        ] {
            assert_eq!(option(&words(typed), "--context").as_deref(), expected, "{typed}");
        }
    }
}
