-- Slots of parked runs, and the workers that carry runs of pools.
--
-- `keeps_slot` is set when a run is parked, and cleared when it is claimed: while it waits, it counts toward limits
-- like a run with a live lease.
--
-- `runs_open_in_pool` counts the open runs of a tenant, however many have ended.
--
-- A worker writes its state with every heartbeat; `is_draining` is set by the operator who stops it, and read by the
-- worker with its next heartbeat. `report` is JSON, read and written by Podium only.

ALTER TABLE runs ADD COLUMN keeps_slot boolean NOT NULL DEFAULT false;

CREATE INDEX runs_keeping_slot
    ON runs (tenant_id, project_id, plan_id, concurrency_key) WHERE keeps_slot AND status IN ('RUNNING', 'PAUSED');

CREATE INDEX runs_open_in_pool
    ON runs (tenant_id, pool, status)
    WHERE pool IS NOT NULL AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED');

CREATE TABLE workers (
    worker_id   text COLLATE "C" NOT NULL PRIMARY KEY,
    seen_at     text COLLATE "C" NOT NULL,
    is_draining boolean NOT NULL DEFAULT false,
    report      bytea NOT NULL
);
