-- What runs need besides their events: the plan, the workflow file, values too large for an event.
--
-- The bytes are in `contents`, once for each SHA-256, however many runs have them; `kept_contents` says which run has
-- which of them, and under which name. A content that no row of `kept_contents` refers to is removed with the last of
-- those rows. Whoever adds such a row holds the content's row FOR KEY SHARE, whoever removes one holds it FOR UPDATE,
-- each in the order of the SHA-256: so nothing is removed that another transaction is about to refer to. These locks
-- come last in the order of 0001_log.sql.

CREATE TABLE contents (
    sha256   bytea PRIMARY KEY CHECK (length(sha256) = 32),
    content  bytea NOT NULL
);

CREATE TABLE kept_contents (
    run     bigint NOT NULL,
    name    text COLLATE "C" NOT NULL,
    sha256  bytea NOT NULL,
    PRIMARY KEY (run, name)
);

CREATE INDEX kept_by_content ON kept_contents (sha256);
