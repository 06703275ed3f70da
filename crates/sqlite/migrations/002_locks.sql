-- Locks that applications take on a name. Rows stay, so that the fence never goes back.
create table "{side}locks" (
    name       text    not null primary key,
    owner      text    not null,           -- who has it, for people
    fence      integer not null,
    expires_at integer not null
) without rowid;
