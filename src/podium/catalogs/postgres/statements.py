"""The statements of the registration table. Each is a transaction of its own, and one round trip."""

from typing import Final

PROJECTION: Final = (
    "node::text, state, revision, consul_applied, postgres_applied, seen_at, applied_at, ack_deadline, "
    "liveness_deadline, retry_at, heartbeat_at"
)
REGISTRATION: Final = (
    "node_id, status, node_type, node_version, capabilities, endpoints, node_role, metadata, correlation_id, "
    'network_id, deployment_id, epoch, "timestamp"'
)

# The first process that claims it decides.
CLAIM: Final = "INSERT INTO installation (name) VALUES (%s) ON CONFLICT DO NOTHING"
OWNER: Final = "SELECT name FROM installation"

READ: Final = f"SELECT {PROJECTION} FROM registration_projection WHERE node_id = %s"

# After a change that stored nothing: whether it was stored before.
READ_CHANGED: Final = (
    f"SELECT {PROJECTION} FROM registration_projection WHERE node_id = %s AND last_change = %s"
)

# Without a row for other systems, `status` is null and the last two parts have nothing to do. An existing row
# can only be changed with its revision; the condition is checked again if another writer was first.
WRITE: Final = f"""
WITH changed AS (
    INSERT INTO registration_projection AS stored (
        node_id, revision, last_change, state, node, epoch, consul_applied, postgres_applied, seen_at, applied_at,
        ack_deadline, liveness_deadline, retry_at, heartbeat_at
    )
    SELECT %(node_id)s::uuid, 1, %(change_id)s::text, %(state)s::text, %(node)s::json, %(known_epoch)s::bigint,
           %(consul_applied)s::boolean, %(postgres_applied)s::boolean, %(seen_at)s::timestamptz,
           %(applied_at)s::timestamptz, %(ack_deadline)s::timestamptz, %(liveness_deadline)s::timestamptz,
           %(retry_at)s::timestamptz, %(heartbeat_at)s::timestamptz
    WHERE %(expected)s::bigint = 0
       OR EXISTS (SELECT 1 FROM registration_projection WHERE node_id = %(node_id)s::uuid)
    ON CONFLICT (node_id) DO UPDATE SET
        revision = stored.revision + 1,
        last_change = excluded.last_change,
        state = excluded.state,
        node = excluded.node,
        epoch = excluded.epoch,
        consul_applied = excluded.consul_applied,
        postgres_applied = excluded.postgres_applied,
        seen_at = excluded.seen_at,
        applied_at = excluded.applied_at,
        ack_deadline = excluded.ack_deadline,
        liveness_deadline = CASE WHEN excluded.liveness_deadline IS NOT NULL
            THEN greatest(stored.liveness_deadline, excluded.liveness_deadline) END,
        retry_at = excluded.retry_at,
        heartbeat_at = CASE WHEN stored.liveness_deadline IS NULL OR excluded.liveness_deadline IS NULL
            THEN excluded.heartbeat_at ELSE greatest(stored.heartbeat_at, excluded.heartbeat_at) END
    WHERE stored.last_change <> excluded.last_change
      AND (stored.revision = %(expected)s::bigint
           OR (stored.revision = %(expected)s::bigint + 1 AND stored.last_change = %(may_follow)s::text))
    RETURNING *
), registered AS (
    INSERT INTO node_registrations ({REGISTRATION})
    SELECT node_id, 'registered', %(node_type)s::text, %(node_version)s::text, %(capabilities)s::json,
           %(endpoints)s::json, %(node_role)s::text, %(metadata)s::json, %(correlation_id)s::uuid,
           %(network_id)s::text, %(deployment_id)s::text, %(epoch)s::bigint, %(timestamp)s::timestamptz
    FROM changed WHERE %(status)s::text = 'registered'
    ON CONFLICT (node_id) DO UPDATE SET
        status = excluded.status,
        node_type = excluded.node_type,
        node_version = excluded.node_version,
        capabilities = excluded.capabilities,
        endpoints = excluded.endpoints,
        node_role = excluded.node_role,
        metadata = excluded.metadata,
        correlation_id = excluded.correlation_id,
        network_id = excluded.network_id,
        deployment_id = excluded.deployment_id,
        epoch = excluded.epoch,
        "timestamp" = excluded."timestamp"
), retired AS (
    UPDATE node_registrations SET status = 'retired' FROM changed
    WHERE node_registrations.node_id = changed.node_id AND %(status)s::text = 'retired'
)
SELECT {PROJECTION} FROM changed
"""

UNSETTLE: Final = """
UPDATE registration_projection
SET revision = revision + 1, last_change = '', consul_applied = false, postgres_applied = false, retry_at = %s
WHERE node_id = %s
"""

DUE: Final = """
SELECT node_id, due_at FROM registration_projection WHERE due_at <= %s ORDER BY due_at, node_id LIMIT %s
"""

DUE_AFTER: Final = """
SELECT node_id, due_at FROM registration_projection WHERE due_at <= %s AND (due_at, node_id) > (%s, %s)
ORDER BY due_at, node_id LIMIT %s
"""

SUMMARY: Final = "SELECT state, count(*), min(due_at) FROM registration_projection GROUP BY state"

# Rows are locked in the order of their ids, so that two batches cannot wait for each other.
RENEW: Final = """
WITH given AS (
    SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
        AS given (node_id, epoch, heartbeat_at, deadline)
), locked AS (
    SELECT node_id, epoch, liveness_deadline, heartbeat_at FROM registration_projection
    WHERE node_id = ANY (%s::uuid[]) AND liveness_deadline IS NOT NULL
    ORDER BY node_id FOR NO KEY UPDATE
), renewed AS (
    SELECT DISTINCT ON (given.node_id) given.* FROM given JOIN locked USING (node_id)
    WHERE given.epoch >= locked.epoch AND given.deadline > locked.liveness_deadline
      AND (locked.heartbeat_at IS NULL OR given.heartbeat_at > locked.heartbeat_at)
    ORDER BY given.node_id, given.deadline DESC, given.heartbeat_at DESC
)
UPDATE registration_projection AS stored
SET liveness_deadline = renewed.deadline, heartbeat_at = renewed.heartbeat_at
FROM renewed WHERE stored.node_id = renewed.node_id
"""


def page_of(table: str, columns: str, *, is_first: bool) -> str:
    """A page in the order of ids; all but the first have the id that it follows as their first parameter."""
    start = "" if is_first else "WHERE node_id > %s "
    return f"SELECT {columns} FROM {table} {start}ORDER BY node_id LIMIT %s"
