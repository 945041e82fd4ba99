//! Records refused requests in the audit log.

use serde_json::json;

use super::Audit;
use crate::{Caller, Refusal};

/// The maximum length of a recorded route, in bytes.
const MAX_ROUTE_BYTES: usize = 256;

impl Audit {
    /// Records a refused request: in the log of the tenant if the key names one, and otherwise in
    /// [the host's own log](super::HOST_LOG). `route` is the pattern of the route, never a path, which may contain a token. `status`
    /// is the status of the response. Clients without a key must not be able to fill the disk. So the caller of this function limits
    /// the rate, and passes in `left_out` how many preceding refusals were not recorded.
    ///
    /// If the log cannot be written, the request is still refused.
    pub async fn denied(
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
        let entry = self.records.audited(caller, "request.denied", &details);
        let _ = self.records.commit(vec![entry]).await;
    }
}
