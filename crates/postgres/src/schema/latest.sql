-- All tables as they are in the newest version. A test compares them with the result of the numbered steps.

create table if not exists runs (
    run_id text collate "C" primary key,
    tenant text collate "C" not null,
    workflow_id text collate "C" not null,
    status text collate "C" not null,
    -- The status, once the run has ended. `status` itself is in no index, so that most updates stay on their page.
    ended text collate "C",
    next_sequence bigint not null,
    -- The host that executes effects of the run. Null while it waits for a person or a timer, and after its end.
    driver text collate "C",
    scope_id text collate "C",
    parent_run_id text collate "C",
    created_at bigint not null,
    updated_at bigint not null,
    -- Null if the snapshot is long: then it is in the last row of `appends`.
    snapshot bytea
) with (fillfactor = 70);
create index if not exists runs_by_tenant on runs (tenant, run_id);
create index if not exists runs_by_workflow on runs (tenant, workflow_id, run_id);
create index if not exists runs_open on runs (run_id) where ended is null;
create index if not exists runs_open_by_tenant on runs (tenant, run_id) where ended is null;
create index if not exists runs_open_by_scope on runs (tenant, scope_id) where ended is null and scope_id is not null;
create index if not exists runs_unsuccessful on runs (tenant, ended, run_id) where ended in ('failed', 'cancelled');
create index if not exists runs_by_parent on runs (parent_run_id, run_id) where parent_run_id is not null;

-- Written once, so that the rows of `runs` stay short.
create table if not exists births (
    run_id text collate "C" primary key,
    genesis bytea not null
);

create table if not exists appends (
    run_id text collate "C" not null,
    first bigint not null,
    last bigint not null,
    events bytea not null,
    snapshot bytea,
    primary key (run_id, first)
);

-- Checkpoints of folded states. A cache: the appends are the truth.
create table if not exists folds (
    run_id text collate "C" primary key,
    state bytea not null
);

create table if not exists tags (
    tenant text collate "C" not null,
    tag text collate "C" not null,
    run_id text collate "C" not null,
    primary key (tenant, tag, run_id)
);
create index if not exists tags_by_run on tags (run_id);

create table if not exists definitions (
    digest bytea primary key,
    document bytea not null
);
create table if not exists workflows (
    tenant text collate "C" not null,
    workflow_id text collate "C" not null,
    digest bytea not null,
    registered_at bigint not null,
    primary key (tenant, workflow_id)
);

create table if not exists timers (
    run_id text collate "C" not null,
    key text collate "C" not null,
    at bigint not null,
    primary key (run_id, key)
);
create index if not exists timers_by_time on timers (at, run_id, key);

-- One row for each attempt of an effect; only the last one can have an outcome.
create table if not exists activities (
    id text collate "C" not null,
    run_id text collate "C" not null,
    at bigint not null,
    host_id text collate "C" not null,
    attempt integer not null,
    outcome bytea,
    -- Absent if the effect reaches nothing outside of its run, and for claims of earlier versions.
    node_id text collate "C",
    provider_key text collate "C",
    released boolean not null default false,
    -- For budgets, and not written yet.
    reserved bytea,
    primary key (id, attempt)
);
create index if not exists activities_by_run on activities (run_id, at, id, attempt);

create table if not exists replies (
    tenant text collate "C" not null,
    endpoint text collate "C" not null,
    key bytea not null,
    request bytea not null,
    status integer not null,
    body bytea not null,
    at bigint not null,
    primary key (tenant, endpoint, key)
);
create index if not exists replies_by_time on replies (at);

create table if not exists artifacts (
    run_id text collate "C" not null,
    artifact_id text collate "C" not null,
    document bytea not null,
    primary key (run_id, artifact_id)
);

create table if not exists annotations (
    annotation_id text collate "C" primary key,
    run_id text collate "C" not null,
    place bigint not null,
    document bytea not null
);
create index if not exists annotations_by_run on annotations (run_id, place);

create table if not exists webhooks (
    webhook_id text collate "C" primary key,
    tenant text collate "C" not null,
    document bytea not null
);
create index if not exists webhooks_by_tenant on webhooks (tenant, webhook_id);
create table if not exists deliveries (
    delivery_id text collate "C" primary key,
    webhook_id text collate "C" not null,
    due bigint not null,
    attempts bigint not null,
    place bigint not null,
    body bytea not null
);
create index if not exists deliveries_by_time on deliveries (due, place);
create index if not exists deliveries_by_webhook on deliveries (webhook_id);
create table if not exists abandoned_deliveries (
    webhook_id text collate "C" not null,
    place bigint not null,
    delivery_id text collate "C" not null,
    abandoned_at bigint not null,
    attempts bigint not null,
    body bytea not null,
    reason text collate "C" not null,
    primary key (webhook_id, place, delivery_id)
);

create table if not exists audit (
    tenant text collate "C" not null,
    sequence bigint not null,
    previous bytea not null,
    entry bytea not null,
    primary key (tenant, sequence)
);
create table if not exists audit_checkpoints (
    tenant text collate "C" not null,
    at_sequence bigint not null,
    document bytea not null,
    primary key (tenant, at_sequence)
);

create table if not exists api_keys (
    hash bytea primary key,
    document bytea not null
);

create table if not exists listeners (
    tenant text collate "C" not null,
    workflow_id text collate "C" not null,
    primary key (tenant, workflow_id)
);
create table if not exists listener_positions (
    tenant text collate "C" not null,
    workflow_id text collate "C" not null,
    consumer text collate "C" not null,
    position text collate "C" not null,
    primary key (tenant, workflow_id, consumer)
);
create table if not exists claimed_messages (
    tenant text collate "C" not null,
    message_id text collate "C" not null,
    run_id text collate "C" not null,
    primary key (tenant, message_id)
);

-- Counts the changes of what hosts keep in memory for a tenant. The row is also the lock for exclusive runs.
create table if not exists tenant_meta (
    tenant text collate "C" primary key,
    definitions_version bigint not null default 0,
    webhooks_version bigint not null default 0
);

-- One row per process. Every batch locks it, so that deleting it fences the process.
create table if not exists hosts (
    host_id text collate "C" primary key,
    name text collate "C" not null,
    version text collate "C" not null,
    -- False for a command that changes something beside the host.
    is_serving boolean not null,
    started_at timestamptz not null,
    beat_at timestamptz not null
);
-- The batches that were committed, to find the outcome when the connection is lost during a commit.
create table if not exists batches (
    host_id text collate "C" not null,
    number bigint not null,
    primary key (host_id, number)
);

-- Guided sessions. `tenant` is empty for the sessions of the store itself.
create table if not exists sessions (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    -- Random: tells a session from a later one with the same id.
    incarnation bytea not null,
    next_event bigint not null,
    next_record bigint not null,
    manifest_bytes bigint not null,
    -- When the session was last appended to, by the clock of the database, and the time in its last event.
    modified_ms bigint not null,
    active_ms bigint not null,
    imported_ms bigint,
    is_kept boolean not null,
    ended bytea,
    salvaged bytea,
    -- The last line of the chain.
    chain_end bytea not null,
    -- What the index has of the session's runs.
    runs bytea not null,
    primary key (tenant, session_id)
);

-- One row per append, with the bytes that the files of a session have.
create table if not exists session_segments (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    first bigint not null,
    events bytea not null,
    manifest bytea not null,
    chain bytea not null,
    primary key (tenant, session_id, first)
);

-- What events refer to by digest.
create table if not exists session_objects (
    tenant text collate "C" not null,
    kind text collate "C" not null,
    digest bytea not null,
    content bytea not null,
    -- The digests of the snapshots that a snapshot is based on, one after the other.
    bases bytea not null,
    -- When an append last needed the object. Garbage collection spares young ones.
    needed_at timestamptz not null,
    primary key (tenant, kind, digest)
);

create table if not exists session_positions (
    tenant text collate "C" not null,
    position bytea not null,
    session_id text collate "C" not null,
    event_index bigint not null,
    primary key (tenant, position)
);
create index if not exists session_positions_by_session on session_positions (tenant, session_id);

-- Keys, encrypted with the master key.
create table if not exists sealed_keys (
    tenant text collate "C" not null,
    name text collate "C" not null,
    version bigint not null,
    sealed bytea not null,
    primary key (tenant, name)
);
