//! Stores that stand in front of another: what they change is the commits, and reads go through.

macro_rules! reads_of {
    ($store:ident) => {
        crate::store::reads_of! { in $store:
            run(tenant: Option<&str>, run_id: &str) -> Option<flow::store::RunRow>;
            appends(run_id: &str, from: u64, max_events: usize, max_bytes: usize) -> Vec<flow::store::StoredAppend>;
            runs(tenant: &str, filter: &flow::store::RunFilter, limit: usize) -> Vec<flow::store::ListedRun>;
            open_runs(after: Option<&str>, limit: usize) -> Vec<String>;
            aged_runs(after: u64, limit: usize) -> Vec<flow::store::AgedRun>;
            aged_run(run_id: &str) -> Option<flow::store::AgedRun>;
            children(run_id: &str) -> Vec<String>;
            definition(tenant: &str, workflow_id: &str) -> Option<(canon::digest::Digest, flow::store::Bytes)>;
            definition_by_digest(digest: canon::digest::Digest) -> Option<flow::store::Bytes>;
            definitions(tenant: &str, after: Option<&str>, limit: usize) -> Vec<(String, canon::digest::Digest)>;
            due_timers(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Timer>;
            next_timer() -> Option<flow::store::Timer>;
            answer(key: &flow::store::AnswerKey) -> Option<flow::store::Answer>;
            oldest_answer() -> Option<canon::time::Timestamp>;
            activity(id: &str) -> Option<Option<flow::store::Bytes>>;
            artifact(run_id: &str, artifact_id: &str) -> Option<flow::store::Bytes>;
            artifact_ids(run_id: &str, limit: usize) -> Vec<String>;
            annotations(run_id: &str) -> Vec<flow::store::Bytes>;
            webhooks(tenant: &str) -> Vec<(String, flow::store::Bytes)>;
            due_deliveries(at: canon::time::Timestamp, limit: usize) -> Vec<flow::store::Delivery>;
            webhook(webhook_id: &str) -> Option<(String, flow::store::Bytes)>;
            next_delivery() -> Option<canon::time::Timestamp>;
            buried_deliveries(webhook_id: &str, limit: usize) -> Vec<(flow::store::Delivery, String)>;
            audit(tenant: &str, from: u64, to: u64, limit: usize) -> Vec<flow::store::AuditEntry>;
            audit_end(tenant: &str) -> Option<u64>;
            checkpoints(tenant: &str, from: u64, to: u64, limit: usize) -> Vec<(u64, flow::store::Bytes)>;
            checkpoint_before(tenant: &str, sequence: u64) -> Option<(u64, flow::store::Bytes)>;
            listening(after: Option<(&str, &str)>, limit: usize) -> Vec<(String, String)>;
            workflows_containing(texts: [&str; 2], after: Option<(&str, &str)>, limit: usize) -> Vec<(String, String)>;
            listener_place(tenant: &str, workflow_id: &str, consumer: &str) -> Option<String>;
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
