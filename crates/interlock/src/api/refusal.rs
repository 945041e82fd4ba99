//! Errors of the server as envelopes: its own code, its message, and what to do next.

use canon::error::{Envelope, ErrorCode, Retry};
use runs::ApiCode;
use serde_json::Value;

use crate::failure::{CommandErrorCode, Failure};

/// A code of the HTTP API.
#[derive(Clone, Copy)]
pub(crate) struct ServerCode(pub(crate) ApiCode);

impl ErrorCode for ServerCode {
    const ALL: &'static [Self] = &{
        let mut all = [Self(ApiCode::ALL[0]); ApiCode::ALL.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = Self(ApiCode::ALL[index]);
            index += 1;
        }
        all
    };

    fn as_str(self) -> &'static str {
        self.0.as_str()
    }
}

/// The error of a reply. A code that this version does not know is in the message and in the details.
pub(super) fn failure(status: u16, reply: &Value, context: &str) -> Failure {
    let (code, message) =
        (reply["error"].as_str().unwrap_or_default(), reply["message"].as_str().unwrap_or_default());
    let known = ServerCode::ALL.iter().copied().find(|known| known.as_str() == code);
    let mut envelope = match known {
        Some(known) => Envelope::new(known, message).suggest(fix(known.0, context)),
        None => Envelope::new(
            CommandErrorCode::HostRefused,
            format!("the server replied with status {status}: {code} {message}").trim_end(),
        )
        .suggest("Check the URL of the server, its log, and that it is a version that you know."),
    };
    if let Some(seconds) = reply["details"]["retryAfter"].as_u64() {
        envelope = envelope.retry(Retry::AfterMs(seconds.saturating_mul(1000)));
    }
    if code != envelope.code() && !code.is_empty() {
        envelope = envelope.detail("error", code);
    }
    for (name, value) in reply["details"].as_object().into_iter().flatten() {
        envelope = envelope.detail(name.as_str(), value.clone());
    }
    envelope.detail("status", status).into()
}

/// What to do about an error, as a command where there is one.
fn fix(code: ApiCode, context: &str) -> String {
    let fixed = match code {
        ApiCode::Unauthenticated | ApiCode::KeyExpired | ApiCode::KeyRevoked => {
            return format!(
                "Check the key of context `{context}`: `interlock context show {context}`. \
                 For the local server, set INTERLOCK_API_KEY."
            );
        }
        ApiCode::Forbidden => {
            "Use a key with the scope that the message names; an administrator creates one with \
             `interlock key new --scope SCOPE`."
        }
        ApiCode::RunNotFound => "List runs with `interlock runs list`.",
        ApiCode::WorkflowNotFound => "List workflows with `interlock workflow list`.",
        ApiCode::InterruptNotFound | ApiCode::InterruptAlreadyResolved => {
            "See what waits for an answer with `interlock approvals list`."
        }
        ApiCode::Conflict | ApiCode::RunAlreadyActive => {
            "Look at the state of the run with `interlock runs show ID`."
        }
        ApiCode::RateLimited => "Wait a moment, then retry.",
        ApiCode::ValidationError | ApiCode::Unprocessable => "Fix what the message names, then retry.",
        ApiCode::InternalError => "Retry. If it fails again, look for the cause in the server's log.",
        _ => return format!("See docs/errors/{}.md for the cause and the fix.", page(code)),
    };
    fixed.to_owned()
}

/// The name of the page of a code. Some codes share the page of a code of the command line.
fn page(code: ApiCode) -> String {
    let is_shared = matches!(
        code,
        ApiCode::Forbidden
            | ApiCode::InternalError
            | ApiCode::NotFound
            | ApiCode::Unprocessable
            | ApiCode::ValidationError
    );
    if is_shared { code.as_str().to_uppercase() } else { code.as_str().to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_code_of_the_server_is_kept() {
        let reply =
            json!({"error": "run_not_found", "message": "no such run", "details": {"field": "runId"}});
        let Failure::Refused(envelope) = failure(404, &reply, "prod") else { panic!("an envelope") };
        assert_eq!((envelope.code(), envelope.message()), ("run_not_found", "no such run"));
        assert_eq!(envelope.details()["field"], "runId");
        assert!(envelope.suggestion().contains("interlock runs list"));
    }

    #[test]
    fn unknown_codes_and_replies_of_other_servers_are_named() {
        for (reply, expected) in [
            (json!({"error": "brand_new", "message": "later"}), "brand_new later"),
            (json!("<html>"), "status 502"),
            (Value::Null, "status 502"),
        ] {
            let Failure::Refused(envelope) = failure(502, &reply, "prod") else { panic!("an envelope") };
            assert_eq!(envelope.code(), "HOST_REFUSED");
            assert!(envelope.message().contains(expected), "{}", envelope.message());
        }
    }

    #[test]
    fn every_code_has_a_page_and_a_fix() {
        for code in ApiCode::ALL {
            assert!(!fix(*code, "prod").is_empty());
            let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("../../docs/errors/{}.md", page(*code)));
            assert!(page.is_file(), "{}", page.display());
        }
    }
}
