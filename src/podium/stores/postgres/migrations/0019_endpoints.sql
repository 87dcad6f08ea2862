-- Hooks as JSON, and the deliveries that they have accepted.

CREATE TABLE endpoints (
    kind      text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE deliveries (
    hook        text COLLATE "C" NOT NULL,
    delivery_id text COLLATE "C" NOT NULL,
    at          text COLLATE "C" NOT NULL,
    PRIMARY KEY (hook, delivery_id)
);

CREATE INDEX deliveries_by_age ON deliveries (at);
