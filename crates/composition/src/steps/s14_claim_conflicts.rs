//! Step 14: each claim has one renderer.

use crate::assembly::Assembly;
use crate::diagnostic::{Details, Findings};
use crate::groups::repeated;

/// Reports each claim with several renderers.
pub(crate) fn check<'i>(assembly: &Assembly<'_, 'i>, findings: &mut Findings<'i>) {
    let renderers = assembly.shown().filter_map(|rank| {
        let contribution = assembly.catalogue.get(rank);
        Some(((contribution.body.claim()?, contribution.key.kind().renderer_kind()?), rank))
    });
    for ((claim, renderer_kind), ranks) in repeated(renderers) {
        let keys = ranks.iter().map(|rank| assembly.catalogue.key(*rank)).collect();
        let subjects = ranks.iter().map(|rank| assembly.catalogue.subject(*rank)).collect();
        findings.report_about(Details::DuplicateClaim { claim, keys, renderer_kind }, subjects);
    }
}
