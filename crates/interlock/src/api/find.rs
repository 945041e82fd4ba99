//! Finds a run by what a person would type: its id, a part of it, its console page, or `last`.

use canon::error::Envelope;
use canon::nearest::nearest;
use url::Url;

use super::{Api, ListRuns, PAGE, Run};
use crate::failure::{CommandErrorCode, Failure};

/// The fewest characters of an id that are looked for.
const FEWEST: usize = 6;
/// How many runs are looked through for a part of an id, newest first.
const SEARCHED: usize = 10_000;
/// How many candidates an error lists.
const CANDIDATES: usize = 5;
/// A whole id: `run_` and 32 digits.
const WHOLE: usize = 36;

/// What a person typed for a run.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    Last { workflow: Option<&'a str> },
    Whole(&'a str),
    Part(&'a str),
}

impl<'a> Wanted<'a> {
    fn of(text: &'a str) -> Self {
        if text == "last" {
            return Self::Last { workflow: None };
        }
        if let Some(workflow) = text.strip_prefix("last:") {
            return Self::Last { workflow: Some(workflow) };
        }
        let id = from_url(text).unwrap_or(text);
        // People copy the mark of a shortened id, too.
        let id = id.trim_start_matches('…');
        if id.len() >= WHOLE && id.starts_with("run_") { Self::Whole(id) } else { Self::Part(id) }
    }
}

/// The id in the URL of a run: the segment after `runs`.
fn from_url(text: &str) -> Option<&str> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let mut segments = url.path_segments()?;
    let id = segments.by_ref().skip_while(|segment| !matches!(*segment, "runs" | "approvals")).nth(1)?;
    let at = text.find(id).filter(|_| !id.is_empty())?;
    text.get(at..at + id.len())
}

impl Api {
    /// The run that a text names.
    ///
    /// # Errors
    /// If there is none, or several.
    pub(crate) async fn find(&self, text: &str) -> Result<Run, Failure> {
        let part = match Wanted::of(text) {
            Wanted::Whole(id) => return self.run(id).await,
            Wanted::Last { workflow } => {
                let list = ListRuns { workflow: workflow.map(str::to_owned), ..ListRuns::default() };
                let newest = self.runs(&list, 1, None).await?.items.into_iter().next();
                return newest.ok_or_else(|| self.unknown(text, &[]));
            }
            Wanted::Part(part) if part.chars().count() < FEWEST => return Err(too_short(part)),
            Wanted::Part(part) => part,
        };
        let (mut found, mut others, mut cursor) = (Vec::new(), Vec::new(), None);
        let mut searched = 0;
        loop {
            let page = self.runs(&ListRuns::default(), PAGE, cursor.as_deref()).await?;
            searched += page.items.len();
            for run in page.items {
                if run.id() == part {
                    return Ok(run);
                }
                if is_named(run.id(), part) {
                    found.push(run);
                } else if others.len() < PAGE {
                    others.push(run);
                }
            }
            match page.next {
                Some(next) if searched < SEARCHED && found.len() <= CANDIDATES => cursor = Some(next),
                _ => break,
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(self.unknown(part, &others)),
            _ => Err(ambiguous(part, &found)),
        }
    }

    fn unknown(&self, text: &str, others: &[Run]) -> Failure {
        let message = match text {
            "last" => format!("Context {} has no runs.", self.name()),
            text if text.starts_with("last:") => {
                format!("Context {} has no runs of this workflow.", self.name())
            }
            text => format!("No run has an id that starts or ends with `{text}` in context {}.", self.name()),
        };
        let ends: Vec<_> =
            others.iter().map(|run| run.id().chars().rev().take(8).collect::<Vec<_>>()).collect();
        let ends: Vec<String> = ends.into_iter().map(|end| end.into_iter().rev().collect()).collect();
        let similar = nearest(text, &ends, 1);
        let similar =
            similar.first().and_then(|end| others.iter().find(|run| run.id().ends_with(end.as_str())));
        let hint = similar.map(|run| {
            format!(
                "Similar: {} ({}, {}). ",
                run.short_id(),
                run.workflow(),
                run.outcome().word().to_lowercase()
            )
        });
        Envelope::new(CommandErrorCode::RunUnknown, message)
            .suggest(format!(
                "{}List runs with `interlock runs list`; other servers with `interlock context list`.",
                hint.unwrap_or_default()
            ))
            .into()
    }
}

/// Whether a part names an id: its start or its end, with or without the prefix.
fn is_named(id: &str, part: &str) -> bool {
    let digits = id.strip_prefix("run_").unwrap_or(id);
    id.starts_with(part) || digits.starts_with(part) || id.ends_with(part)
}

fn too_short(part: &str) -> Failure {
    Envelope::new(CommandErrorCode::RunUnknown, format!("`{part}` is too short for a run id."))
        .suggest(format!("Give at least {FEWEST} characters of the start or the end of the id, or `last`."))
        .into()
}

fn ambiguous(part: &str, found: &[Run]) -> Failure {
    let candidates: Vec<_> = found.iter().map(Run::id).take(CANDIDATES).collect();
    Envelope::new(CommandErrorCode::IdAmbiguous, format!("Several run ids start or end with `{part}`."))
        .suggest(format!("Give more characters. Candidates: {}.", candidates.join(", ")))
        .detail("candidates", candidates)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_in_several_ways() {
        const ID: &str = "run_01a1e48d4cdd1a8726240ecea203eaf0";
        for (text, expected) in [
            ("last", Wanted::Last { workflow: None }),
            ("last:incident", Wanted::Last { workflow: Some("incident") }),
            (ID, Wanted::Whole(ID)),
            ("a203eaf0", Wanted::Part("a203eaf0")),
            ("…a203eaf0", Wanted::Part("a203eaf0")),
            (
                "https://interlock.example/console/runs/run_01a1e48d4cdd1a8726240ecea203eaf0/events",
                Wanted::Whole(ID),
            ),
            ("http://127.0.0.1:7717/runs/run_01a1e48d4cdd1a8726240ecea203eaf0?node=x", Wanted::Whole(ID)),
            ("https://interlock.example/runs/", Wanted::Part("https://interlock.example/runs/")),
        ] {
            assert_eq!(Wanted::of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_id_is_found_by_its_start_or_end() {
        let id = "run_01a1e48d4cdd1a87";
        for part in ["run_01a1", "01a1e4", "dd1a87"] {
            assert!(is_named(id, part), "{part}");
        }
        assert!(!is_named(id, "1a1e48"));
    }
}
