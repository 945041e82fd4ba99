//! Stores that wrap another: they change commits, and pass reads through.

macro_rules! reads_of {
    ($store:ident) => {
        crate::store::reads_of! { in $store:
            run(tenant: Option<&flow::id::Tenant>, run_id: &flow::id::RunId) -> Option<flow::store::RunRow>;
            appends(run_id: &flow::id::RunId, from: u64, max_events: usize, max_bytes: usize) -> Vec<flow::store::StoredAppend>;
            run_checkpoint(run_id: &flow::id::RunId) -> Option<flow::store::Bytes>;
            runs(tenant: &flow::id::Tenant, filter: &flow::store::RunFilter, limit: usize) -> Vec<flow::store::ListedRun>;
            open_runs(after: Option<&flow::id::RunId>, limit: usize) -> Vec<flow::id::RunId>;
            aged_runs(after: u64, limit: usize) -> Vec<flow::store::AgedRun>;
            aged_run(run_id: &flow::id::RunId) -> Option<flow::store::AgedRun>;
            children(run_id: &flow::id::RunId) -> Vec<flow::id::RunId>;
            definition(tenant: &flow::id::Tenant, workflow_id: &flow::id::WorkflowId) -> Option<(canon::digest::Digest, flow::store::Bytes)>;
            definition_by_digest(digest: canon::digest::Digest) -> Option<flow::store::Bytes>;
            definitions(tenant: &flow::id::Tenant, after: Option<&flow::id::WorkflowId>, limit: usize) -> Vec<(flow::id::WorkflowId, canon::digest::Digest)>;
            due_timers(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Timer>;
            next_timer() -> Option<flow::store::Timer>;
            answer(key: &flow::store::AnswerKey) -> Option<flow::store::Answer>;
            oldest_answer() -> Option<canon::time::Timestamp>;
            activity(id: &flow::id::EffectId) -> Option<Option<flow::store::Bytes>>;
            artifact(run_id: &flow::id::RunId, artifact_id: &flow::id::ArtifactId) -> Option<flow::store::Bytes>;
            artifact_ids(run_id: &flow::id::RunId, limit: usize) -> Vec<flow::id::ArtifactId>;
            annotations(run_id: &flow::id::RunId) -> Vec<flow::store::Bytes>;
            webhooks(tenant: &flow::id::Tenant) -> Vec<(flow::id::SubscriptionId, flow::store::Bytes)>;
            due_deliveries(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Delivery>;
            webhook(webhook_id: &flow::id::SubscriptionId) -> Option<(flow::id::Tenant, flow::store::Bytes)>;
            next_delivery() -> Option<canon::time::Timestamp>;
            buried_deliveries(webhook_id: &flow::id::SubscriptionId, limit: usize) -> Vec<(flow::store::Delivery, String)>;
            audit(tenant: &flow::id::Tenant, from: u64, to: u64, limit: usize) -> Vec<flow::store::AuditEntry>;
            audit_end(tenant: &flow::id::Tenant) -> Option<u64>;
            checkpoints(tenant: &flow::id::Tenant, from: u64, to: u64, limit: usize) -> Vec<(u64, flow::store::Bytes)>;
            checkpoint_before(tenant: &flow::id::Tenant, sequence: u64) -> Option<(u64, flow::store::Bytes)>;
            listening(after: Option<(&flow::id::Tenant, &flow::id::WorkflowId)>, limit: usize) -> Vec<(flow::id::Tenant, flow::id::WorkflowId)>;
            workflows_containing(texts: [&str; 2], after: Option<(&flow::id::Tenant, &flow::id::WorkflowId)>, limit: usize) -> Vec<(flow::id::Tenant, flow::id::WorkflowId)>;
            listener_place(tenant: &flow::id::Tenant, workflow_id: &flow::id::WorkflowId, consumer: &str) -> Option<String>;
            api_key(hash: canon::digest::Digest) -> Option<flow::store::Bytes>;
            api_keys() -> Vec<(canon::digest::Digest, flow::store::Bytes)>;
        }
    };
    (in $store:ident: $($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)+) => {
        $(
            fn $name(&self, $($argument: $kind),*) -> flow::store::Read<$result> {
                self.$store.$name($($argument),*)
            }
        )+
    };
}

pub(crate) use reads_of;
