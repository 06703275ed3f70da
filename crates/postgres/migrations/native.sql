-- The native outbox: append-only, one index, partitioned by id so that history is dropped by the partition. The id is drawn
-- by the INSERT itself, from a sequence without a cache: a reader that follows it loses nothing (ARCHITECTURE.md).
create sequence {sequence} as bigint;
create table {table} (
    id             bigint  not null default nextval('{sequence}') check (id > 0) primary key,
    event_id       text    not null default gen_random_uuid()::text,
    type           text    not null,
    source         text    not null default '/{source}',
    aggregate_type text    not null,
    aggregate_id   text    not null,
    key            text,                    -- what it stays in order with, when that is not the aggregate
    time           bigint  not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    content_type   text,                    -- null means application/json
    trace          text,                    -- traceparent
    trace_state    text,                    -- tracestate
    sequence       bigint,
    extensions     text,                    -- a JSON object of texts
    payload        text
) partition by range (id);
alter sequence {sequence} owned by {table}.id;
create table {first} partition of {table} for values from (minvalue) to (1000000);
create table {rest} partition of {table} default;
