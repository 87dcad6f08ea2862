-- Lists of runs, newest first, by every filter that they have; and how far the readers of the feed have come.
--
-- The list is in the order (created_at, number). Each filter has an index in that order, so that a page of a list costs
-- the same however many runs there are (podium.stores.listing). Runs that were imported are where they were created.
--
-- `labels` has a row for each label of a run, for the filter; the run itself has them as JSON, to be shown.

ALTER TABLE runs ADD COLUMN labels BLOB;

CREATE TABLE labels (
    tenant_id  TEXT NOT NULL,
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at TEXT NOT NULL,
    run        INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, run)
) WITHOUT ROWID;
CREATE INDEX labels_of_run ON labels (run);

DROP INDEX runs_of_tenant;
CREATE INDEX runs_listed ON runs (tenant_id, created_at, number);
CREATE INDEX runs_listed_by_status ON runs (tenant_id, status, created_at, number);
CREATE INDEX runs_listed_by_plan ON runs (tenant_id, plan_id, created_at, number);
CREATE INDEX runs_listed_by_project ON runs (tenant_id, project_id, created_at, number);
CREATE INDEX runs_listed_by_environment ON runs (tenant_id, environment_id, created_at, number);
CREATE INDEX runs_listed_by_pool ON runs (tenant_id, pool, created_at, number) WHERE pool IS NOT NULL;

-- The position is an `events.id`.
CREATE TABLE feed_readers (
    reader   TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) WITHOUT ROWID;
