//! Bodies for runs: create, fork, cancel, pause, resume.

use canon::time::Timestamp;
use flow::engine::DrainPolicy;
use flow::id::{RunId, WorkflowId};
use flow::run::{ForkMode, RunStatus};
use runs::bulk::MAX_BULK;
use runs::fork::{ForkWay, ForkedRun, NewFork, Overlay};
use runs::interrupts::PausedRun;
use runs::{ApiCode, Caller, CreatedRun, NewRun, Refusal};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::fields::{Any, Integer, List, Object, Text, Words, choice};
use super::problem::Problem;
use super::{body, check_tenant};

body! {
    /// A run to create.
    #[schemars(rename = "RunRequest")]
    closed CreateRun {
        workflow_id = "workflowId": Text<1>; "list workflows with GET /v1/workflows",
        inputs = "inputs": Option<Object>,
        /// Must be the tenant of the key.
        tenant_id = "tenantId": Option<Text<1, 1024>>,
        scope_id = "scopeId": Option<Text<1, 1024>>,
        #[schemars(extend("format" = "uri"))]
        callback_url = "callbackUrl": Option<Text<1, 1024>>,
        configurable = "configurable": Option<Object>,
        tags = "tags": Option<List<Text>>,
        metadata = "metadata": Option<Object>,
    }
}

impl CreateRun {
    pub(in crate::http) fn into_new(self, caller: &Caller) -> Result<NewRun, Refusal> {
        check_tenant(caller, self.tenant_id.as_ref().map(|tenant| tenant.0.as_str()))?;
        Ok(NewRun {
            workflow_id: WorkflowId::new(self.workflow_id.0),
            inputs: self.inputs.unwrap_or_default().0,
            configurable: self.configurable.unwrap_or_default().0,
            tags: texts(self.tags).unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default().0,
            scope_id: self.scope_id.map(|scope| scope.0),
            callback_url: self.callback_url.map(|url| url.0),
        })
    }
}

fn texts(list: Option<List<Text>>) -> Option<Vec<String>> {
    Some(list?.0.into_iter().map(|text| text.0).collect())
}

body! {
    /// A reason.
    #[schemars(rename = "Reason")]
    closed Because {
        reason = "reason": Option<Words<1024>>,
    }
}

impl Because {
    pub(in crate::http) fn into_reason(self) -> Option<String> {
        self.reason.map(|reason| reason.0)
    }
}

choice! {
    /// What happens to running nodes.
    Drain { Immediate = "immediate", DrainCurrentNode = "drain-current-node", }
    expected "`immediate` or `drain-current-node`"
}

body! {
    /// How a run is paused.
    #[schemars(rename = "Pause")]
    closed PauseRun {
        reason = "reason": Option<Words<1024>>,
        drain_policy = "drainPolicy": Option<Drain>,
    }
}

impl PauseRun {
    pub(in crate::http) fn policy(&self) -> DrainPolicy {
        match self.drain_policy {
            None => DrainPolicy::default(),
            Some(Drain::Immediate) => DrainPolicy::Immediate,
            Some(Drain::DrainCurrentNode) => DrainPolicy::DrainCurrentNode,
        }
    }
}

body! {
    /// Runs to cancel. An item that cannot be a run id has its own result.
    #[schemars(rename = "Many")]
    open CancelRuns {
        run_ids = "runIds": List<Any, 1, MAX_BULK>,
        reason = "reason": Option<Text<0, 4096>>,
    }
}

/// An item of a list of runs to cancel.
pub(in crate::http) enum Item {
    Id(RunId),
    /// Not a possible run id.
    NotAnId,
}

impl CancelRuns {
    pub(in crate::http) fn items(&self) -> Vec<Item> {
        let item = |Any(item): &Any| match item {
            Value::String(id) if (1..=128).contains(&id.len()) => Item::Id(RunId::new(id.as_str())),
            _ => Item::NotAnId,
        };
        self.run_ids.0.iter().map(item).collect()
    }
}

choice! {
    Mode { Replay = "replay", Branch = "branch", }
    expected "`replay` or `branch`"
}

body! {
    #[schemars(inline)]
    closed OptionsOverlay {
        configurable = "configurable": Option<Object>,
        tags = "tags": Option<List<Text>>,
        metadata = "metadata": Option<Object>,
    }
}

impl OptionsOverlay {
    fn into_overlay(self) -> Overlay {
        Overlay {
            configurable: self.configurable.map(|configurable| configurable.0),
            tags: texts(self.tags),
            metadata: self.metadata.map(|metadata| metadata.0),
        }
    }

    fn is_empty(&self) -> bool {
        self.configurable.as_ref().is_none_or(|Object(members)| members.is_empty())
            && self.tags.as_ref().is_none_or(|List(tags)| tags.is_empty())
            && self.metadata.as_ref().is_none_or(|Object(members)| members.is_empty())
    }
}

body! {
    /// A run to fork.
    #[schemars(rename = "Fork", transform = fork_schema)]
    closed ForkRun {
        mode = "mode": Mode,
        from_seq = "fromSeq": Option<Integer>,
        overlay = "runOptionsOverlay": Option<OptionsOverlay>,
    }
}

impl ForkRun {
    pub(in crate::http) fn into_new(self) -> Result<NewFork, Refusal> {
        let from = self.from_seq.map(|Integer(from)| from);
        let new = match (self.mode, from) {
            (Mode::Replay, _) if self.overlay.as_ref().is_some_and(|overlay| !overlay.is_empty()) => {
                let problem = Problem::other(
                    "is only allowed for a branch; a replay has the options of \
                                              its source",
                );
                Err(problem.below("runOptionsOverlay"))
            }
            (Mode::Replay, from) => Ok(NewFork { from: from.unwrap_or(0), way: ForkWay::Replay }),
            (Mode::Branch, None) => {
                let problem = Problem::other("is required for a branch: the first event to execute again");
                Err(problem.below("fromSeq"))
            }
            (Mode::Branch, Some(from)) => {
                let overlay = self.overlay.map(OptionsOverlay::into_overlay).unwrap_or_default();
                Ok(NewFork { from, way: ForkWay::Branch(overlay) })
            }
        };
        new.map_err(Problem::refusal)
    }
}

/// How members depend on each other: a branch needs a position, and a replay has the options of its source.
fn fork_schema(schema: &mut Schema) {
    let alternative = |mode: &str| {
        let mut alternative = schema.as_value().clone();
        alternative["properties"]["mode"] = json!({"const": mode});
        alternative
    };
    let (mut replay, mut branch) = (alternative("replay"), alternative("branch"));
    replay["properties"]["runOptionsOverlay"] = json!({"type": ["object", "null"], "maxProperties": 0});
    branch["properties"]["fromSeq"]["type"] = "integer".into();
    branch["required"] = json!(["mode", "fromSeq"]);
    *schema = json_schema!({"oneOf": [replay, branch]});
}

/// The schema of a run status.
pub(super) struct Status;

impl JsonSchema for Status {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"enum": RunStatus::ALL.map(RunStatus::as_str)})
    }
}

/// A new run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Created<'c> {
    #[schemars(extend("format" = "uri"))]
    events_url: String,
    #[schemars(with = "String")]
    run_id: &'c RunId,
    #[schemars(with = "Status")]
    status: RunStatus,
    #[schemars(extend("format" = "uri"))]
    status_url: String,
}

impl<'c> Created<'c> {
    /// The reply can only have the statuses with which a run begins. A run that has already ended, or waits for something external, is
    /// shown as running.
    pub(in crate::http) fn of(created: &'c CreatedRun, public_url: &str) -> Self {
        let begins = [RunStatus::Pending, RunStatus::WaitingApproval, RunStatus::WaitingInput];
        let status = if begins.contains(&created.status) { created.status } else { RunStatus::Running };
        let status_url = format!("{public_url}/v1/runs/{}", created.run_id);
        Self { events_url: format!("{status_url}/events"), run_id: &created.run_id, status, status_url }
    }
}

/// A new run that was forked from another one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Forked<'f> {
    #[schemars(extend("format" = "uri"))]
    events_url: String,
    from_seq: u64,
    #[schemars(with = "Mode")]
    mode: ForkMode,
    #[schemars(with = "String")]
    run_id: &'f RunId,
    #[schemars(with = "String")]
    source_run_id: &'f RunId,
    #[schemars(with = "Status")]
    status: RunStatus,
}

impl<'f> Forked<'f> {
    /// A fork that has already ended is shown as running, like a new run.
    pub(in crate::http) fn of(forked: &'f ForkedRun, public_url: &str) -> Self {
        let ForkedRun { run_id, source_run_id, from, mode, status } = forked;
        Self {
            events_url: format!("{public_url}/v1/runs/{run_id}/events"),
            from_seq: *from,
            mode: *mode,
            run_id,
            source_run_id,
            status: if status.is_terminal() { RunStatus::Running } else { *status },
        }
    }
}

/// The status of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Cancelled<'r> {
    #[schemars(with = "String")]
    pub(in crate::http) run_id: &'r RunId,
    #[schemars(with = "Status")]
    pub(in crate::http) status: RunStatus,
}

/// A paused run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Paused<'r> {
    /// Nodes are still running; `run.paused` follows when they have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
    #[schemars(extend("format" = "date-time"))]
    paused_at: Option<String>,
    #[schemars(with = "String")]
    run_id: &'r RunId,
    #[schemars(with = "Status")]
    status: RunStatus,
}

impl<'r> Paused<'r> {
    pub(in crate::http) fn of(run_id: &'r RunId, paused: &PausedRun) -> Self {
        let paused_at = paused.at.map(Timestamp::to_rfc3339);
        Self { draining: paused.draining, paused_at, run_id, status: RunStatus::Paused }
    }
}

/// A resumed run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Resumed<'r> {
    #[schemars(extend("format" = "date-time"))]
    resumed_at: String,
    #[schemars(with = "String")]
    run_id: &'r RunId,
    #[schemars(with = "Status")]
    status: RunStatus,
}

impl<'r> Resumed<'r> {
    pub(in crate::http) fn of(run_id: &'r RunId, at: Timestamp) -> Self {
        Self { resumed_at: at.to_rfc3339(), run_id, status: RunStatus::Running }
    }
}

/// The results of many cancellations, in the order of the request.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct Results {
    results: Vec<CancelResult>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct CancelResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CancelError>,
    ok: bool,
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Status")]
    status: Option<RunStatus>,
}

/// Why one run of many was not cancelled. The text of the protocol names the code `code`, its OpenAPI document and its clients read the
/// members of an error envelope, so both are sent.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct CancelError {
    code: String,
    error: String,
    message: String,
}

impl Results {
    /// `results` has the results of those items that are ids, in the same order.
    pub(in crate::http) fn of(items: &[Item], results: Vec<Result<RunStatus, Refusal>>) -> Self {
        let mut results = results.into_iter();
        let result = |item: &Item| match item {
            Item::NotAnId => {
                CancelResult::refused(None, "validation_error", "a run id must be a string of 1 to 128 bytes")
            }
            Item::Id(run_id) => {
                // The id is echoed and may be a secret that was sent by mistake, so it is redacted.
                let shown = flow::redact::text(run_id.as_str()).into_owned();
                match results.next() {
                    Some(result) => CancelResult::of(shown, result),
                    None => CancelResult::refused(Some(shown), "internal_error", "the run was not cancelled"),
                }
            }
        };
        Self { results: items.iter().map(result).collect() }
    }
}

impl CancelResult {
    fn of(run_id: String, result: Result<RunStatus, Refusal>) -> Self {
        match result {
            Ok(status @ (RunStatus::Completed | RunStatus::Failed)) => {
                Self::refused(Some(run_id), "run_terminal", &format!("the run is already {status}"))
            }
            Ok(status) => Self { error: None, ok: true, run_id: Some(run_id), status: Some(status) },
            Err(refusal) if refusal.code == ApiCode::RunNotFound => {
                Self::refused(Some(run_id), "not_found", "run not found")
            }
            Err(refusal) => Self::refused(Some(run_id), refusal.code.as_str(), &refusal.message),
        }
    }

    fn refused(run_id: Option<String>, code: &str, message: &str) -> Self {
        let error =
            CancelError { code: code.to_owned(), error: code.to_owned(), message: message.to_owned() };
        Self { error: Some(error), ok: false, run_id, status: None }
    }
}

body! {
    /// A run.
    open RunReference {
        run_id = "runId": Text,
    }
}

body! {
    /// New values of variables.
    #[schemars(rename = "Variables")]
    closed SetVariables {
        variables = "variables": Object,
    }
}

/// The names of the variables with new values.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Assigned<'r> {
    #[schemars(with = "String")]
    pub(in crate::http) run_id: &'r RunId,
    pub(in crate::http) updated: &'r [String],
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn caller() -> Caller {
        Caller {
            tenant: flow::id::Tenant::new("acme"),
            principal: flow::id::Principal::new("key"),
            scopes: Vec::new(),
            test: false,
        }
    }

    #[test]
    fn an_invalid_request_for_a_run_names_the_field() {
        let cases = [
            (json!([]), "body"),
            (json!({}), "workflowId"),
            (json!({"workflowId": ""}), "workflowId"),
            (json!({"workflowId": 1}), "workflowId"),
            (json!({"workflowId": "w", "inputs": []}), "inputs"),
            (json!({"workflowId": "w", "tags": "t"}), "tags"),
            (json!({"workflowId": "w", "tags": [1]}), "tags"),
            (json!({"workflowId": "w", "scopeId": ""}), "scopeId"),
            (json!({"workflowId": "w", "callbackUrl": 1}), "callbackUrl"),
            (json!({"workflowId": "w", "input": {}}), "body"),
        ];
        for (request, field) in cases {
            let refused = read::<CreateRun>(request.clone()).unwrap_err();
            assert_eq!(
                (refused.code, &refused.details["field"]),
                (ApiCode::ValidationError, &json!(field)),
                "{request}"
            );
        }
        let unknown = read::<CreateRun>(json!({"workflowId": "w", "input": {}})).unwrap_err();
        assert!(unknown.message.ends_with("did you mean `inputs`?"), "{unknown}");
        assert_eq!(unknown.details["known"][0], "workflowId");
        let missing = read::<CreateRun>(json!({})).unwrap_err();
        assert!(missing.message.ends_with("list workflows with GET /v1/workflows"), "{missing}");
        let other = read::<CreateRun>(json!({"workflowId": "w", "tenantId": "other"})).unwrap();
        assert_eq!(other.into_new(&caller()).unwrap_err().code, ApiCode::Forbidden);
    }

    #[test]
    fn null_fields_are_omitted() {
        let request = json!({"workflowId": "w", "inputs": null, "tenantId": "acme", "tags": null, "metadata": {"a": 1}});
        let new = read::<CreateRun>(request).unwrap().into_new(&caller()).unwrap();
        let plain = NewRun::of(WorkflowId::new("w"));
        assert_eq!(new, NewRun { metadata: json!({"a": 1}).as_object().unwrap().clone(), ..plain });
    }

    #[test]
    fn a_fork_request_has_a_point_and_a_mode() {
        let fork = |request: Value| read::<ForkRun>(request).and_then(ForkRun::into_new);
        for (request, field) in [
            (json!({}), "mode"),
            (json!(null), "body"),
            (json!({"mode": "rewind"}), "mode"),
            (json!({"mode": "branch", "fromSeq": "1"}), "fromSeq"),
            (
                json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": [1]}}),
                "runOptionsOverlay.tags",
            ),
            (json!({"mode": "branch", "fromSeq": 1, "other": 1}), "body"),
            (json!({"mode": "branch"}), "fromSeq"),
            (json!({"mode": "branch", "fromSeq": -1}), "fromSeq"),
            (json!({"mode": "branch", "fromSeq": 1.5}), "fromSeq"),
            (
                json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"inputs": {}}}),
                "runOptionsOverlay",
            ),
            (
                json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": {}}}),
                "runOptionsOverlay.tags",
            ),
            (json!({"mode": "replay", "runOptionsOverlay": {"tags": ["x"]}}), "runOptionsOverlay"),
            (json!({"mode": "replay", "more": 1}), "body"),
        ] {
            let refused = fork(request.clone()).unwrap_err();
            assert_eq!(
                (refused.code, &refused.details["field"]),
                (ApiCode::ValidationError, &json!(field)),
                "{request}"
            );
        }
        let replay = NewFork { from: 0, way: ForkWay::Replay };
        for overlay in [json!({}), json!({"tags": []}), json!(null)] {
            assert_eq!(fork(json!({"mode": "replay", "runOptionsOverlay": overlay})).unwrap(), replay);
        }
        let overlay = Overlay { tags: Some(vec!["x".to_owned()]), ..Overlay::default() };
        let branch = NewFork { from: 5, way: ForkWay::Branch(overlay) };
        let request =
            json!({"mode": "branch", "fromSeq": 5.0, "runOptionsOverlay": {"tags": ["x"], "metadata": null}});
        assert_eq!(fork(request).unwrap(), branch);
    }

    #[test]
    fn a_bulk_cancel_over_the_limit_names_the_limit() {
        let many: Vec<_> = (0..=MAX_BULK).map(|number| number.to_string()).collect();
        for request in
            [json!({}), json!([]), json!({"runIds": []}), json!({"runIds": "a"}), json!({"runIds": many})]
        {
            let refused = read::<CancelRuns>(request.clone()).unwrap_err();
            assert_eq!(refused.code, ApiCode::ValidationError, "{request}");
        }
        let refused = read::<CancelRuns>(json!({"runIds": ["a"], "reason": "x".repeat(4097)})).unwrap_err();
        assert_eq!(refused.details["field"], "reason");
        let items =
            read::<CancelRuns>(json!({"runIds": ["a", 7, "", "x".repeat(129)], "more": 1})).unwrap().items();
        assert!(matches!(items.as_slice(), [Item::Id(_), Item::NotAnId, Item::NotAnId, Item::NotAnId]));
    }

    #[test]
    fn bulk_cancel_items_have_an_error_envelope_each_in_its_place() {
        const SECRET: &str = "sk-proj-abcdefghijklmnop1234";
        let items =
            read::<CancelRuns>(json!({"runIds": ["slow", "none", "done", 7, SECRET]})).unwrap().items();
        let results = vec![
            Ok(RunStatus::Cancelled),
            Err(Refusal::no_run()),
            Ok(RunStatus::Completed),
            Err(Refusal::unavailable("the host is shutting down", 5)),
        ];
        let shown = serde_json::to_value(Results::of(&items, results)).unwrap();
        let refused = |run_id: Value, code: &str, message: &str| json!({"runId": run_id, "ok": false, "error": {"code": code, "error": code, "message": message}});
        let expected = json!([
            {"runId": "slow", "ok": true, "status": "cancelled"},
            refused(json!("none"), "not_found", "run not found"),
            refused(json!("done"), "run_terminal", "the run is already completed"),
            refused(json!(null), "validation_error", "a run id must be a string of 1 to 128 bytes"),
            refused(json!("[REDACTED]"), "service_unavailable", "the host is shutting down"),
        ]);
        assert_eq!(shown["results"], expected);
    }
}
