-- Who works on what: leases, limits, whose turn it is, and when somebody has to look again.
--
-- A lease is held while `owner` is not empty, and is live while, besides, `boot` is this boot of the machine and
-- `expires` is ahead on its boot-time clock. The wall clock decides nothing. Another boot means that whoever held
-- it is gone. Generations only rise, so the row stays when a lease is given up. An empty `attempt` is the lease
-- of the run itself, and the live ones among these are the slots that limits count: there is no counter that
-- could be wrong.

CREATE TABLE leases (
    run        INTEGER NOT NULL REFERENCES runs (number),
    attempt    TEXT NOT NULL,
    owner      TEXT NOT NULL,
    generation INTEGER NOT NULL,
    boot       TEXT NOT NULL,
    expires    REAL NOT NULL,
    PRIMARY KEY (run, attempt)
) WITHOUT ROWID;

CREATE INDEX leases_of_runs ON leases (boot, expires) WHERE attempt = '' AND owner <> '';

CREATE TABLE limits (
    tenant_id TEXT NOT NULL,
    scope     TEXT NOT NULL,
    name      TEXT NOT NULL,
    most      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, scope, name)
) WITHOUT ROWID;

-- `served` orders tenants by when they last got a run started: the highest number is the latest.
CREATE TABLE tenants (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    served    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE wake_ups (
    run INTEGER NOT NULL REFERENCES runs (number),
    key TEXT NOT NULL,
    due TEXT NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE INDEX wake_ups_by_due ON wake_ups (due, key);
