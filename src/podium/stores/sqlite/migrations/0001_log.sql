-- The log: runs, their events, and what remains of runs that were removed.
--
-- A run is one row of `runs`; its `number` stands for it in every other table, because an index entry with an
-- integer is a quarter of one with a run id. Numbers are never used twice, so the rows of a removed run can be
-- deleted later, in small transactions, without ever belonging to somebody else.
--
-- Every append does the same: find the run, look up the keys, check the fence, insert the events, and write
-- `status`, `head` and `updated_at` of the run, all in one transaction. `head` is the highest run_seq there is;
-- because run_seq is head + 1 and there is one writer at a time, it has no gaps.
--
-- `events` is a plain rowid table: rows are added at its end, and the two unique indexes say what may not
-- happen twice. A key clustered by run was three times slower with 200 callers. Whose an event is, and of which
-- plan, follows from its run. Payloads are kept as the bytes that were written.
--
-- `waiting` says whether a run may be started once its time has come (podium.stores.rules.may_start); as a
-- generated column it cannot drift from the status. The index on it is the queue, in the order in which a
-- tenant's runs start, with everything the limits need, so that 10,000 waiting runs are never looked at singly.

CREATE TABLE runs (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id          TEXT NOT NULL UNIQUE,
    tenant_id       TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    environment_id  TEXT NOT NULL,
    plan_id         TEXT NOT NULL,
    plan_version    TEXT NOT NULL,
    run_request_id  TEXT NOT NULL,
    status          TEXT NOT NULL,
    head            INTEGER NOT NULL,
    updated_at      TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    concurrency_key TEXT,
    needs_approval  INTEGER NOT NULL,
    start_at        TEXT,
    plan_sha256     TEXT NOT NULL,
    inputs_sha256   TEXT NOT NULL,
    engine_provider TEXT,
    engine_workflow TEXT,
    engine_run      TEXT,
    waiting         INTEGER GENERATED ALWAYS AS
                        (status = 'APPROVED' OR (status = 'PENDING' AND NOT needs_approval)) VIRTUAL,
    -- Last, because it may be large: what changes with every append stands before it, on the first page.
    metadata        BLOB NOT NULL
);

CREATE UNIQUE INDEX runs_by_request
    ON runs (tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id);
CREATE INDEX runs_of_tenant ON runs (tenant_id, number);
CREATE INDEX runs_waiting
    ON runs (tenant_id, priority DESC, number, start_at, project_id, plan_id, concurrency_key) WHERE waiting;
CREATE INDEX runs_started ON runs (number) WHERE status IN ('RUNNING', 'PAUSED');
CREATE INDEX runs_by_engine
    ON runs (engine_provider, engine_workflow, engine_run) WHERE engine_provider IS NOT NULL;

CREATE TABLE events (
    id              INTEGER PRIMARY KEY,
    run             INTEGER NOT NULL,
    run_seq         INTEGER NOT NULL,
    key             BLOB NOT NULL,
    event_id        TEXT NOT NULL,
    event_type      TEXT NOT NULL,
    step_id         TEXT,
    logical_attempt INTEGER NOT NULL,
    engine_attempt  INTEGER NOT NULL,
    emitted_at      TEXT NOT NULL,
    persisted_at    TEXT NOT NULL,
    payload         BLOB NOT NULL
);

CREATE UNIQUE INDEX events_by_seq ON events (run, run_seq);
CREATE UNIQUE INDEX events_by_key ON events (run, key);

-- The admission key of a removed run: a repeated request must not run it again.
CREATE TABLE pruned (
    tenant_id       TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    environment_id  TEXT NOT NULL,
    plan_id         TEXT NOT NULL,
    plan_version    TEXT NOT NULL,
    run_request_id  TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    plan_sha256     TEXT NOT NULL,
    inputs_sha256   TEXT NOT NULL,
    pruned_at       TEXT NOT NULL,
    PRIMARY KEY (tenant_id, project_id, environment_id, plan_id, plan_version, run_request_id)
) WITHOUT ROWID;

CREATE INDEX pruned_by_run ON pruned (run_id);

-- Removed runs whose rows are still being deleted, a few at a time; if that was cut short, the next prune goes on.
CREATE TABLE removals (run INTEGER PRIMARY KEY);
