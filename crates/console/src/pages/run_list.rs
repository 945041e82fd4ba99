//! The table of runs that several pages share.

use canon::time::Timestamp;
use flow::store::{Bytes, RunFilter};
use host::runs::Refusal;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::call::PageRequest;
use crate::parts;

pub(super) const RUN: &str = "builtin-interlock-runs:routes/run";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunRow {
    pub(super) run_id: String,
    pub(super) workflow_id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) started_at: Option<String>,
    #[serde(default)]
    pub(super) completed_at: Option<String>,
    #[serde(default)]
    pub(super) current_node_id: Option<String>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    #[serde(default)]
    pub(super) interrupt: Option<Waiting>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) kind: String,
    pub(super) node_id: String,
    #[serde(default)]
    pub(super) data: Value,
    #[serde(default)]
    pub(super) requested_at: Option<String>,
    #[serde(default)]
    pub(super) deadline: Option<String>,
}

impl RunRow {
    /// A row from a run's snapshot.
    pub(super) fn read(snapshot: &Bytes) -> Option<Self> {
        serde_json::from_slice(snapshot).ok()
    }

    /// The error in one line.
    pub(super) fn reason(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        let text = error
            .get("message")
            .and_then(Value::as_str)
            .map_or_else(|| parts::json_line(error), str::to_owned);
        Some(parts::cut(&text, 160))
    }

    fn took(&self, now: Timestamp) -> Option<String> {
        let began = Timestamp::parse(self.started_at.as_deref()?)?;
        let ended = self.completed_at.as_deref().and_then(Timestamp::parse).unwrap_or(now);
        Some(parts::duration(ended.since(began)))
    }
}

impl Waiting {
    /// The question in one line.
    pub(super) fn question(&self) -> String {
        asked(&self.data)
            .map_or_else(|| format!("{} at {}", self.kind, self.node_id), |text| parts::cut(text, 160))
    }
}

/// The title of a request, from the field that its kind uses for it.
pub(super) fn asked(data: &Value) -> Option<&str> {
    // No response is needed: the run continues when the agent is done.
    if data.get("eventType").and_then(Value::as_str) == Some(flow::engine::guide::EVENT_TYPE) {
        return Some("An agent is working");
    }
    let named = ["title", "prompt", "question", "message", "description", "initialPrompt", "eventType"];
    let pointers = [
        "/payload/title",
        "/payload/prompt",
        "/payload/message",
        "/questions/0/question",
        "/questions/0/text",
        "/customKind",
    ];
    let direct = named.iter().find_map(|name| data.get(name)?.as_str());
    direct.or_else(|| pointers.iter().find_map(|pointer| data.pointer(pointer)?.as_str()))
}

/// A page of runs, and the cursor of the next.
pub(super) fn read(
    call: &PageRequest,
    filter: &RunFilter,
    limit: usize,
) -> Result<(Vec<RunRow>, Option<u64>), Refusal> {
    let (found, next) = call.runs().list(&call.caller, filter, limit)?;
    Ok((found.iter().filter_map(RunRow::read).collect(), next))
}

pub(super) fn table(call: &PageRequest, runs: &[RunRow]) -> Markup {
    html! {
        div.scroll.cards {
            table {
                thead { tr { th { "Run" } th { "Workflow" } th { "State" } th { "Current node" } th { "Started" } th.number { "Duration" } } }
                tbody {
                    @for run in runs {
                        tr {
                            th scope="row" { (call.anchor(RUN, &[("runId", &run.run_id)], html! { span.mono { (run.run_id) } })) }
                            td.name { (run.workflow_id) }
                            td.state { (parts::status(&run.status)) }
                            td.wide {
                                @match (&run.interrupt, run.reason()) {
                                    (Some(waiting), _) => (waiting.question()),
                                    (None, Some(reason)) => (reason),
                                    (None, None) => @if let Some(node) = &run.current_node_id { (node) },
                                }
                            }
                            td data-label="Started" { @if let Some(at) = &run.started_at { (call.timestamp(at)) } }
                            td.number data-label="Took" { (run.took(call.now).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}
