//! Requests to clients that wait for their responses.
//!
//! A request belongs to the key and the session that it was sent to, and its id cannot be guessed. So no
//! other client can answer it or find out that it exists. A call has at most one open request, and the number
//! of calls is limited, so this table is too. A caller that stops waiting removes its request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::id::{Principal, Tenant};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

/// The client (tenant, key and session), and the id of the request.
type Key = (Arc<Client>, String);
type Table = Arc<Mutex<HashMap<Key, oneshot::Sender<ElicitationResponse>>>>;

/// The client that is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) tenant: Tenant,
    pub(crate) principal: Principal,
    pub(crate) session: String,
}

/// The client's response to an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElicitationResponse {
    /// The user completed the form.
    Accepted(Map<String, Value>),
    Declined,
    /// The user dismissed the form.
    Dismissed,
    /// The client could not ask, or its response is invalid.
    Failed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PendingRequests(Table);

/// An open request. It is removed when dropped.
#[derive(Debug)]
pub(super) struct PendingRequest {
    key: Key,
    all: Table,
    response: oneshot::Receiver<ElicitationResponse>,
}

impl ElicitationResponse {
    /// Reads the result of `elicitation/create`; `None` if the client sent an error.
    pub(crate) fn read(result: Option<Value>) -> Self {
        let Some(mut result) = result else { return Self::Failed };
        match result.get("action").and_then(Value::as_str) {
            Some("accept") => match result.get_mut("content").map(Value::take) {
                Some(Value::Object(content)) => Self::Accepted(content),
                None | Some(Value::Null) => Self::Accepted(Map::new()),
                Some(_) => Self::Failed,
            },
            Some("decline") => Self::Declined,
            Some("cancel") => Self::Dismissed,
            _ => Self::Failed,
        }
    }
}

impl PendingRequests {
    /// Adds a request with this id.
    pub(super) fn enter(&self, client: &Arc<Client>, id: &str) -> PendingRequest {
        let (to, response) = oneshot::channel();
        let key = (Arc::clone(client), id.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), to);
        PendingRequest { key, all: Arc::clone(&self.0), response }
    }

    /// Handles a client's response. Returns whether a request with this id is open for it; each is answered
    /// once.
    pub(crate) fn answer(&self, client: Client, id: &str, response: ElicitationResponse) -> bool {
        let key = (Arc::new(client), id.to_owned());
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        waits.is_some_and(|waits| waits.send(response).is_ok())
    }

    /// The number of open requests.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl PendingRequest {
    pub(super) fn id(&self) -> &str {
        &self.key.1
    }

    /// Waits for the client's response.
    pub(super) async fn response(&mut self) -> ElicitationResponse {
        // The sender is dropped only with the table, which is shared.
        (&mut self.response).await.unwrap_or(ElicitationResponse::Failed)
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(tenant: &str, principal: &str, session: &str) -> Client {
        Client {
            tenant: Tenant::new(tenant),
            principal: Principal::new(principal),
            session: session.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_request_is_answered_once_and_only_by_its_client() {
        let pending_requests = PendingRequests::default();
        let mut waits = pending_requests.enter(&Arc::new(client("a", "key", "s")), "id");
        for (other, id) in [
            (client("b", "key", "s"), "id"),
            (client("a", "other", "s"), "id"),
            (client("a", "key", "t"), "id"),
            (client("a", "key", ""), "id"),
            (client("a", "key", "s"), "di"),
        ] {
            assert!(!pending_requests.answer(other, id, ElicitationResponse::Declined));
        }
        assert!(pending_requests.answer(client("a", "key", "s"), "id", ElicitationResponse::Declined));
        assert!(!pending_requests.answer(client("a", "key", "s"), "id", ElicitationResponse::Declined));
        assert_eq!(waits.response().await, ElicitationResponse::Declined);
        assert_eq!(pending_requests.len(), 0);
    }

    #[test]
    fn a_dropped_request_is_removed() {
        let pending_requests = PendingRequests::default();
        let client = Arc::new(client("a", "key", "s"));
        let waits = pending_requests.enter(&client, "id");
        assert_eq!(pending_requests.len(), 1);
        drop(waits);
        assert_eq!(pending_requests.len(), 0);
        assert!(!pending_requests.answer(Client::clone(&client), "id", ElicitationResponse::Declined));
    }

    #[test]
    fn elicitation_results_are_parsed() {
        for (result, response) in [
            (None, ElicitationResponse::Failed),
            (Some(json!({"action": "accept"})), ElicitationResponse::Accepted(Map::new())),
            (
                Some(json!({"action": "accept", "content": {"a": 1}})),
                ElicitationResponse::Accepted(Map::from_iter([("a".to_owned(), json!(1))])),
            ),
            (Some(json!({"action": "accept", "content": [1]})), ElicitationResponse::Failed),
            (Some(json!({"action": "decline", "content": {"a": 1}})), ElicitationResponse::Declined),
            (Some(json!({"action": "cancel"})), ElicitationResponse::Dismissed),
            (Some(json!({"action": "approve"})), ElicitationResponse::Failed),
            (Some(json!(5)), ElicitationResponse::Failed),
        ] {
            assert_eq!(ElicitationResponse::read(result.clone()), response, "{result:?}");
        }
    }
}
