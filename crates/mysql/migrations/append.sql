-- Appends events to {shown} inside the caller's transaction, from any language; without one, in a transaction of its own:
--   call {called}('{"type": "shop.order.created.v1", "aggregate_type": "Order", "aggregate_id": "7", "payload": {"total": 12}}');
-- An array appends many. Members: type, aggregate_type, aggregate_id, payload (a text is taken as it is), payload_base64, key, id
-- (a new UUID), source, time (RFC 3339; now), content_type (application/json), trace, trace_state, sequence, extensions (an
-- object of texts), idempotency_key: a repetition writes nothing, says so, and tells the ids of the first.
-- Answers entry, event_id and repeated for each. All of them are written, or none.
create {replacing} procedure {procedure}(in events longtext character set utf8mb4)
    modifies sql data
    sql security invoker
    comment '{mark}'
body: begin
    declare v_all, v_told, v_whole, v_payload, v_base64, v_text, v_extensions longtext character set utf8mb4 collate utf8mb4_bin;
    declare v_type, v_aggregate_type, v_aggregate_id, v_once, v_key, v_id, v_source, v_at, v_content_type, v_trace,
        v_trace_state, v_number, v_entry, v_first, v_kind, v_offset, v_chance, v_scope, v_message
        text character set utf8mb4 collate utf8mb4_bin;
    declare v_bytes longblob;
    declare v_time datetime(6);
    declare v_sequence bigint;
    declare v_is_json, v_repeated boolean;
    declare v_own, v_done boolean default false;
    declare v_zone varchar(64) default @@session.time_zone;
    declare each_event cursor for
        select e.whole, e.type, e.aggregate_type, e.aggregate_id, e.payload, e.payload_base64, e.idempotency_key, e.`key`, e.id,
            e.source, e.time, e.content_type, e.trace, e.trace_state, e.sequence, e.extensions
        from json_table(v_all, '$[*]' columns (
            n for ordinality,
            whole           json path '$',
            type            longtext character set utf8mb4 path '$.type' error on error,
            aggregate_type  longtext character set utf8mb4 path '$.aggregate_type' error on error,
            aggregate_id    longtext character set utf8mb4 path '$.aggregate_id' error on error,
            payload         json path '$.payload',
            payload_base64  longtext character set utf8mb4 path '$.payload_base64' error on error,
            idempotency_key longtext character set utf8mb4 path '$.idempotency_key' error on error,
            `key`           longtext character set utf8mb4 path '$.key' error on error,
            id              longtext character set utf8mb4 path '$.id' error on error,
            source          longtext character set utf8mb4 path '$.source' error on error,
            time            longtext character set utf8mb4 path '$.time' error on error,
            content_type    longtext character set utf8mb4 path '$.content_type' error on error,
            trace           longtext character set utf8mb4 path '$.trace' error on error,
            trace_state     longtext character set utf8mb4 path '$.trace_state' error on error,
            sequence        longtext character set utf8mb4 path '$.sequence' error on error,
            extensions      json path '$.extensions'
        )) as e order by e.n;
    declare continue handler for not found set v_done = true;
    declare exit handler for sqlexception
    begin
        -- After a deadlock the whole transaction is gone, and the savepoint with it.
        declare continue handler for 1305 begin end;
        set time_zone = v_zone;
        if v_own then
            rollback;
        else
            rollback to savepoint postrider_append;
        end if;
        resignal;
    end;

    begin
        -- Without a transaction there is no savepoint either.
        declare continue handler for 1305 set v_own = true;
        savepoint postrider_append;
        release savepoint postrider_append;
    end;
    if v_own then
        start transaction;
    else
        savepoint postrider_append;
    end if;
    set time_zone = '+00:00';
    if events is null or not json_valid(events) then
        signal sqlstate '45000' set message_text = 'the events are not JSON: give an object, or an array of them';
    end if;
    set v_all = if(json_type(events) = 'ARRAY', events, concat('[', events, ']')), v_told = '';
    open each_event;
    append: loop
        fetch each_event into v_whole, v_type, v_aggregate_type, v_aggregate_id, v_payload, v_base64, v_once, v_key, v_id,
            v_source, v_at, v_content_type, v_trace, v_trace_state, v_number, v_extensions;
        if v_done then
            leave append;
        end if;
        if json_type(v_whole) <> 'OBJECT' then
            signal sqlstate '45000' set message_text = 'an event is no JSON object: write {"type": ..., "payload": ...}';
        end if;
        set v_message = json_unquote(json_extract(json_keys(json_remove(v_whole, '$.type', '$.aggregate_type', '$.aggregate_id',
            '$.payload', '$.payload_base64', '$.idempotency_key', '$.key', '$.id', '$.source', '$.time', '$.content_type',
            '$.trace', '$.trace_state', '$.sequence', '$.extensions')), '$[0]'));
        if v_message is not null then
            set v_message = concat('the event has an unknown member "', left(v_message, 60), '": see docs/append.md');
            signal sqlstate '45000' set message_text = v_message;
        end if;
        set v_kind = lower(trim(substring_index(coalesce(v_content_type, 'application/json'), ';', 1)));
        set v_is_json = v_kind in ('application/json', 'text/json') or v_kind like '%+json';
        set v_extensions = if(json_type(v_extensions) = 'NULL', null, v_extensions), v_sequence = null, v_bytes = null;
        if v_number is not null and not v_number regexp '^-?[0-9]{1,18}$' then
            signal sqlstate '45000' set message_text = 'the event''s sequence is no whole number of at most 18 digits';
        end if;
        set v_sequence = cast(v_number as signed);
{checks}        if v_at is null then
            set v_time = utc_timestamp(6);
        elseif v_at regexp '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$' then
            set v_offset = if(right(v_at, 1) = 'Z', '+00:00', right(v_at, 6));
            set v_time = cast(left(if(right(v_at, 1) = 'Z', left(v_at, char_length(v_at) - 1), left(v_at, char_length(v_at) - 6)), 26)
                as datetime(6));
            set v_time = v_time - interval (concat(left(v_offset, 1), '1') * (substr(v_offset, 2, 2) * 60 + right(v_offset, 2))) minute;
        else
            signal sqlstate '45000' set message_text = 'the event''s time is none like 2026-01-02T03:04:05.678Z';
        end if;
        if v_time is null then
            signal sqlstate '45000' set message_text = 'the event''s time is in no calendar';
        end if;
        if json_type(v_payload) <> 'NULL' and v_base64 is not null then
            signal sqlstate '45000' set message_text = 'the event has both payload and payload_base64: give one of them';
        end if;
        set v_text = nullif(case json_type(v_payload) when 'NULL' then null when 'STRING' then json_unquote(v_payload) else v_payload end, '');
        if v_base64 is not null then
            set v_bytes = from_base64(v_base64);
            if v_bytes is null then
                signal sqlstate '45000' set message_text = 'the event''s payload_base64 is no Base64';
            end if;
        end if;
        if octet_length(v_text) > {payload_bytes_max} or octet_length(v_bytes) > {payload_bytes_max} then
            signal sqlstate '45000' set message_text = 'the payload is over {payload_bytes_max} bytes: refer to large content instead of carrying it';
        end if;
        if v_bytes is not null and (v_is_json or {keeps_text}) then
            set v_text = convert(v_bytes using utf8mb4), v_bytes = null;
            if v_text is null then
                signal sqlstate '45000' set message_text = 'the payload is no UTF-8 text, and the column takes no bytes';
            end if;
        end if;
        if v_is_json and v_text is not null and not json_valid(v_text) then
            signal sqlstate '45000' set message_text = 'the payload is not JSON: correct it, or give the content_type that it has';
        end if;
        if v_id is null then
            -- A UUID of version 7: milliseconds since 1970, then chance.
            set v_chance = md5(concat(uuid(), rand())), v_id = lpad(lower(hex(floor(unix_timestamp(sysdate(3)) * 1000))), 12, '0');
            set v_id = concat(left(v_id, 8), '-', right(v_id, 4), '-7', left(v_chance, 3), '-',
                substr('89ab', 1 + floor(rand() * 4), 1), substr(v_chance, 4, 3), '-', right(v_chance, 12));
        end if;
        set v_entry = null, v_repeated = false;
        if v_once is not null then
            if v_once = '' or octet_length(v_once) > {key_bytes_max} then
                signal sqlstate '45000' set message_text = 'the idempotency_key is empty or over {key_bytes_max} bytes: use the request''s id, or a hash of it';
            end if;
            -- Waits for a transaction that appends with the same key, and wins if that rolls back. Without an entry it is ours.
            insert into {idempotency} (outbox, `key`, event_id) values ({outbox}, v_once, v_id)
                on duplicate key update outbox = values(outbox);
            select i.entry, i.event_id into v_entry, v_first from {idempotency} as i
                where i.outbox = {outbox} and i.`key` = cast(v_once as binary) for update;
            set v_repeated = v_entry is not null;
        end if;
        if v_repeated then
            set v_id = v_first;
        else
{number}            insert into {table} ({listed})
                values ({values});
            set v_entry = {entry};
{told}            if v_once is not null then
                update {idempotency} as i set i.entry = v_entry, i.event_id = v_id
                    where i.outbox = {outbox} and i.`key` = cast(v_once as binary);
            end if;
        end if;
        set v_told = concat(v_told, if(v_told = '', '', ','),
            json_object('entry', v_entry, 'event_id', v_id, 'repeated', if(v_repeated, 1, 0)));
    end loop;
    close each_event;
    set time_zone = v_zone;
    if v_own then
        commit;
    else
        release savepoint postrider_append;
    end if;
    select t.entry, t.event_id, t.repeated from json_table(concat('[', v_told, ']'), '$[*]' columns (
        n for ordinality,
        entry    varchar(255) character set utf8mb4 path '$.entry',
        event_id varchar(1024) character set utf8mb4 path '$.event_id',
        repeated bigint path '$.repeated'
    )) as t order by t.n;
end
