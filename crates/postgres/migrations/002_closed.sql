-- Ids that were given up: looked at again for a day, by whichever relay is active then.
create table {in}"{side}closed" (
    outbox text        not null,
    first  bigint      not null,
    last   bigint      not null,
    at     timestamptz not null,
    primary key (outbox, first)
);

-- Failed entries of a team that keeps them in a table of its own: the row as it was, so that cleaning the outbox takes none away.
alter table {in}"{side}exceptions" add column copy json;
