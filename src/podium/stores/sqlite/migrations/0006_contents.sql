-- What runs need besides their events: the plan, the workflow file, values too large for an event.
--
-- The bytes are in `contents`, once for each SHA-256, however many runs have them; `kept_contents` says which run has
-- which of them, and under which name. A content that no row of `kept_contents` refers to is removed with the last
-- of those rows, in the same transaction.

CREATE TABLE contents (
    number  INTEGER PRIMARY KEY,
    sha256  BLOB NOT NULL UNIQUE,
    content BLOB NOT NULL
);

CREATE TABLE kept_contents (
    run     INTEGER NOT NULL,
    name    TEXT NOT NULL,
    content INTEGER NOT NULL REFERENCES contents (number),
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE INDEX kept_by_content ON kept_contents (content);
