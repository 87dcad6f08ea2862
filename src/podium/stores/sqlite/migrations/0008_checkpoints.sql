-- The newest checkpoint of each run: a cache of its log. It may be deleted at any time.

CREATE TABLE checkpoints (
    run           INTEGER PRIMARY KEY REFERENCES runs (number),
    run_seq       INTEGER NOT NULL,
    version       TEXT NOT NULL,
    rules_version INTEGER NOT NULL,
    plan_sha256   TEXT NOT NULL,
    sha256        BLOB NOT NULL,
    body          BLOB NOT NULL
);
