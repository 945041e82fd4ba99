//! Checks that the kernel cannot make: whether a handle has a renderer, and which paths are
//! reserved.

use super::{Finding, Shell};
use crate::provider;

/// Paths within the console that are served before its routes.
const RESERVED: &[&str] = &["sign-in", "sign-out", "assets"];

pub(super) fn shell(shell: &Shell) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, handle) in shell.handles() {
        if provider::find(&handle.owner_id, &handle.kind, &handle.id).is_none() {
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
