-- The first version. Every statement may be repeated.

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

create table if not exists activities (
    id text collate "C" primary key,
    run_id text collate "C" not null,
    at bigint not null,
    host_id text collate "C" not null,
    attempt integer not null,
    outcome bytea
);
create index if not exists activities_by_run on activities (run_id);

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
