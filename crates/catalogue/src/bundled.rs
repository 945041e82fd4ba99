//! The workflows that are bundled with the program. Each is compiled on first use.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use canon::digest::Digest;
use guide::workflow::ids::SourceOrigin;
use guide::workflow::problem::Problem;
use guide::workflow::registry::{self, BundledWorkflow};
use guide::workflow::source::{self, Format, Source};
use serde::Deserialize;

/// The metadata of a bundled workflow for listings.
#[derive(Debug, Deserialize)]
pub(super) struct Card {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) version: String,
    #[serde(default)]
    pub(super) examples: Vec<String>,
    #[serde(skip)]
    pub(super) tags: &'static [&'static str],
}

/// The metadata of all bundled workflows, sorted by id.
pub(super) fn cards() -> &'static [Card] {
    static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
        let card = |workflow: &BundledWorkflow| {
            let mut card: Card = serde_json::from_str(workflow.source).ok()?;
            card.tags = workflow.tags;
            Some(card)
        };
        registry::bundled().iter().filter_map(card).collect()
    });
    &CARDS
}

/// A source, with the digest of its text.
pub(super) type Parsed = (Digest, Source);

/// The source of a bundled workflow. It is parsed once.
pub(super) fn source(workflow: &BundledWorkflow) -> Result<Arc<Parsed>, Vec<Problem>> {
    static PARSED: LazyLock<Mutex<HashMap<&'static str, Arc<Parsed>>>> = LazyLock::new(Mutex::default);
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = parsed.get(workflow.id) {
        return Ok(known.clone());
    }
    let bytes = workflow.source.as_bytes();
    let source = source::parse_from(bytes, Format::Json, SourceOrigin::Bundled)?;
    let known = Arc::new((Digest::of_bytes(bytes), source));
    parsed.insert(workflow.id, known.clone());
    Ok(known)
}

/// The id of a bundled workflow that was requested without its namespace, or with different hyphens.
pub(super) fn canonical_id(alias: &str) -> Option<&'static str> {
    if alias.contains('.') || alias.len() > 64 {
        return None;
    }
    let candidates = [format!("wr.{alias}"), format!("wr.{}", alias.replace('-', "_"))];
    candidates.iter().find_map(|id| registry::bundled_workflow(id)).map(|workflow| workflow.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_workflow_has_a_card_with_its_id() {
        let cards: Vec<&str> = cards().iter().map(|card| card.id.as_str()).collect();
        let bundled: Vec<&str> = registry::bundled().iter().map(|workflow| workflow.id).collect();
        assert_eq!(cards, bundled);
    }

    #[test]
    fn aliases_are_names_without_the_namespace() {
        for (alias, expected) in [
            ("change_review", Some("wr.change_review")),
            ("change-review", Some("wr.change_review")),
            ("routine-ideation", Some("wr.routine-ideation")),
            ("wr.change_review", None),
            ("project.change_review", None),
            ("", None),
        ] {
            assert_eq!(canonical_id(alias), expected, "{alias}");
        }
    }
}
