-- What Postrider knows of an outbox: who holds it, what waits, what is dead.
-- "outbox" is the table's name: several outboxes share these tables. Every time is the database's own, in UTC.

create table if not exists {in}`{side}position` (
    outbox   varchar(64)  not null primary key,
    epoch    bigint       not null default 0      -- bumped by operators' verbs, so that a running relay looks again
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

create table if not exists {in}`{side}leases` (
    outbox     varchar(64)  not null,
    name       varchar(64)  not null,
    owner      varchar(255) not null,
    fence      bigint       not null,
    expires_at datetime(6)  not null,
    primary key (outbox, name)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

create table if not exists {in}`{side}jobs` (
    outbox varchar(64)  not null,
    name   varchar(64)  not null,
    owner  varchar(255),
    fence  bigint       not null,
    until  datetime(6),                           -- a turn that is under way ends here at the latest
    due    datetime(6)  not null,
    primary key (outbox, name)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- Beside status tables: what the table itself has no column for, and who holds which row.
create table if not exists {in}`{side}entries` (
    outbox       varchar(64)  not null,
    entry        varchar(255) not null,           -- the row's id
    retries      int,
    not_before   datetime(6),
    error        text,
    owner        varchar(255),
    leased_until datetime(6),
    fence        bigint unsigned,                 -- the claim's own number
    holds_key    boolean      not null default false, -- dead, and its key waits for it
    dead         boolean      not null default false, -- where the table has no word for it
    primary key (outbox, entry),
    key (outbox, leased_until),
    key (outbox, holds_key)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- What relays say about themselves every few seconds: what only they know.
create table if not exists {in}`{side}reports` (
    outbox     varchar(64)  not null,
    holder     varchar(255) not null,
    at         datetime(6)  not null,
    role       varchar(20)  not null,             -- active, standby or stopped
    published  bigint       not null,             -- since it started
    per_second double       not null,
    circuits   mediumtext   not null,             -- those that are not closed: [[sink, topic, circuit, since], ...]
    trouble    text,                              -- what last went wrong
    trouble_at datetime(6),
    primary key (outbox, holder)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;
