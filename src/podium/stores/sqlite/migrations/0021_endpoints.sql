-- Hooks as JSON, and the deliveries that they have accepted.

CREATE TABLE endpoints (
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    hook        TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (hook, delivery_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_age ON deliveries (at);
