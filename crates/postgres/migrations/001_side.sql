-- What Postrider knows of an outbox: how far it was read, who holds it, what waits, what is dead.
-- "outbox" is the table's name: several outboxes share these tables. Every time is the database's own.

create table {in}"{side}position" (
    outbox   text     not null primary key,
    position bigint   not null,                -- everything up to this id is published or kept below
    claimed  bigint   not null default 0,      -- what lies between the position and this id is in the holder's hands,
    returned bigint[] not null default '{}',   -- but for these
    epoch    bigint   not null default 0,      -- bumped by operators' verbs, so that a running relay looks again
    start    text     not null,                -- how the first position was chosen
    seen     bigint,                           -- the highest id of a team's own cursor table that Postrider knows of
    -- Ids below the position that may still commit, as ranges. They change with most batches while several write, and so are
    -- written with the position, in one statement.
    gap_first bigint[] not null default '{}',
    gap_last  bigint[] not null default '{}'
) with (fillfactor = 50);

create table {in}"{side}exceptions" (
    outbox    text   not null,
    entry     bigint not null,
    key_scope text,
    key_id    text,
    shelf     text   not null,                 -- parked, waiting or dead
    due       timestamptz,                     -- when a waiting one is to be tried again
    retries   int    not null default 0,
    error     text,
    failed    bigint,                          -- its row in a team's own table of failed entries
    primary key (outbox, entry)
);

-- What the holder has in its hands of what was set aside before.
create table {in}"{side}claims" (
    outbox text   not null,
    entry  bigint not null,
    primary key (outbox, entry)
);

-- Kinds that are held as a whole, each from the first id that was not handed out.
create table {in}"{side}ranges" (
    outbox         text   not null,
    number         bigint not null,            -- counts from 1; a type may be too long for an index
    event_type     text   not null,
    aggregate_type text   not null,
    first          bigint not null,
    primary key (outbox, number)
);

create table {in}"{side}leases" (
    outbox     text        not null,
    name       text        not null,
    owner      text        not null,
    fence      bigint      not null,
    expires_at timestamptz not null,
    primary key (outbox, name)
) with (fillfactor = 50);

create table {in}"{side}jobs" (
    outbox text        not null,
    name   text        not null,
    owner  text,
    fence  bigint      not null,
    until  timestamptz,                        -- a turn that is under way ends here at the latest
    due    timestamptz not null,
    primary key (outbox, name)
);

-- Beside status tables: what the table itself has no column for, and who holds which row.
create table {in}"{side}entries" (
    outbox       text    not null,
    entry        text    not null,             -- the row's id
    retries      int,
    not_before   timestamptz,
    error        text,
    owner        text,
    leased_until timestamptz,
    fence        bigint,
    holds_key    boolean not null default false, -- dead, and its key waits for it
    dead         boolean not null default false, -- where the table has no word for it
    primary key (outbox, entry)
) with (fillfactor = 70);

create table {in}"{side}idempotency" (
    outbox     text        not null,
    key        text        not null,
    event_id   text        not null,
    entry      text,
    written_at timestamptz not null default now(),
    primary key (outbox, key)
);

-- What relays say about themselves every few seconds: what only they know.
create table {in}"{side}reports" (
    outbox     text        not null,
    holder     text        not null,
    at         timestamptz not null,
    role       text        not null,           -- active, standby or stopped
    published  bigint      not null,           -- since it started
    per_second float8      not null,
    circuits   text        not null,           -- those that are not closed: [[sink, topic, circuit, since], ...]
    trouble    text,                           -- what last went wrong
    trouble_at timestamptz,
    primary key (outbox, holder)
);

-- Reads JSON from a text; one that is none fails no statement over many rows.
create function {in}"{side}json"(value text) returns jsonb language plpgsql immutable strict parallel safe as $function$
begin
    return value::jsonb;
exception when others then
    return null;
end
$function$;
