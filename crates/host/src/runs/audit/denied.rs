//! What was refused is recorded too.

use serde_json::json;

use crate::runs::{Caller, Refusal, Runs};

/// The longest route that is recorded, in bytes.
const MAX_ROUTE_BYTES: usize = 256;

impl Runs {
    /// Records that somebody was turned away: in the log of their tenant where a key said which, and in
    /// [the host's own](super::HOST_LOG) where none did. `route` is the pattern of the route, never a path, which may hold a token.
    /// Whoever has no key must not be able to fill the disk, so the caller of this bounds how often it is called, and says with
    /// `left_out` how many before were not recorded. `status` is what the caller was answered in its protocol.
    ///
    /// A refusal stays a refusal when the log cannot be written.
    pub async fn audit_denied(
        &self,
        caller: &Caller,
        refusal: &Refusal,
        status: u16,
        method: &str,
        route: &str,
        left_out: u64,
    ) {
        let mut end = route.len().min(MAX_ROUTE_BYTES);
        while !route.is_char_boundary(end) {
            end -= 1;
        }
        let mut details = json!({
            "status": status,
            "error": refusal.code.as_str(),
            "method": method,
            "route": route[..end],
        });
        if left_out > 0 {
            details["leftOut"] = left_out.into();
        }
        let entry = self.audited(caller, "request.denied", &details);
        let _ = self.commit(vec![entry]).await;
    }
}
