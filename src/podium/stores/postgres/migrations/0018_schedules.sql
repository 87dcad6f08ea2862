-- Schedules, what became of their times, and what their runs need.
--
-- `body` is the schedule as JSON; the columns beside it are what it is found by. `due_at` is when it has to be looked
-- at: NULL of one that is paused or has ended, '' of one that has times waiting. `number` counts the ticks of a schedule.

CREATE TABLE schedules (
    tenant_id   text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    revision    bigint NOT NULL,
    pool        text COLLATE "C" NOT NULL,
    due_at      text COLLATE "C",
    body        bytea NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id)
);

CREATE INDEX schedules_due ON schedules (due_at, tenant_id, schedule_id) WHERE due_at IS NOT NULL;

CREATE TABLE schedule_contents (
    tenant_id   text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    sha256      bytea NOT NULL,
    content     bytea NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id, name),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE
);

CREATE TABLE schedule_ticks (
    tenant_id   text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    number      bigint NOT NULL,
    body        bytea NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id, number),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE
);
