//! What is told of the work of a node while it goes on.

use std::pin::Pin;

use flow::engine::{Cause, Report, Reported};
use flow::event::data::value::OutputChunk;
use flow::event::{EventData, EventKind};

/// Whether something was recorded.
pub type Recording<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Who records what happens before the work of a node is at its end. Durable when it answers.
pub trait Listener: Send + Sync {
    /// Records what happened. Whoever does the work tells all of it once more at the end: what was not recorded here, because the run is
    /// paused or the store is busy, is recorded then, and what was is left out.
    fn tell(&self, told: Vec<Reported>) -> Recording<'_>;
}

/// What was recorded before the end, as events of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    /// All that are no pieces of a reply, with their ids.
    pub(crate) others: Vec<(EventKind, String)>,
    /// The pieces, joined.
    pub(crate) text: String,
    /// Whether the last piece was among them.
    pub(crate) is_whole: bool,
}

impl Recorded {
    /// One more event.
    pub(crate) fn add(&mut self, data: &EventData, id: String) {
        if let EventData::OutputChunk(piece) = data {
            self.text.push_str(&piece.chunk);
            self.is_whole |= piece.is_last;
        } else {
            self.others.push((data.kind(), id));
        }
    }

    /// What is left to record of all that happened. Pieces may have been cut elsewhere the first time: a reply goes on after the last
    /// byte of it that was recorded. Another reply than the one that was begun is recorded whole.
    pub(crate) fn rest_of(&self, told: Vec<Reported>) -> Vec<Reported> {
        let whole: String = told.iter().filter_map(piece).map(|piece| piece.chunk.as_str()).collect();
        let goes_on = whole.starts_with(&self.text);
        let mut unsaid = if goes_on { self.text.len() } else { 0 };
        let (mut others, mut rest) = (self.others.iter().peekable(), Vec::with_capacity(told.len()));
        // Where each of them is found now, for those that it caused.
        let mut places: Vec<Option<Cause>> = Vec::with_capacity(told.len());
        for mut told in told {
            let recorded = if let Report::Event { data, .. } = &mut told.report
                && let EventData::OutputChunk(piece) = &mut **data
            {
                let length = piece.chunk.len();
                let left = piece.chunk.get(unsaid.min(length)..).unwrap_or_default().to_owned();
                unsaid -= unsaid.min(length);
                let is_said = if piece.is_last { self.is_whole && goes_on } else { left.is_empty() };
                piece.chunk = left;
                is_said.then_some(None)
            } else {
                let found = others.next_if(|(kind, _)| *kind == told.kind());
                found.map(|(_, id)| Some(Cause::Id(id.clone())))
            };
            if let Some(place) = recorded {
                places.push(place);
                continue;
            }
            if let Some(Cause::Reported(place)) = told.cause {
                told.cause = places.get(place).cloned().flatten();
            }
            places.push(Some(Cause::Reported(rest.len())));
            rest.push(told);
        }
        rest
    }
}

/// The piece of a reply that was told, where it is one.
fn piece(told: &Reported) -> Option<&OutputChunk> {
    match told.data()? {
        EventData::OutputChunk(piece) => Some(piece),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn words(pieces: &[&str]) -> Vec<Reported> {
        let last = pieces.len().saturating_sub(1);
        let piece = |(place, text): (usize, &&str)| {
            told(
                EventKind::OutputChunk,
                &json!({"chunk": text, "isLast": place == last, "nodeId": "n", "runId": "r"}),
            )
        };
        pieces.iter().enumerate().map(piece).collect()
    }

    fn told(kind: EventKind, payload: &Value) -> Reported {
        Reported::read(kind, payload.as_object().unwrap().clone()).unwrap()
    }

    fn usage() -> Reported {
        let payload = json!({"inputTokens": 1, "outputTokens": 1, "model": "m", "provider": "p"});
        told(EventKind::ProviderUsage, &payload)
    }

    /// What is recorded when the first of these were.
    fn after(told: &[Reported], many: usize) -> Recorded {
        let mut recorded = Recorded::default();
        for (place, told) in told.iter().take(many).enumerate() {
            recorded.add(told.data().unwrap(), format!("e{place}"));
        }
        recorded
    }

    fn said(told: &[Reported]) -> String {
        told.iter().filter_map(piece).map(|piece| piece.chunk.as_str()).collect()
    }

    #[test]
    fn what_was_recorded_is_not_recorded_again_and_causes_are_found_where_they_are() {
        let decided = told(EventKind::LogAppended, &json!({"level": "info", "message": "a line"}));
        let caused = usage().because(Cause::Reported(0));
        let mut all = vec![decided];
        all.extend(words(&["a", "b"]));
        all.push(caused);
        let rest = after(&all, 2).rest_of(all.clone());
        assert_eq!(said(&rest), "b");
        assert_eq!(rest[1].cause, Some(Cause::Id("e0".to_owned())));
        let rest = Recorded::default().rest_of(all.clone());
        assert_eq!(rest, all);
        assert_eq!(after(&all, 4).rest_of(all), []);
    }

    #[test]
    fn what_the_engine_recorded_is_not_taken_for_what_the_work_told() {
        let mut recorded = Recorded::default();
        for kind in [EventKind::ApprovalReceived, EventKind::NodeResumed] {
            recorded.others.push((kind, "e".to_owned()));
        }
        let told = vec![told(EventKind::InterruptRequested, &json!({"kind": "approval"})), usage()];
        assert_eq!(recorded.rest_of(told.clone()), told);
    }

    #[test]
    fn the_last_piece_is_told_once_even_where_nothing_is_left_to_say() {
        let recorded = Recorded { text: "ab".to_owned(), ..Recorded::default() };
        let rest = recorded.rest_of(words(&["a", "b"]));
        assert_eq!((rest.len(), said(&rest).as_str(), piece(&rest[0]).unwrap().is_last), (1, "", true));
    }

    #[test]
    fn another_reply_than_the_one_that_was_begun_is_told_whole() {
        let recorded = Recorded { text: "something else".to_owned(), ..Recorded::default() };
        assert_eq!(said(&recorded.rest_of(words(&["a", "b"]))), "ab");
    }

    proptest! {
        #[test]
        fn however_a_reply_is_cut_the_second_time_it_is_told_once(
            text in "\\PC{0,40}", cuts in prop::collection::vec(0_usize..50, 0..4), again in prop::collection::vec(0_usize..50, 0..4),
            many in 0_usize..6,
        ) {
            let cut = |cuts: &[usize]| {
                let mut places: Vec<usize> = cuts.iter().copied().filter(|place| text.is_char_boundary(*place)).collect();
                places.extend([0, text.len()]);
                places.sort_unstable();
                let pieces: Vec<&str> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
                words(&pieces)
            };
            let (first, second) = (cut(&cuts), cut(&again));
            let recorded = after(&first, many);
            let rest = recorded.rest_of(second);
            prop_assert_eq!(format!("{}{}", recorded.text, said(&rest)), text.clone());
            let lasts = rest.iter().filter_map(piece).filter(|piece| piece.is_last).count();
            prop_assert_eq!(lasts, usize::from(!recorded.is_whole));
        }
    }
}
