-- Plans that tenants have published. A row never changes, except for its approval.
--
-- The bytes are here and not in `contents`: they are published before a run has them, and stay when no run has them.

CREATE TABLE published_plans (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    plan_id text COLLATE "C" NOT NULL,
    plan_version text COLLATE "C" NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    schema_version text COLLATE "C" NOT NULL,
    size_bytes bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    published_at text COLLATE "C" NOT NULL,
    published_by text COLLATE "C" NOT NULL,
    approved_at text COLLATE "C",
    approved_by text COLLATE "C",
    content bytea NOT NULL,
    source bytea NOT NULL,
    UNIQUE (tenant_id, plan_id, plan_version)
);

CREATE INDEX published_plans_by_hash ON published_plans (tenant_id, sha256);
CREATE INDEX published_plans_by_age ON published_plans (tenant_id, plan_id, number);
