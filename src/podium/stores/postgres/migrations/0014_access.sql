-- Who may ask over HTTP: tokens, the sessions of browsers, and tenants.
--
-- `tokens` has the SHA-256 of each token and never the token. `roles` and `projects` are separated by commas; no projects
-- means all of them. A removed token is gone from the next request on, and its sessions with it.
--
-- `login_codes` are used once: exchanging one for a session removes it.
--
-- A tenant without a row in `tenant_states` is open. A closed one has no working tokens, takes no new runs, and a limit of
-- 0 keeps its queued runs from starting; `limit_before` is the limit that it had.

CREATE TABLE tokens (
    token_id     text COLLATE "C" PRIMARY KEY,
    sha256       bytea NOT NULL,
    tenant_id    text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    roles        text COLLATE "C" NOT NULL,
    projects     text COLLATE "C" NOT NULL,
    created_at   text COLLATE "C" NOT NULL,
    created_by   text COLLATE "C" NOT NULL,
    expires_at   text COLLATE "C",
    last_used_at text COLLATE "C"
);
CREATE INDEX tokens_of_tenant ON tokens (tenant_id, created_at);

CREATE TABLE login_codes (
    sha256     bytea PRIMARY KEY,
    token_id   text COLLATE "C" NOT NULL REFERENCES tokens (token_id) ON DELETE CASCADE,
    expires_at text COLLATE "C" NOT NULL
);

CREATE TABLE sessions (
    sha256     bytea PRIMARY KEY,
    token_id   text COLLATE "C" REFERENCES tokens (token_id) ON DELETE CASCADE,
    credential bytea NOT NULL,
    expires_at text COLLATE "C" NOT NULL
);
CREATE INDEX sessions_of_token ON sessions (token_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

CREATE TABLE tenant_states (
    tenant_id    text COLLATE "C" PRIMARY KEY,
    created_at   text COLLATE "C" NOT NULL,
    closed_at    text COLLATE "C",
    limit_before integer
);
