//! A store that wraps another store: for tests that fail, delay or observe commits.

use std::fmt;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{ArtifactId, EffectId, RunId, SubscriptionId, Tenant, WorkflowId};

use crate::runs::{
    AgedPage, AgedRun, Annotations, ApiKeys, Artifacts, AttemptPosition, AuditEntry, AuditLog, Bytes,
    ClaimedEffect, Commit, CommitFuture, Commits, Definitions, Delivery, Effects, Health, ListCursor,
    Listeners, ReadFuture, RecordedReply, Replies, ReplyKey, Retention, RunFilter, RunLists, RunLog, RunPage,
    RunStore, StoredAppend, StoredAttempt, StoredRun, Timer, Timers, Webhooks,
};

/// A type that wraps a store and decides what happens to commits. It is a [`RunStore`]; reads go to the wrapped store.
pub trait Wrapper: Send + Sync + fmt::Debug {
    fn wrapped(&self) -> &dyn RunStore;

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        self.wrapped().commit(commit)
    }
}

impl<W: Wrapper> Commits for W {
    fn commit(&self, commit: Commit) -> CommitFuture {
        self.commit_wrapped(commit)
    }
}

impl<W: Wrapper> Health for W {
    fn is_damaged(&self) -> bool {
        self.wrapped().is_damaged()
    }
}

impl<W: Wrapper> Annotations for W {
    fn annotations(&self, run_id: &RunId) -> ReadFuture<'_, Vec<Bytes>> {
        self.wrapped().annotations(run_id)
    }
}

impl<W: Wrapper> ApiKeys for W {
    fn api_key(&self, hash: Digest) -> ReadFuture<'_, Option<Bytes>> {
        self.wrapped().api_key(hash)
    }

    fn api_keys(&self) -> ReadFuture<'_, Vec<(Digest, Bytes)>> {
        self.wrapped().api_keys()
    }
}

impl<W: Wrapper> Artifacts for W {
    fn artifact(&self, run_id: &RunId, artifact_id: &ArtifactId) -> ReadFuture<'_, Option<Bytes>> {
        self.wrapped().artifact(run_id, artifact_id)
    }

    fn artifact_ids(&self, run_id: &RunId, limit: usize) -> ReadFuture<'_, Vec<ArtifactId>> {
        self.wrapped().artifact_ids(run_id, limit)
    }
}

impl<W: Wrapper> AuditLog for W {
    fn audit(&self, tenant: &Tenant, from: u64, to: u64, limit: usize) -> ReadFuture<'_, Vec<AuditEntry>> {
        self.wrapped().audit(tenant, from, to, limit)
    }

    fn audit_end(&self, tenant: &Tenant) -> ReadFuture<'_, Option<u64>> {
        self.wrapped().audit_end(tenant)
    }

    fn audit_checkpoints(
        &self,
        tenant: &Tenant,
        from: u64,
        to: u64,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(u64, Bytes)>> {
        self.wrapped().audit_checkpoints(tenant, from, to, limit)
    }

    fn audit_checkpoint_before(
        &self,
        tenant: &Tenant,
        sequence: u64,
    ) -> ReadFuture<'_, Option<(u64, Bytes)>> {
        self.wrapped().audit_checkpoint_before(tenant, sequence)
    }
}

impl<W: Wrapper> Definitions for W {
    fn definition(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
    ) -> ReadFuture<'_, Option<(Digest, Bytes)>> {
        self.wrapped().definition(tenant, workflow_id)
    }

    fn definition_by_digest(&self, digest: Digest) -> ReadFuture<'_, Option<Bytes>> {
        self.wrapped().definition_by_digest(digest)
    }

    fn definitions(
        &self,
        tenant: &Tenant,
        after: Option<&WorkflowId>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(WorkflowId, Digest)>> {
        self.wrapped().definitions(tenant, after, limit)
    }

    fn workflows_containing(
        &self,
        texts: [&str; 2],
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        self.wrapped().workflows_containing(texts, after, limit)
    }
}

impl<W: Wrapper> Effects for W {
    fn effect(&self, id: &EffectId) -> ReadFuture<'_, Option<ClaimedEffect>> {
        self.wrapped().effect(id)
    }

    fn attempts(
        &self,
        run_id: &RunId,
        after: Option<&AttemptPosition>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<StoredAttempt>> {
        self.wrapped().attempts(run_id, after, limit)
    }
}

impl<W: Wrapper> Listeners for W {
    fn listening(
        &self,
        after: Option<(&Tenant, &WorkflowId)>,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Tenant, WorkflowId)>> {
        self.wrapped().listening(after, limit)
    }

    fn listener_position(
        &self,
        tenant: &Tenant,
        workflow_id: &WorkflowId,
        consumer: &str,
    ) -> ReadFuture<'_, Option<String>> {
        self.wrapped().listener_position(tenant, workflow_id, consumer)
    }
}

impl<W: Wrapper> Replies for W {
    fn reply(&self, key: &ReplyKey) -> ReadFuture<'_, Option<RecordedReply>> {
        self.wrapped().reply(key)
    }
}

impl<W: Wrapper> Retention for W {
    fn aged_runs(&self, after: Option<&ListCursor>, limit: usize) -> ReadFuture<'_, AgedPage> {
        self.wrapped().aged_runs(after, limit)
    }

    fn aged_run(&self, run_id: &RunId) -> ReadFuture<'_, Option<AgedRun>> {
        self.wrapped().aged_run(run_id)
    }

    fn oldest_reply(&self) -> ReadFuture<'_, Option<Timestamp>> {
        self.wrapped().oldest_reply()
    }
}

impl<W: Wrapper> RunLists for W {
    fn runs(&self, tenant: &Tenant, filter: &RunFilter, limit: usize) -> ReadFuture<'_, RunPage> {
        self.wrapped().runs(tenant, filter, limit)
    }
}

impl<W: Wrapper> RunLog for W {
    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> ReadFuture<'_, Option<StoredRun>> {
        self.wrapped().run(tenant, run_id)
    }

    fn appends(
        &self,
        run_id: &RunId,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> ReadFuture<'_, Vec<StoredAppend>> {
        self.wrapped().appends(run_id, from, max_events, max_bytes)
    }

    fn run_checkpoint(&self, run_id: &RunId) -> ReadFuture<'_, Option<Bytes>> {
        self.wrapped().run_checkpoint(run_id)
    }

    fn children(&self, run_id: &RunId) -> ReadFuture<'_, Vec<RunId>> {
        self.wrapped().children(run_id)
    }

    fn open_runs(&self, after: Option<&RunId>, limit: usize) -> ReadFuture<'_, Vec<RunId>> {
        self.wrapped().open_runs(after, limit)
    }
}

impl<W: Wrapper> Timers for W {
    fn due_timers(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Timer>> {
        self.wrapped().due_timers(at, limit)
    }

    fn next_timer(&self) -> ReadFuture<'_, Option<Timer>> {
        self.wrapped().next_timer()
    }
}

impl<W: Wrapper> Webhooks for W {
    fn webhooks(&self, tenant: &Tenant) -> ReadFuture<'_, Vec<(SubscriptionId, Bytes)>> {
        self.wrapped().webhooks(tenant)
    }

    fn webhook(&self, webhook_id: &SubscriptionId) -> ReadFuture<'_, Option<(Tenant, Bytes)>> {
        self.wrapped().webhook(webhook_id)
    }

    fn due_deliveries(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Delivery>> {
        self.wrapped().due_deliveries(at, limit)
    }

    fn next_delivery(&self) -> ReadFuture<'_, Option<Timestamp>> {
        self.wrapped().next_delivery()
    }

    fn abandoned_deliveries(
        &self,
        webhook_id: &SubscriptionId,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Delivery, String)>> {
        self.wrapped().abandoned_deliveries(webhook_id, limit)
    }
}
