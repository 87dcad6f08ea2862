-- Plans that tenants have published. A row never changes, except for its approval.
--
-- The bytes are here and not in `contents`: they are published before a run has them, and stay when no run has them.

CREATE TABLE published_plans (
    number INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    plan_version TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    schema_version TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    name TEXT NOT NULL,
    published_at TEXT NOT NULL,
    published_by TEXT NOT NULL,
    approved_at TEXT,
    approved_by TEXT,
    content BLOB NOT NULL,
    source BLOB NOT NULL,
    UNIQUE (tenant_id, plan_id, plan_version)
) STRICT;

CREATE INDEX published_plans_by_hash ON published_plans (tenant_id, sha256);
CREATE INDEX published_plans_by_age ON published_plans (tenant_id, plan_id, number);
