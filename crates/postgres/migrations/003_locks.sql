-- Locks that applications take on a name. Rows stay, so that the fence never goes back.
create table {in}"{side}locks" (
    name       text        not null primary key,
    owner      text        not null,           -- who has it, for people
    fence      bigint      not null,
    expires_at timestamptz not null
) with (fillfactor = 50);
