-- The native outbox: append-only, one index. autoincrement, because an id that is used twice would be taken for published.
create table {table} (
    id             integer not null primary key autoincrement check (id > 0),
    event_id       text    not null default (
        lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
            || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))
    ),
    type           text    not null,
    source         text    not null default '/{source}',
    aggregate_type text    not null,
    aggregate_id   text    not null,
    key            text,                    -- what it stays in order with, when that is not the aggregate
    time           integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
    content_type   text,                    -- null means application/json
    trace          text,                    -- traceparent
    trace_state    text,                    -- tracestate
    sequence       integer,
    extensions     text,                    -- a JSON object of texts
    payload        blob                     -- text or bytes, as written
);
