//! What the kernel cannot know: whether somebody renders a handle, and which paths are taken.

use super::{Finding, Shell};
use crate::provider;

/// What the host answers before the console is asked.
const RESERVED: &[&str] =
    &["v1", "mcp", ".well-known", "healthz", "readyz", "metrics", "sign-in", "sign-out", "assets"];

/// Everything that is worth saying about a composition.
pub(super) fn shell(shell: &Shell) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, handle) in shell.handles() {
        if provider::of(&handle.owner_id, &handle.kind, &handle.id).is_none() {
            let name = format!("{}/{}", handle.kind, handle.id);
            findings.push(Finding::handle_missing(&name, key));
        }
    }
    for route in &shell.routes {
        let first = route.path.split('/').nth(1).unwrap_or_default();
        if RESERVED.contains(&first) {
            findings.push(Finding::shadowed(&route.key, &route.path));
        }
    }
    findings
}
