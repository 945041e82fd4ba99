//! The mock provider that a caller can request for a run.

use std::time::Duration;

use ai::provider::mock::StreamMock;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Value, json};

use super::super::{NodeRequest, Performed};
use super::outputs;

/// The result of the mock provider.
pub(super) async fn mock_reply(asked: NodeRequest<'_>, mock: &Value) -> Result<Performed, RunError> {
    let (id, config) = match mock {
        Value::String(id) => (id.as_str(), &Value::Null),
        other => (
            other.get("id").and_then(Value::as_str).unwrap_or_default(),
            other.get("config").unwrap_or(&Value::Null),
        ),
    };
    let mock = StreamMock::read(id, config)
        .map_err(|error| RunError::of(FailureCode::ValidationError, error.to_string()))?;
    if let Some(failure) = &mock.failure {
        tokio::time::sleep(Duration::from_millis(failure.after_ms)).await;
        return Ok(Performed::plain(Err(RunError::new(failure.code.as_str(), failure.message.as_str()))));
    }
    let reports = outputs::pieces(asked, &mock.tokens, &mock.meta());
    for _ in &reports {
        tokio::time::sleep(Duration::from_millis(mock.delay_ms_per_token)).await;
    }
    let outcome = json!({"content": mock.tokens.concat(), "meta": mock.meta()});
    Ok(Performed { reports, outcome: Ok(outcome) })
}
