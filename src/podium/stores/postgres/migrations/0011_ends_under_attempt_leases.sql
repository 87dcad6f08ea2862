-- The end of an attempt that a worker holds is recorded by that worker, not under the lease of the run: `held` are those
-- of the attempts in `ending` whose lease is live.
--
-- The function of the same name with fewer arguments stays, for processes that were started before this migration:
-- it refuses them by begin_writing.
CREATE FUNCTION open_run(
    known integer, store bigint, lock bigint, id text, lease text, keys bytea[], ending text[],
    OUT run runs, OUT moment text, OUT generation bigint, OUT has_buses boolean, OUT repeated bigint[],
    OUT held text[]
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM begin_writing(known, store, ARRAY[lock]);
    SELECT r.* INTO run FROM runs r WHERE r.run_id = id FOR NO KEY UPDATE;
    SELECT l.generation INTO generation FROM leases l
     WHERE l.run = open_run.run.number AND l.attempt = lease AND l.owner <> '';
    IF cardinality(ending) > 0 THEN
        held := ARRAY(SELECT l.attempt FROM leases l
                       WHERE l.run = open_run.run.number AND l.attempt = ANY (ending) AND l.owner <> ''
                         AND l.expires_at > clock_timestamp());
    END IF;
    has_buses := EXISTS (SELECT FROM buses);
    repeated := ARRAY(SELECT e.run_seq FROM events e
                       WHERE e.run = open_run.run.number AND e.idempotency_key = ANY (keys));
    moment := to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END
$$;
