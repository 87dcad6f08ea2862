-- Schedules, what became of their times, and what their runs need.
--
-- `body` is the schedule as JSON; the columns beside it are what it is found by. `due_at` is when it has to be looked
-- at: NULL of one that is paused or has ended, '' of one that has times waiting. `number` counts the ticks of a schedule.

CREATE TABLE schedules (
    tenant_id   TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    pool        TEXT NOT NULL,
    due_at      TEXT,
    body        BLOB NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (due_at, tenant_id, schedule_id) WHERE due_at IS NOT NULL;

CREATE TABLE schedule_contents (
    tenant_id   TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    name        TEXT NOT NULL,
    sha256      BLOB NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id, name),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_ticks (
    tenant_id   TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    number      INTEGER NOT NULL,
    body        BLOB NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id, number),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
