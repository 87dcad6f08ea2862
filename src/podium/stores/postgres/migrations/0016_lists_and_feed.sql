-- Lists of runs, newest first, by every filter that they have; and the feed of changes.
--
-- The list is in the order (created_at, number). Each filter has an index in that order, so that a page of a list costs
-- the same however many runs there are (podium.stores.listing). Runs that were imported are where they were created.
--
-- `labels` has a row for each label of a run, for the filter; the run itself has them as JSON, to be shown.

ALTER TABLE runs ADD COLUMN labels bytea;

CREATE TABLE labels (
    tenant_id   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    created_at  text COLLATE "C" NOT NULL,
    run         bigint NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, run)
);
CREATE INDEX labels_of_run ON labels (run);

DROP INDEX runs_listed;
CREATE INDEX runs_listed ON runs (tenant_id, created_at, number);
CREATE INDEX runs_listed_by_status ON runs (tenant_id, status, created_at, number);
CREATE INDEX runs_listed_by_plan ON runs (tenant_id, plan_id, created_at, number);
CREATE INDEX runs_listed_by_project ON runs (tenant_id, project_id, created_at, number);
CREATE INDEX runs_listed_by_environment ON runs (tenant_id, environment_id, created_at, number);
CREATE INDEX runs_listed_by_pool ON runs (tenant_id, pool, created_at, number) WHERE pool IS NOT NULL;

-- The transaction that stored an event: the position of the feed. Events that were stored before have none, so that the
-- table need not be written again; no reader of the feed is interested in them. The index grows at its end only.
ALTER TABLE events ADD COLUMN tx bigint;
ALTER TABLE events ALTER COLUMN tx SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX events_by_tx ON events (tx) WHERE tx IS NOT NULL;

CREATE TABLE feed_readers (
    reader    text COLLATE "C" PRIMARY KEY,
    position  bigint NOT NULL
);
