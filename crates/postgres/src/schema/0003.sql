-- One row for each attempt of an effect. Every statement may be repeated.

-- The node is absent if the effect reaches nothing outside of its run, and for claims of earlier versions.
alter table activities add column if not exists node_id text collate "C";
alter table activities add column if not exists provider_key text collate "C";
alter table activities add column if not exists released boolean not null default false;
-- For budgets, and not written yet.
alter table activities add column if not exists reserved bytea;
alter table activities drop constraint if exists activities_pkey;
alter table activities add constraint activities_pkey primary key (id, attempt);
drop index if exists activities_by_run;
create index activities_by_run on activities (run_id, at, id, attempt);
