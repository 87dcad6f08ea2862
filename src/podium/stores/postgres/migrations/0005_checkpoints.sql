-- The newest checkpoint of each run: a cache of its log. It may be deleted at any time.

CREATE TABLE checkpoints (
    run            bigint PRIMARY KEY,
    run_seq        bigint NOT NULL,
    version        text COLLATE "C" NOT NULL,
    rules_version  bigint NOT NULL,
    plan_sha256    text COLLATE "C" NOT NULL,
    sha256         bytea NOT NULL,
    body           bytea NOT NULL
);

-- It is JSON of megabytes that is rewritten as a whole: compressing it takes longer than storing it.
ALTER TABLE checkpoints ALTER COLUMN body SET STORAGE EXTERNAL;
