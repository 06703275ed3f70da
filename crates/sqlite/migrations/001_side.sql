-- What Postrider knows of an outbox: how far it was read, who holds it, what waits, what is dead.
-- Times are microseconds since 1970, UTC. "outbox" is the table's name: several outboxes live in one file.

create table "{side}position" (
    outbox   text    not null primary key,
    position integer not null,             -- everything up to this id is published or kept below
    claimed  integer not null default 0,   -- what lies between the position and this id is in the holder's hands,
    returned text    not null default '[]',-- but for these
    epoch    integer not null default 0,   -- bumped by operators' verbs, so that a running relay looks again
    start    text    not null              -- how the first position was chosen
) without rowid;

create table "{side}exceptions" (
    outbox    text    not null,
    entry     integer not null,
    key_scope text,
    key_id    text,
    shelf     text    not null,            -- parked, waiting or dead
    due       integer,                     -- when a waiting one is to be tried again
    retries   integer not null default 0,
    error     text,
    primary key (outbox, entry)
) without rowid;

-- What the holder has in its hands of what was set aside before.
create table "{side}claims" (
    outbox text    not null,
    entry  integer not null,
    primary key (outbox, entry)
) without rowid;

create table "{side}ranges" (
    outbox         text    not null,
    event_type     text    not null,
    aggregate_type text    not null,
    first          integer not null,
    primary key (outbox, event_type, aggregate_type)
) without rowid;

create table "{side}leases" (
    outbox     text    not null,
    name       text    not null,
    owner      text    not null,
    fence      integer not null,
    expires_at integer not null,
    primary key (outbox, name)
) without rowid;

create table "{side}jobs" (
    outbox text    not null,
    name   text    not null,
    owner  text,
    fence  integer not null,
    until  integer,                        -- a turn that is under way ends here at the latest
    due    integer not null,
    primary key (outbox, name)
) without rowid;

-- Beside status tables: what the table itself has no column for, and who holds which row.
create table "{side}entries" (
    outbox       text    not null,
    entry                not null,         -- the row's id, a number or a text
    retries      integer,
    not_before   integer,
    error        text,
    owner        text,
    leased_until integer,
    fence        integer,
    holds_key    integer not null default 0, -- dead, and its key waits for it
    primary key (outbox, entry)
) without rowid;

create table "{side}idempotency" (
    outbox     text    not null,
    key        text    not null,
    event_id   text    not null,
    entry,
    written_at integer not null,
    primary key (outbox, key)
) without rowid;

-- What relays say about themselves every few seconds: what only they know.
create table "{side}reports" (
    outbox     text    not null,
    holder     text    not null,
    at         integer not null,
    role       text    not null,           -- active, standby or stopped
    published  integer not null,           -- since it started
    per_second real    not null,
    circuits   text    not null,           -- those that are not closed: [[sink, topic, circuit, since], ...]
    trouble    text,                       -- what last went wrong
    trouble_at integer,
    primary key (outbox, holder)
) without rowid;
