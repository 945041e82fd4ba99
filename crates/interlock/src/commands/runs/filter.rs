//! The filters of `runs list`: words and `key:value`.
//!
//! The server filters by one status, workflow and tag. Everything else is checked here, run by run, newest first.

use canon::error::Envelope;
use canon::nearest::nearest;
use canon::time::Timestamp;
use flow::run::RunStatus;

use crate::api::{Api, ListRuns, Run, RunOutcome, parse_span};
use crate::arguments::RunsFilter;
use crate::failure::{CommandErrorCode, Failure};

/// The most runs that are looked through.
const SCANNED: usize = 100_000;
const PAGE: usize = 200;

pub(crate) const KEYS: [&str; 10] =
    ["status", "workflow", "tag", "by", "after", "before", "longer", "shorter", "error", "id"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Status(Vec<RunOutcome>),
    Workflow(Vec<String>),
    Tag(Vec<String>),
    By(Vec<String>),
    After(Timestamp),
    Before(Timestamp),
    Longer(u64),
    Shorter(u64),
    Error(Vec<String>),
    Id(Vec<String>),
    Words(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The conditions, and whether they must not hold.
    conditions: Vec<(bool, Condition)>,
    now: Timestamp,
}

/// What a scan found.
pub(crate) struct MatchingRuns {
    pub(crate) runs: Vec<Run>,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl Filter {
    /// The filter of words and options.
    pub(crate) fn parse<'a>(
        words: impl IntoIterator<Item = &'a str>,
        options: &RunsFilter,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let mut filter = Self { conditions: Vec::new(), now };
        let named = [
            ("status", &options.status),
            ("workflow", &options.workflow),
            ("tag", &options.tag),
            ("longer", &options.longer),
            ("by", &options.by),
        ];
        for (key, value) in named {
            if let Some(value) = value {
                filter.conditions.push((false, condition(key, value, now)?));
            }
        }
        for (key, value) in [("after", &options.since), ("before", &options.until)] {
            if let Some(value) = value {
                // `--since 24h` is 24 hours ago.
                let value = if parse_span(value).is_ok() { format!("-{value}") } else { value.clone() };
                filter.conditions.push((false, condition(key, &value, now)?));
            }
        }
        for word in words.into_iter().flat_map(split) {
            let (negated, rest) = match word.strip_prefix('-') {
                Some(rest) if !rest.is_empty() => (true, rest),
                _ => (false, word.as_str()),
            };
            let parsed = match rest.split_once(':') {
                Some((key, value)) if is_key(key) => condition(key, value.trim_matches('"'), now)?,
                _ => Condition::Words(rest.trim_matches('"').to_lowercase()),
            };
            filter.conditions.push((negated, parsed));
        }
        Ok(filter)
    }

    pub(crate) fn matches(&self, run: &Run) -> bool {
        self.conditions.iter().all(|(negated, condition)| self.holds(condition, run) != *negated)
    }

    fn holds(&self, condition: &Condition, run: &Run) -> bool {
        let is_one = |values: &[String], text: &str| values.iter().any(|value| value == text);
        match condition {
            Condition::Status(wanted) => wanted.contains(&run.outcome()),
            Condition::Workflow(wanted) => is_one(wanted, run.workflow()),
            Condition::Tag(wanted) => run.tags().any(|tag| is_one(wanted, tag)),
            Condition::By(wanted) => run.by().is_some_and(|by| is_one(wanted, by)),
            Condition::After(at) => run.started_at().is_none_or(|started| started >= *at),
            Condition::Before(at) => run.started_at().is_some_and(|started| started < *at),
            Condition::Longer(span) => run.duration_ms(self.now).is_some_and(|took| took > *span),
            Condition::Shorter(span) => run.duration_ms(self.now).is_some_and(|took| took < *span),
            Condition::Error(wanted) => run.error_code().is_some_and(|code| is_one(wanted, code)),
            Condition::Id(wanted) => wanted
                .iter()
                .any(|part| run.id().starts_with(part.as_str()) || run.id().ends_with(part.as_str())),
            Condition::Words(word) => {
                let fields = [run.id(), run.workflow(), run.error_code().unwrap_or_default()];
                let has = |text: &str| text.to_lowercase().contains(word.as_str());
                fields.into_iter().any(has) || run.tags().any(has) || run.error_message().is_some_and(has)
            }
        }
    }

    /// The part that the server can apply.
    fn for_server(&self) -> ListRuns {
        let mut list = ListRuns::default();
        for (negated, condition) in &self.conditions {
            let slot = match condition {
                _ if *negated => continue,
                Condition::Status(wanted) => {
                    if let [one] = wanted.as_slice() {
                        list.status = status_of(*one).map(|status| status.as_str().to_owned());
                    }
                    continue;
                }
                Condition::Workflow(wanted) => (&mut list.workflow, wanted),
                Condition::Tag(wanted) => (&mut list.tag, wanted),
                _ => continue,
            };
            if let (slot, [one]) = (slot.0, slot.1.as_slice()) {
                *slot = Some(one.clone());
            }
        }
        list
    }

    /// Whether a run, and therefore every older one, started too early.
    fn is_past(&self, run: &Run) -> bool {
        let started = run.started_at();
        self.conditions.iter().any(|(negated, condition)| match condition {
            Condition::After(at) if !negated => started.is_some_and(|started| started < *at),
            _ => false,
        })
    }

    /// The newest matching runs.
    pub(crate) async fn scan(&self, api: &Api, limit: usize) -> Result<MatchingRuns, Failure> {
        let list = self.for_server();
        let (mut runs, mut cursor, mut scanned) = (Vec::new(), None, 0);
        loop {
            let wanted = if self.conditions.is_empty() { limit + 1 - runs.len().min(limit) } else { PAGE };
            let page = api.runs(&list, wanted, cursor.as_deref()).await?;
            scanned += page.items.len();
            for run in page.items {
                if self.is_past(&run) {
                    return Ok(MatchingRuns { runs, more: false });
                }
                if self.matches(&run) {
                    if runs.len() == limit {
                        return Ok(MatchingRuns { runs, more: true });
                    }
                    runs.push(run);
                }
            }
            match page.next {
                None => return Ok(MatchingRuns { runs, more: false }),
                Some(_) if scanned >= SCANNED => return Ok(MatchingRuns { runs, more: true }),
                Some(next) => cursor = Some(next),
            }
        }
    }
}

/// A key has only letters; a URL or a time in a search is text.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic()) && !matches!(key, "http" | "https")
}

/// Splits at spaces that are not inside quotes.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                word.push('"');
            }
            character if character.is_whitespace() && !quoted => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            character => word.push(character),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// The one status that an outcome is, if it is one.
const fn status_of(outcome: RunOutcome) -> Option<RunStatus> {
    match outcome {
        RunOutcome::Pending => Some(RunStatus::Pending),
        RunOutcome::Running => Some(RunStatus::Running),
        RunOutcome::Waiting => None,
        RunOutcome::Paused => Some(RunStatus::Paused),
        RunOutcome::Completed => Some(RunStatus::Completed),
        // Both are `failed` on the wire.
        RunOutcome::Rejected | RunOutcome::Failed => Some(RunStatus::Failed),
        RunOutcome::Cancelling => Some(RunStatus::Cancelling),
        RunOutcome::Cancelled => Some(RunStatus::Cancelled),
    }
}

fn condition(key: &str, value: &str, now: Timestamp) -> Result<Condition, Failure> {
    let values = || value.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    if value.is_empty() {
        return Err(invalid(&format!("The filter `{key}` has no value."), "Write it as key:value."));
    }
    Ok(match key {
        "status" => Condition::Status(values().iter().map(|value| outcome(value)).collect::<Result<_, _>>()?),
        "workflow" => Condition::Workflow(values()),
        "tag" => Condition::Tag(values()),
        "by" => Condition::By(values()),
        "error" => Condition::Error(values()),
        "id" => Condition::Id(values()),
        "after" => Condition::After(instant(value, now)?),
        "before" => Condition::Before(instant(value, now)?),
        "longer" => Condition::Longer(length(value)?),
        "shorter" => Condition::Shorter(length(value)?),
        unknown => {
            let meant = nearest(unknown, KEYS, 1);
            let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
            return Err(invalid(
                &format!("Unknown filter `{unknown}`."),
                &format!("{hint}Filters: {}.", KEYS.join(", ")),
            ));
        }
    })
}

fn outcome(text: &str) -> Result<RunOutcome, Failure> {
    let known: Vec<_> = RunOutcome::ALL.iter().map(|outcome| outcome.word().to_lowercase()).collect();
    if let Some(place) = known.iter().position(|word| word == text) {
        return Ok(RunOutcome::ALL[place]);
    }
    if text.starts_with("waiting-") && RunStatus::parse(text).is_some() {
        return Ok(RunOutcome::Waiting);
    }
    let meant = nearest(text, &known, 1);
    let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
    Err(invalid(&format!("Unknown state `{text}`."), &format!("{hint}States: {}.", known.join(", "))))
}

/// An instant, or a time before now such as `-24h`.
fn instant(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    if let Some(ago) = text.strip_prefix('-') {
        return Ok(Timestamp(now.0.saturating_sub(length(ago)?)));
    }
    // A day, or a time of day in UTC with minutes, seconds or milliseconds.
    let time = text.strip_suffix('Z').unwrap_or(text);
    let endings = ["", ".000", ":00.000", "T00:00:00.000"];
    let parsed = endings.iter().find_map(|ending| Timestamp::parse(&format!("{time}{ending}Z")));
    parsed.ok_or_else(|| {
        invalid(&format!("`{text}` is not a time."), "Use -24h, 2026-11-16 or 2026-11-16T12:00:00Z.")
    })
}

fn length(text: &str) -> Result<u64, Failure> {
    parse_span(text)
        .map_err(|problem| invalid(&format!("{problem}."), "Write a number and a unit, such as 24h."))
}

fn invalid(message: &str, help: &str) -> Failure {
    Envelope::new(CommandErrorCode::FilterInvalid, message).suggest(help).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn filter(words: &[&str]) -> Filter {
        Filter::parse(words.iter().copied(), &RunsFilter::default(), NOW).unwrap()
    }

    fn run() -> Run {
        Run::new(json!({
            "runId": "run_00000000000000000000000000abcdef", "workflowId": "incident", "status": "failed",
            "tags": ["prod"], "owner": {"principal": "ada"},
            "startedAt": Timestamp(NOW.0 - 60_000).to_rfc3339(),
            "completedAt": Timestamp(NOW.0 - 30_000).to_rfc3339(),
            "error": {"code": "upstream_timeout", "message": "the Pager is silent"},
        }))
    }

    #[test]
    fn each_filter_selects() {
        for (words, expected) in [
            (&[][..], true),
            (&["status:failed"], true),
            (&["status:failed,completed"], true),
            (&["status:rejected"], false),
            (&["-status:failed"], false),
            (&["workflow:incident tag:prod by:ada"], true),
            (&["workflow:other"], false),
            (&["after:-1h"], true),
            (&["after:-40s"], false),
            (&["before:-40s"], true),
            (&["before:2020-01-01"], false),
            (&["before:2020-01-01T12:30Z"], false),
            (&["after:2020-01-01T12:30:00Z after:2020-01-01T12:30:00.000Z"], true),
            (&["longer:10s"], true),
            (&["longer:30s"], false),
            (&["shorter:31s"], true),
            (&["error:upstream_timeout"], true),
            (&["id:abcdef"], true),
            (&["pager"], true),
            (&["\"pager is\""], true),
            (&["nothing"], false),
            (&["-nothing"], true),
        ] {
            assert_eq!(filter(words).matches(&run()), expected, "{words:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (word, expected) in [
            ("stauts:failed", "Did you mean `status`?"),
            ("status:faild", "Did you mean `failed`?"),
            ("after:yesterday", "is not a time"),
            ("longer:ten", "is not a duration"),
            ("tag:", "has no value"),
        ] {
            let refused = Filter::parse([word], &RunsFilter::default(), NOW).unwrap_err().to_string();
            assert!(refused.contains(expected), "{word}: {refused}");
        }
    }

    #[test]
    fn the_server_gets_what_it_can_filter() {
        let expected = ListRuns {
            status: Some("failed".to_owned()),
            workflow: Some("a".to_owned()),
            tag: Some("t".to_owned()),
        };
        assert_eq!(filter(&["status:rejected", "workflow:a", "tag:t"]).for_server(), expected);
        let open = filter(&["status:failed,running", "-workflow:a", "status:waiting", "tag:a,b"]);
        assert_eq!(open.for_server(), ListRuns::default());
    }

    #[test]
    fn options_are_filters() {
        let options = RunsFilter { since: Some("24h".to_owned()), ..RunsFilter::default() };
        let day = Condition::After(Timestamp(NOW.0 - 86_400_000));
        assert_eq!(Filter::parse([], &options, NOW).unwrap().conditions, [(false, day)]);
    }
}
