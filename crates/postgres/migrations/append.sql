-- Appends one event to {table} inside the caller's transaction, from any language; name the arguments that you give:
--   select * from {function}(type => 'shop.order.created.v1', aggregate_type => 'Order', aggregate_id => '7', payload => '{}');
-- With an idempotency key a repetition writes nothing, says so, and tells the ids of the first.
create or replace function {function}(
    type            text,
    aggregate_type  text        default null,
    aggregate_id    text        default null,
    payload         text        default null,
    idempotency_key text        default null,
    key             text        default null,   -- what it stays in order with, when that is not the aggregate
    id              text        default null,   -- null: a new UUID
    source          text        default null,
    event_time      timestamptz default null,   -- null: now
    content_type    text        default null,   -- null: application/json
    trace           text        default null,   -- traceparent
    trace_state     text        default null,   -- tracestate
    sequence        bigint      default null,
    extensions      jsonb       default null,   -- an object of texts
    payload_bytes   bytea       default null,   -- instead of the payload, where it is no text
    out entry       text,                       -- the row's id
    out event_id    text,
    out repeated    boolean
) language plpgsql as $postrider$
-- The arguments are $1 to $15 below, because the outbox's columns have the same names.
#variable_conflict use_column
declare
    the_time  timestamptz := coalesce($9, clock_timestamp());
    -- A UUID of version 7: milliseconds since 1970, then chance.
    the_id    text := coalesce($7, overlay(gen_random_uuid()::text placing regexp_replace(
        lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0'), '^(.{8})(.{4})$', '\1-\2-7') from 1 for 15));
    the_entry text;
    gives_id  boolean;                          -- whether the event's id is the row's
    the_kind  text := btrim(split_part(coalesce($10, 'application/json'), ';', 1));
    is_json   boolean := lower(the_kind) in ('application/json', 'text/json') or lower(the_kind) like '%+json';
    the_text  text := $4;
    the_bytes bytea := $15;
{declare}begin
{checks}    if the_text is not null and the_bytes is not null then
        raise invalid_parameter_value using message = 'the event has both payload and payload_bytes',
            hint = 'Give one of them.';
    end if;
    if octet_length(the_text) > {payload_bytes_max} or octet_length(the_bytes) > {payload_bytes_max} then
        raise invalid_parameter_value using
            message = format('the payload has %s bytes, the limit is {payload_bytes_max}', coalesce(octet_length(the_text), octet_length(the_bytes))),
            hint = 'Make it smaller: refer to large content instead of carrying it.';
    end if;
    the_text := nullif(the_text, '');
    if is_json then
        if the_bytes is not null then
            the_text := nullif(convert_from(the_bytes, 'UTF8'), '');
            the_bytes := null;
        end if;
        begin
            perform the_text::json;
        exception when invalid_text_representation then
            -- Without the server's own message, which would quote the payload.
            raise invalid_parameter_value using message = 'the payload is not JSON',
                hint = 'Correct it, or give the content_type that it has.';
        end;
    end if;
    if $5 is not null then
        if $5 = '' or octet_length($5) > {key_bytes_max} then
            raise invalid_parameter_value using message = format('the idempotency key has %s bytes, and from 1 to {key_bytes_max} are allowed', octet_length($5)),
                hint = 'Use the request''s id, or a hash of it.';
        end if;
        loop
            -- Waits for a transaction that appends with the same key, and wins if that rolls back.
            insert into {idempotency} (outbox, key, event_id) values ({outbox}, $5, the_id) on conflict do nothing;
            exit when found;
            select i.entry, i.event_id, true into entry, event_id, repeated
                from {idempotency} as i where i.outbox = {outbox} and i.key = $5;
            if found then
                return;
            end if;
        end loop;
    end if;
{fill}{insert}    if $5 is not null then
        update {idempotency} as i set entry = the_entry, event_id = the_id where i.outbox = {outbox} and i.key = $5;
    end if;
    entry := the_entry;
    event_id := the_id;
    repeated := false;
end
$postrider$;
