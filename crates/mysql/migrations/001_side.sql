-- What Postrider knows of an outbox: how far it was read, who holds it, what waits, what is dead.
-- "outbox" is the table's name: several outboxes share these tables. Every time is the database's own, in UTC.

create table if not exists {in}`{side}position` (
    outbox   varchar(64)  not null primary key,
    position bigint,                              -- everything up to this id is published or kept below; null: not begun
    claimed  bigint       not null default 0,     -- what lies between the position and this id is in the holder's hands,
    returned longtext,                            -- but for these: [id, ...]
    gaps     longtext,                            -- ids below the position that may still commit: [[first, last], ...]
    fence    bigint       not null default 0,     -- under which the above is written: one statement checks it and writes
    start    varchar(64),                         -- how the first position was chosen
    epoch    bigint       not null default 0      -- bumped by operators' verbs, so that a running relay looks again
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

create table if not exists {in}`{side}exceptions` (
    outbox    varchar(64) not null,
    entry     bigint      not null,
    key_scope text,
    key_id    text,
    shelf     varchar(10) not null,               -- parked, waiting or dead
    due       datetime(6),                        -- when a waiting one is to be tried again
    retries   int         not null default 0,
    error     text,
    primary key (outbox, entry)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- What the holder has in its hands of what was set aside before.
create table if not exists {in}`{side}claims` (
    outbox varchar(64) not null,
    entry  bigint      not null,
    primary key (outbox, entry)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- Kinds that are held as a whole, each from the first id that was not handed out.
create table if not exists {in}`{side}ranges` (
    outbox         varchar(64) not null,
    number         bigint      not null,          -- counts from 1; a type may be too long for an index
    event_type     text        not null,
    aggregate_type text        not null,
    first_id       bigint      not null,
    primary key (outbox, number)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- Ids that were given up: looked at again for a day, by whichever relay is active then.
create table if not exists {in}`{side}closed` (
    outbox   varchar(64) not null,
    first_id bigint      not null,
    last_id  bigint      not null,
    at       datetime(6) not null,
    primary key (outbox, first_id)
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

-- Keys under which something was appended: a repetition writes nothing.
create table if not exists {in}`{side}idempotency` (
    outbox     varchar(64)     not null,
    `key`      varbinary(1024) not null,          -- in UTF-8, compared byte by byte
    event_id   varchar(1024)   not null,
    entry      varchar(255),                      -- the row's id
    written_at datetime(6)     not null default (utc_timestamp(6)),
    primary key (outbox, `key`)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- Where appends give numbers: the last one of each key.
create table if not exists {in}`{side}sequences` (
    outbox varchar(64)     not null,
    scope  varbinary(1024) not null,              -- the aggregate's type, where the key is the aggregate
    `key`  varbinary(1024) not null,
    last   bigint          not null,
    primary key (outbox, scope, `key`)
) engine = InnoDB character set utf8mb4 collate utf8mb4_bin;

-- Locks that applications take on a name. Rows stay, so that the fence never goes back.
create table if not exists {in}`{side}locks` (
    name       varbinary(1024) not null primary key,
    owner      varchar(255)    not null,
    fence      bigint          not null,
    expires_at datetime(6)     not null
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
