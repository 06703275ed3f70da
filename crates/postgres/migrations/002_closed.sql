-- Ids that were given up: looked at again for a day, by whichever relay is active then.
create table {in}"{side}closed" (
    outbox text        not null,
    first  bigint      not null,
    last   bigint      not null,
    at     timestamptz not null,
    primary key (outbox, first)
);
