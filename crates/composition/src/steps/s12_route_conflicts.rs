//! Step 12: no two remaining routes match the same paths.

use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::contribution::Body;
use crate::diagnostic::{Details, Findings};
use crate::grammar::path_shape;
use crate::groups::repeated;

/// Reports each shape with several routes. Returns whether nothing was found.
pub(crate) fn check<'i>(assembly: &Assembly<'_, 'i>, findings: &mut Findings<'i>) -> bool {
    let routes = assembly.shown().filter_map(|rank| match assembly.catalogue.get(rank).body {
        Body::Route { path, .. } => Some((path_shape(assembly.effective_path(rank, path)), rank)),
        _ => None,
    });
    let conflicts = repeated(routes);
    let none = conflicts.is_empty();
    for (shape, ranks) in conflicts {
        let path = ranks.iter().map(|rank| effective_path(assembly, *rank)).min().unwrap_or_default();
        let mut policy_ids: Vec<_> =
            ranks.iter().filter_map(|rank| Some(assembly.aliases.get(rank)?.1)).collect();
        policy_ids.sort_unstable();
        policy_ids.dedup();
        let keys = ranks.iter().map(|rank| assembly.catalogue.key(*rank)).collect();
        let subjects = ranks.iter().map(|rank| assembly.catalogue.subject(*rank)).collect();
        findings.report_about(Details::DuplicatePath { keys, path, policy_ids, shape }, subjects);
    }
    none
}

fn effective_path<'i>(assembly: &Assembly<'_, 'i>, rank: Rank) -> &'i str {
    match assembly.catalogue.get(rank).body {
        Body::Route { path, .. } => assembly.effective_path(rank, path),
        _ => "",
    }
}
