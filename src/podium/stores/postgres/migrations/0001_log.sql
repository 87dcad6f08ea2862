-- The log and what changes together with it.
--
-- A run has a number, given at its creation; everything else refers to that number, because eight bytes in two indexes
-- of the largest table are cheaper than a name. Moments that people and events see are text in the one form Podium
-- uses everywhere (RFC 3339, UTC, microseconds: it sorts as it is). Moments that decide about ownership are
-- timestamptz, set and compared by this server's clock_timestamp() and by nothing else. Names and keys are collated
-- "C", so that they sort here as they do in Python.
--
-- Who waits for whom. A writing transaction takes its locks in this order and no other, so none can deadlock:
--
--   1. the store, shared (exclusive: a migration, a bus that is added or removed)
--   2. the run's advisory lock, held to commit by whoever appends: commit order is run_seq order because of it
--   3. the row of the run: appends and claims of one run exclude each other, so that a fence that was checked holds
--   4. the tenant, by whoever takes a run's lease or counts live ones: limits are exact because of it
--   5. leases, lines of the outbox
--
-- Claims of just any run take the tenant before the row, and skip every row that is locked: they wait for no run.
--
-- There are no foreign keys: each would cost a look-up per event. `problems()` looks for what they would have refused.

CREATE SEQUENCE run_numbers;

CREATE TABLE runs (
    number           bigint PRIMARY KEY,
    run_id           text COLLATE "C" NOT NULL UNIQUE,
    tenant_id        text COLLATE "C" NOT NULL,
    project_id       text COLLATE "C" NOT NULL,
    environment_id   text COLLATE "C" NOT NULL,
    plan_id          text COLLATE "C" NOT NULL,
    plan_version     text COLLATE "C" NOT NULL,
    run_request_id   text COLLATE "C" NOT NULL,
    status           text COLLATE "C" NOT NULL,
    head             bigint NOT NULL,
    priority         integer NOT NULL,
    concurrency_key  text COLLATE "C",
    plan_sha256      text NOT NULL,
    inputs_sha256    text NOT NULL,
    created_at       text COLLATE "C" NOT NULL,
    updated_at       text COLLATE "C" NOT NULL,
    start_at         text COLLATE "C",
    needs_approval   boolean NOT NULL,
    provider         text COLLATE "C",
    workflow_id      text COLLATE "C",
    provider_run_id  text COLLATE "C",
    metadata         bytea NOT NULL
) WITH (fillfactor = 70);  -- head moves with every append: room for the new version on the same page

CREATE INDEX runs_listed ON runs (tenant_id, number);
CREATE INDEX runs_queued ON runs (tenant_id, priority DESC, number)
    WHERE status = 'APPROVED' OR (status = 'PENDING' AND NOT needs_approval);
CREATE INDEX runs_started ON runs (number) WHERE status IN ('RUNNING', 'PAUSED');
CREATE INDEX runs_of_engines ON runs (provider, workflow_id, provider_run_id) WHERE provider IS NOT NULL;

-- Which request made which run. It outlives the run: a repeated request never runs again what was pruned.
CREATE TABLE admissions (
    tenant_id        text COLLATE "C" NOT NULL,
    project_id       text COLLATE "C" NOT NULL,
    environment_id   text COLLATE "C" NOT NULL,
    plan_id          text COLLATE "C" NOT NULL,
    plan_version     text COLLATE "C" NOT NULL,
    run_request_id   text COLLATE "C" NOT NULL,
    run              bigint NOT NULL,
    -- Never given to another run: an old fence would fit again.
    run_id           text COLLATE "C" NOT NULL UNIQUE,
    PRIMARY KEY (tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id)
);

-- payload is the bytes that were written, never jsonb: that refuses NUL and reorders keys.
CREATE TABLE events (
    run                 bigint NOT NULL,
    run_seq             bigint NOT NULL,
    event_id            uuid NOT NULL,
    event_type          text COLLATE "C" NOT NULL,
    step_id             text COLLATE "C",
    logical_attempt_id  integer NOT NULL,
    engine_attempt_id   integer NOT NULL,
    idempotency_key     bytea NOT NULL CHECK (length(idempotency_key) = 32),
    emitted_at          text COLLATE "C" NOT NULL,
    persisted_at        text COLLATE "C" NOT NULL,
    payload             bytea NOT NULL,
    PRIMARY KEY (run, run_seq),
    UNIQUE (run, idempotency_key)
);

-- attempt '' is the lease of the run itself. A lease that was given up keeps its row, for the generation.
CREATE TABLE leases (
    run         bigint NOT NULL,
    attempt     text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    generation  bigint NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (run, attempt)
) WITH (fillfactor = 70);

CREATE INDEX leases_of_runs ON leases (run) WHERE attempt = '' AND owner <> '';

-- When a tenant was last given a run from the queue, as a turn of the sequence; 0: never.
CREATE TABLE tenants (
    tenant_id  text COLLATE "C" PRIMARY KEY,
    served     bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE SEQUENCE turns;

CREATE TABLE limits (
    tenant_id  text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    most       bigint NOT NULL,
    PRIMARY KEY (tenant_id, scope, name)
);

CREATE TABLE wake_ups (
    run  bigint NOT NULL,
    key  text COLLATE "C" NOT NULL,
    due  text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, key)
);
CREATE INDEX wake_ups_due ON wake_ups (due, key);

CREATE TABLE summaries (
    run             bigint PRIMARY KEY,
    last_event_seq  bigint NOT NULL,
    summary         bytea NOT NULL
);

CREATE TABLE steps (
    run      bigint NOT NULL,
    step_id  text COLLATE "C" NOT NULL,
    step     bytea NOT NULL,
    PRIMARY KEY (run, step_id)
);

CREATE TABLE buses (
    bus  text COLLATE "C" PRIMARY KEY
);

-- A line is what one run has to deliver to one bus, and who delivers it; the events are in `outbox`, one row each
-- until delivered. first_seq is the lowest of them, NULL when there is none: so that lines with work are found by index.
CREATE TABLE outbox_lines (
    number      bigint GENERATED ALWAYS AS IDENTITY,
    bus         text COLLATE "C" NOT NULL,
    run         bigint NOT NULL,
    first_seq   bigint,
    generation  bigint NOT NULL DEFAULT 0,
    owner       text NOT NULL DEFAULT '',
    held_until  timestamptz NOT NULL DEFAULT '-infinity',
    not_before  timestamptz NOT NULL DEFAULT '-infinity',
    failures    integer NOT NULL DEFAULT 0,
    error       text NOT NULL DEFAULT '',
    -- When it was last claimed: whose turn was longest ago is next, so that a busy run starves no other.
    turn        timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (run, bus)
) WITH (fillfactor = 70);
CREATE INDEX outbox_lines_with_work ON outbox_lines (bus, turn, number) WHERE first_seq IS NOT NULL;

CREATE TABLE outbox (
    run      bigint NOT NULL,
    bus      text COLLATE "C" NOT NULL,
    run_seq  bigint NOT NULL,
    PRIMARY KEY (run, bus, run_seq)
);

CREATE TABLE dead_letters (
    bus         text COLLATE "C" NOT NULL,
    run         bigint NOT NULL,
    run_seq     bigint NOT NULL,
    event_type  text NOT NULL,
    failures    integer NOT NULL,
    error       text NOT NULL,
    died_at     text NOT NULL,
    PRIMARY KEY (bus, run, run_seq)
);

-- The first statement of every writing transaction: its first advisory locks, in their order, then the check that nobody has
-- migrated this database beyond what the writer knows. Each statement of a plpgsql function sees what was committed
-- before it began, so the version is read after the store's lock is held, and no migration can slip in between.
CREATE FUNCTION begin_writing(known integer, store bigint, keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    key bigint;
    found integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(store);
    FOREACH key IN ARRAY keys LOOP
        PERFORM pg_advisory_xact_lock(key);
    END LOOP;
    SELECT max(number) INTO found FROM migrations;
    IF found > known THEN
        RAISE EXCEPTION 'version %', found USING ERRCODE = 'PD001';
    END IF;
END
$$;

-- The first statement of every append: begin_writing for the run, then the run's row under its lock, then all that an
-- append has to know. They are separate statements on purpose: what is read beside a lock in one statement is as old as
-- the moment before the lock was had. `repeated` are the events whose keys are among those asked for.
CREATE FUNCTION open_run(
    known integer, store bigint, lock bigint, id text, lease text, keys bytea[],
    OUT run runs, OUT moment text, OUT generation bigint, OUT has_buses boolean, OUT repeated bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM begin_writing(known, store, ARRAY[lock]);
    SELECT r.* INTO run FROM runs r WHERE r.run_id = id FOR NO KEY UPDATE;
    SELECT l.generation INTO generation FROM leases l
     WHERE l.run = open_run.run.number AND l.attempt = lease AND l.owner <> '';
    has_buses := EXISTS (SELECT FROM buses);
    repeated := ARRAY(SELECT e.run_seq FROM events e
                       WHERE e.run = open_run.run.number AND e.idempotency_key = ANY (keys));
    moment := to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END
$$;
