-- Where nodes are registered. Both tables change in one statement, conditional on the revision that was read.
--
-- `json`, not `jsonb`: it keeps every text and number as it was given, also \u0000 and 1e300.

-- Whose nodes these are: two installations that shared the tables would register each other's nodes.
CREATE TABLE installation (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    name     text NOT NULL
);

-- For other systems, which read it and never write it.
CREATE TABLE node_registrations (
    node_id         uuid PRIMARY KEY,
    status          text NOT NULL CHECK (status IN ('registered', 'retired')),
    node_type       text NOT NULL,
    node_version    text NOT NULL,
    capabilities    json NOT NULL,
    endpoints       json NOT NULL,
    node_role       text,
    metadata        json NOT NULL,
    correlation_id  uuid NOT NULL,
    network_id      text,
    deployment_id   text,
    epoch           bigint,
    "timestamp"     timestamptz NOT NULL
);

-- What decisions are made on.
CREATE TABLE registration_projection (
    node_id            uuid PRIMARY KEY,
    revision           bigint NOT NULL,
    -- The change that made this revision; empty after a side had to be applied again.
    last_change        text NOT NULL,
    state              text NOT NULL,
    node               json NOT NULL,
    -- That of the node; 0 if it has none.
    epoch              bigint NOT NULL,
    consul_applied     boolean NOT NULL,
    postgres_applied   boolean NOT NULL,
    seen_at            timestamptz NOT NULL,
    applied_at         timestamptz,
    ack_deadline       timestamptz,
    liveness_deadline  timestamptz,
    retry_at           timestamptz,
    heartbeat_at       timestamptz,
    due_at             timestamptz GENERATED ALWAYS AS (LEAST(ack_deadline, liveness_deadline, retry_at)) STORED
) WITH (fillfactor = 80);

CREATE INDEX registration_projection_due ON registration_projection (due_at, node_id) WHERE due_at IS NOT NULL;
