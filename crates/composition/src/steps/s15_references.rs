//! Step 15: each remaining sidebar item refers to a remaining route.

use crate::assembly::Assembly;
use crate::contribution::Body;
use crate::diagnostic::{Details, Findings, ReferenceReason};

/// Reports references that were broken before any policy; step 9 has rejected policies that break one.
pub(crate) fn check<'i>(assembly: &Assembly<'_, 'i>, findings: &mut Findings<'i>) {
    for item in assembly.shown() {
        let Body::SidebarItem { route_key: Some(reference), .. } = assembly.catalogue.get(item).body else {
            continue;
        };
        let reason = match assembly.catalogue.rank_of(reference) {
            None => ReferenceReason::MissingTarget,
            Some(rank) if !assembly.is_shown(rank) => ReferenceReason::InactiveTarget,
            Some(_) => continue,
        };
        let from = Some(assembly.catalogue.key(item));
        findings.report(
            Details::Reference { field: "routeKey", from, reason, reference },
            assembly.catalogue.subject(item),
        );
    }
}
