//! A typed client for the public HTTP API, of the local server or of a context.

mod duration;
mod event;
mod find;
mod refusal;
mod run;

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::arguments::{Globals, Target};
use crate::client::Client;
use crate::commands::serve::serving;
use crate::contexts::{Confirm, Contexts};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

pub(crate) use self::duration::{parse_span, span};
pub(crate) use self::event::Event;
pub(crate) use self::refusal::ServerCode;
pub(crate) use self::run::{Interrupt, NodeState, Run, RunOutcome};

/// The page size of lists, which is the server's maximum.
const PAGE: usize = 200;
/// The reply of a long poll may take this long, in seconds.
const POLL_SECONDS: u64 = 20;

/// A server and its name.
pub(crate) struct Api {
    client: Client,
    /// The name of the context; `None` is the server of the data directory.
    context: Option<String>,
    confirm: Confirm,
}

/// One page of a list, and the cursor of the next.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// The filters that the server applies to a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListRuns {
    pub(crate) status: Option<String>,
    pub(crate) workflow: Option<String>,
    pub(crate) tag: Option<String>,
}

/// How a fork relates to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkMode {
    Branch,
    Replay,
}

impl Api {
    /// The server that the arguments, the environment and the contexts file select. `--data-dir` selects the local server.
    pub(crate) fn connect(target: &Target, globals: &Globals) -> Result<Self, Failure> {
        let contexts = Contexts::load()?;
        let selected = contexts.selected(target.context.as_deref(), globals.data_dir.is_some())?;
        if let Some(context) = selected {
            let client = Client::of_context(&context.url, context.read_key()?, context.read_authority()?)?;
            return Ok(Self { client, context: Some(context.name.clone()), confirm: context.confirm });
        }
        let settings = Settings::load(globals)?;
        let Some(serving) = serving(&settings) else {
            let folder = settings.data_dir.value.display();
            return Err(canon::error::Envelope::new(
                CommandErrorCode::ServerRequired,
                format!("No server is running for the data directory {folder}."),
            )
            .suggest(
                "Start one with `interlock serve`, or select a remote server with `--context NAME` \
                 (`interlock context list`).",
            )
            .detail("dataDir", folder.to_string())
            .into());
        };
        Ok(Self { client: Client::of(&serving.url, &settings)?, context: None, confirm: Confirm::Bulk })
    }

    /// The name of the server: that of its context, or `local`.
    pub(crate) fn name(&self) -> &str {
        self.context.as_deref().unwrap_or("local")
    }

    /// The name of a remote context.
    pub(crate) fn remote(&self) -> Option<&str> {
        self.context.as_deref()
    }

    pub(crate) fn url(&self) -> &str {
        self.client.url()
    }

    pub(crate) const fn confirm(&self) -> Confirm {
        self.confirm
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let (status, reply) = self.client.exchange(method, path, body).await?;
        match status {
            200..=299 => Ok(reply),
            status => Err(refusal::failure(status, &reply, self.name())),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Runs, newest first.
    pub(crate) async fn runs(
        &self,
        list: &ListRuns,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<Run>, Failure> {
        let limit = limit.clamp(1, PAGE).to_string();
        let path = with_query(
            "/v1/runs",
            &[
                ("limit", Some(&limit)),
                ("status", list.status.as_deref()),
                ("workflowId", list.workflow.as_deref()),
                ("tag", list.tag.as_deref()),
                ("cursor", cursor),
            ],
        );
        Ok(page(self.get(&path).await?, "runs", Run::new))
    }

    pub(crate) async fn run(&self, id: &str) -> Result<Run, Failure> {
        Ok(Run::new(self.get(&format!("/v1/runs/{}", segment(id))).await?))
    }

    pub(crate) async fn cancel(&self, id: &str, reason: Option<&str>) -> Result<Value, Failure> {
        self.post(&format!("/v1/runs/{}:cancel", segment(id)), &because(reason)).await
    }

    pub(crate) async fn pause(&self, id: &str, reason: Option<&str>) -> Result<Value, Failure> {
        self.post(&format!("/v1/runs/{}:pause", segment(id)), &because(reason)).await
    }

    pub(crate) async fn resume(&self, id: &str, reason: Option<&str>) -> Result<Value, Failure> {
        self.post(&format!("/v1/runs/{}:resume", segment(id)), &because(reason)).await
    }

    /// Answers the interrupt of a node.
    pub(crate) async fn answer(&self, id: &str, node: &str, value: &Value) -> Result<Value, Failure> {
        let path = format!("/v1/runs/{}/interrupts/{}", segment(id), segment(node));
        self.post(&path, &json!({"resumeValue": value})).await
    }

    pub(crate) async fn fork(&self, id: &str, mode: ForkMode, from: Option<u64>) -> Result<Value, Failure> {
        let mode = match mode {
            ForkMode::Branch => "branch",
            ForkMode::Replay => "replay",
        };
        let mut body = json!({"mode": mode});
        if let Some(from) = from {
            body["fromSeq"] = from.into();
        }
        self.post(&format!("/v1/runs/{}:fork", segment(id)), &body).await
    }

    /// Everything about a run, without secrets.
    pub(crate) async fn debug_bundle(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/v1/runs/{}/debug-bundle", segment(id))).await
    }

    /// The events after a sequence number, at once or within the time of a long poll.
    pub(crate) async fn events(
        &self,
        id: &str,
        after: Option<u64>,
        wait: bool,
    ) -> Result<(Vec<Event>, bool), Failure> {
        let last = after.map_or_else(|| "-1".to_owned(), |after| after.to_string());
        let timeout = if wait { POLL_SECONDS } else { 0 }.to_string();
        let path = format!("/v1/runs/{}/events/poll", segment(id));
        let path = with_query(&path, &[("lastSequence", Some(&last)), ("timeout", Some(&timeout))]);
        let mut reply = self.get(&path).await?;
        let is_complete = reply["isComplete"].as_bool().unwrap_or_default();
        Ok((array(&mut reply, "events").into_iter().map(Event::new).collect(), is_complete))
    }

    pub(crate) async fn all_events(&self, id: &str) -> Result<Vec<Event>, Failure> {
        let (mut events, mut last) = (Vec::new(), None);
        loop {
            let (more, _) = self.events(id, last, false).await?;
            match more.last().and_then(Event::sequence) {
                Some(newest) if last.is_none_or(|last| newest > last) => last = Some(newest),
                _ => return Ok(events),
            }
            events.extend(more);
        }
    }

    pub(crate) async fn workflows(&self, cursor: Option<&str>) -> Result<Page<Value>, Failure> {
        let limit = PAGE.to_string();
        let path = with_query("/v1/workflows", &[("limit", Some(&limit)), ("cursor", cursor)]);
        Ok(page(self.get(&path).await?, "workflows", |workflow| workflow))
    }

    pub(crate) async fn all_workflows(&self) -> Result<Vec<Value>, Failure> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.workflows(cursor.as_deref()).await?;
            all.extend(page.items);
            match page.next {
                // A server that repeats its cursor would be asked forever.
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    pub(crate) async fn workflow(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/v1/workflows/{}", segment(id))).await
    }

    /// Registers a run workflow.
    pub(crate) async fn register(&self, document: &Value) -> Result<Value, Failure> {
        self.post("/v1/workflows", document).await
    }

    pub(crate) async fn webhooks(&self) -> Result<Vec<Value>, Failure> {
        Ok(array(&mut self.get("/v1/webhooks").await?, "webhooks"))
    }

    pub(crate) async fn new_webhook(&self, body: &Value) -> Result<Value, Failure> {
        self.post("/v1/webhooks", body).await
    }

    pub(crate) async fn delete_webhook(&self, id: &str) -> Result<(), Failure> {
        self.call(Method::DELETE, &format!("/v1/webhooks/{}", segment(id)), None).await.map(drop)
    }

    /// Deliveries that were given up, newest first.
    pub(crate) async fn dead_letters(&self, id: &str) -> Result<Vec<Value>, Failure> {
        let path = format!("/v1/webhooks/{}/dead-letters", segment(id));
        Ok(array(&mut self.get(&path).await?, "deliveries"))
    }

    pub(crate) async fn redeliver(&self, id: &str, delivery: &str) -> Result<Value, Failure> {
        let path = format!("/v1/webhooks/{}/dead-letters/{}:redeliver", segment(id), segment(delivery));
        self.post(&path, &json!({})).await
    }

    /// What the server offers. Needs no key.
    pub(crate) async fn discovery(&self) -> Result<Value, Failure> {
        self.get("/.well-known/openwop").await
    }
}

impl Api {
    /// A client for a context that is not saved yet.
    pub(crate) fn of(client: Client, name: &str) -> Self {
        Self { client, context: Some(name.to_owned()), confirm: Confirm::Bulk }
    }
}

/// Runs a command's requests.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    crate::commands::serve::runtime()?.block_on(work)
}

/// The same, with a time limit for all of them together. Used by shell completion.
pub(crate) fn block_on_within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(limit, work).await.ok()?.ok() })
}

fn because(reason: Option<&str>) -> Value {
    reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}))
}

fn array(reply: &mut Value, name: &str) -> Vec<Value> {
    match reply.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn page<T>(mut reply: Value, name: &str, item: impl Fn(Value) -> T) -> Page<T> {
    let next = reply["nextCursor"].as_str().map(str::to_owned);
    Page { items: array(&mut reply, name).into_iter().map(item).collect(), next }
}

/// A path with those parameters that have a value.
fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    match query.finish().as_str() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// One segment of a path. Everything except letters, digits, `-`, `_` and `.` is percent-encoded, so that an id cannot lead
/// to another path.
fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            // A segment of dots only would be removed from the path.
            b'.' if text.bytes().any(|byte| byte != b'.') => encoded.push('.'),
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_in_its_segment() {
        for (id, expected) in [
            ("run_0a-1.b", "run_0a-1.b"),
            ("a/b", "a%2Fb"),
            ("a:cancel", "a%3Acancel"),
            ("..", "%2E%2E"),
            ("é?#", "%C3%A9%3F%23"),
        ] {
            assert_eq!(segment(id), expected);
        }
    }

    #[test]
    fn only_given_parameters_are_sent() {
        assert_eq!(with_query("/v1/runs", &[("a", None)]), "/v1/runs");
        assert_eq!(with_query("/v1/runs", &[("a", Some("x y")), ("b", Some("&"))]), "/v1/runs?a=x+y&b=%26");
    }
}
