-- What runs look like, folded from the log: a small summary, and a row for each step.
--
-- Snapshots may be behind the log and may be thrown away; `last_seq` says how far one has folded, and an older
-- one never replaces a newer.

CREATE TABLE summaries (
    run      INTEGER PRIMARY KEY REFERENCES runs (number),
    last_seq INTEGER NOT NULL,
    body     BLOB NOT NULL
);

CREATE TABLE steps (
    run     INTEGER NOT NULL,
    step_id TEXT NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (run, step_id)
) WITHOUT ROWID;
