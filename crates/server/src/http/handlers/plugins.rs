//! The UI plugin dispatcher, for conformance suites.

use plugins::message::Request;
use plugins::{Allowed, dispatch};
use runs::{ApiCode, Refusal};
use serde_json::Value;

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// `POST /v1/host/sample/ui-plugin/rpc`: one message from a plugin that has all permissions and sees one artifact.
pub(in super::super) async fn rpc(call: CheckedRequest) -> HandlerResult {
    let Some(canary) = &call.state.canary else {
        return Err(Refusal::new(ApiCode::NotFound, "the operations for conformance tests are turned off"));
    };
    let invalid = |message: &str| Refusal::new(ApiCode::ValidationError, message).detail("field", "message");
    let message = call.body.get("message").unwrap_or(&Value::Null);
    let request = match Request::read(message) {
        Ok(Some(request)) => request,
        Ok(None) => return Err(invalid("`message` is not a valid ui-plugin/1 message")),
        Err(malformed) => return Err(invalid(&format!("`message`: {malformed}"))),
    };
    let answered = dispatch(&request, &Allowed::everything(), canary).await;
    Ok(response::json(200, &answered.response))
}
