-- The native outbox: append-only, one index. The id is drawn by the INSERT itself, and never twice: a reader that follows it
-- loses nothing (ARCHITECTURE.md). Times are UTC, whatever zone the writer's session has.
create table {table} (
    id             bigint unsigned not null auto_increment primary key,
    event_id       varchar(1024)   not null default (uuid()),
    type           varchar(255)    not null,
    source         varchar(1024)   not null default {source},
    aggregate_type varchar(1024)   not null,
    aggregate_id   varchar(1024)   not null,
    `key`          varchar(1024),             -- what it stays in order with, when that is not the aggregate
    time           datetime(6)     not null default (utc_timestamp(6)),
    content_type   varchar(1024),             -- null means application/json
    trace          varchar(1024),             -- traceparent
    trace_state    varchar(1024),             -- tracestate
    sequence       bigint,
    extensions     mediumtext,                -- a JSON object of texts
    payload        longtext
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;
