-- Guided sessions and keys. Every statement may be repeated.

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
