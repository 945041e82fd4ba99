//! Progress reports of effects.

use std::pin::Pin;

use flow::engine::{Cause, Report, Reported};
use flow::event::data::value::OutputChunk;
use flow::event::{EventData, EventKind};

/// Whether a report was recorded.
pub type Recording<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Records progress reports of an effect. They are durable when the call returns.
pub trait Listener: Send + Sync {
    /// Records reports. The effect sends all its reports again at its end: those that were not recorded here, because the run is paused or the
    /// store is busy, are recorded then, and the others are skipped.
    fn report(&self, reports: Vec<Reported>) -> Recording<'_>;
}

/// The reports that were recorded before the end, as events of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// All except output chunks, with their event ids.
    pub others: Vec<(EventKind, String)>,
    /// The text of the output chunks.
    pub text: String,
    /// Whether the last chunk was recorded.
    pub is_whole: bool,
}

impl Recorded {
    pub fn add(&mut self, data: &EventData, id: String) {
        if let EventData::OutputChunk(piece) = data {
            self.text.push_str(&piece.chunk);
            self.is_whole |= piece.is_last;
        } else {
            self.others.push((data.kind(), id));
        }
    }

    /// The reports that are not recorded yet. Chunks may be split differently than before: the rest of a reply starts after its last recorded
    /// byte. A different reply is recorded completely.
    pub fn rest_of(&self, reports: Vec<Reported>) -> Vec<Reported> {
        let text: String = reports.iter().filter_map(chunk).map(|chunk| chunk.chunk.as_str()).collect();
        let is_continuation = text.starts_with(&self.text);
        let mut skip = if is_continuation { self.text.len() } else { 0 };
        let (mut others, mut rest) = (self.others.iter().peekable(), Vec::with_capacity(reports.len()));
        // The new reference to each report, for reports that it caused.
        let mut causes: Vec<Option<Cause>> = Vec::with_capacity(reports.len());
        for mut reported in reports {
            let recorded = if let Report::Event { data, .. } = &mut reported.report
                && let EventData::OutputChunk(chunk) = &mut **data
            {
                let length = chunk.chunk.len();
                let left = chunk.chunk.get(skip.min(length)..).unwrap_or_default().to_owned();
                skip -= skip.min(length);
                let is_recorded =
                    if chunk.is_last { self.is_whole && is_continuation } else { left.is_empty() };
                chunk.chunk = left;
                is_recorded.then_some(None)
            } else {
                let found = others.next_if(|(kind, _)| *kind == reported.kind());
                found.map(|(_, id)| Some(Cause::Id(id.clone())))
            };
            if let Some(cause) = recorded {
                causes.push(cause);
                continue;
            }
            if let Some(Cause::Reported(index)) = reported.cause {
                reported.cause = causes.get(index).cloned().flatten();
            }
            causes.push(Some(Cause::Reported(rest.len())));
            rest.push(reported);
        }
        rest
    }
}

/// The output chunk of a report, if it is one.
fn chunk(reported: &Reported) -> Option<&OutputChunk> {
    match reported.data()? {
        EventData::OutputChunk(chunk) => Some(chunk),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn chunks(pieces: &[&str]) -> Vec<Reported> {
        let last = pieces.len().saturating_sub(1);
        let chunk = |(index, text): (usize, &&str)| {
            report(
                EventKind::OutputChunk,
                &json!({"chunk": text, "isLast": index == last, "nodeId": "n", "runId": "r"}),
            )
        };
        pieces.iter().enumerate().map(chunk).collect()
    }

    fn report(kind: EventKind, payload: &Value) -> Reported {
        Reported::read(kind, payload.as_object().unwrap().clone()).unwrap()
    }

    fn usage() -> Reported {
        let payload = json!({"inputTokens": 1, "outputTokens": 1, "model": "m", "provider": "p"});
        report(EventKind::ProviderUsage, &payload)
    }

    /// The record after the first reports.
    fn after(reports: &[Reported], count: usize) -> Recorded {
        let mut recorded = Recorded::default();
        for (index, reported) in reports.iter().take(count).enumerate() {
            recorded.add(reported.data().unwrap(), format!("e{index}"));
        }
        recorded
    }

    fn text_of(reports: &[Reported]) -> String {
        reports.iter().filter_map(chunk).map(|chunk| chunk.chunk.as_str()).collect()
    }

    #[test]
    fn recorded_reports_are_skipped_and_causes_are_adjusted() {
        let decided = report(EventKind::LogAppended, &json!({"level": "info", "message": "a line"}));
        let caused = usage().because(Cause::Reported(0));
        let mut all = vec![decided];
        all.extend(chunks(&["a", "b"]));
        all.push(caused);
        let rest = after(&all, 2).rest_of(all.clone());
        assert_eq!(text_of(&rest), "b");
        assert_eq!(rest[1].cause, Some(Cause::Id("e0".to_owned())));
        let rest = Recorded::default().rest_of(all.clone());
        assert_eq!(rest, all);
        assert_eq!(after(&all, 4).rest_of(all), []);
    }

    #[test]
    fn events_of_the_engine_are_not_mistaken_for_reports() {
        let mut recorded = Recorded::default();
        for kind in [EventKind::ApprovalReceived, EventKind::NodeResumed] {
            recorded.others.push((kind, "e".to_owned()));
        }
        let reports = vec![report(EventKind::InterruptRequested, &json!({"kind": "approval"})), usage()];
        assert_eq!(recorded.rest_of(reports.clone()), reports);
    }

    #[test]
    fn the_last_chunk_is_recorded_once_even_if_it_is_empty() {
        let recorded = Recorded { text: "ab".to_owned(), ..Recorded::default() };
        let rest = recorded.rest_of(chunks(&["a", "b"]));
        assert_eq!((rest.len(), text_of(&rest).as_str(), chunk(&rest[0]).unwrap().is_last), (1, "", true));
    }

    #[test]
    fn a_different_reply_is_recorded_completely() {
        let recorded = Recorded { text: "something else".to_owned(), ..Recorded::default() };
        assert_eq!(text_of(&recorded.rest_of(chunks(&["a", "b"]))), "ab");
    }

    proptest! {
        #[test]
        fn a_reply_is_recorded_once_however_it_is_split(
            text in "\\PC{0,40}", cuts in prop::collection::vec(0_usize..50, 0..4), again in prop::collection::vec(0_usize..50, 0..4),
            many in 0_usize..6,
        ) {
            let cut = |cuts: &[usize]| {
                let mut indexes: Vec<usize> = cuts.iter().copied().filter(|index| text.is_char_boundary(*index)).collect();
                indexes.extend([0, text.len()]);
                indexes.sort_unstable();
                let pieces: Vec<&str> = indexes.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
                chunks(&pieces)
            };
            let (first, second) = (cut(&cuts), cut(&again));
            let recorded = after(&first, many);
            let rest = recorded.rest_of(second);
            prop_assert_eq!(format!("{}{}", recorded.text, text_of(&rest)), text.clone());
            let lasts = rest.iter().filter_map(chunk).filter(|chunk| chunk.is_last).count();
            prop_assert_eq!(lasts, usize::from(!recorded.is_whole));
        }
    }
}
