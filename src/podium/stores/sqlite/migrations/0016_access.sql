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
    token_id     TEXT NOT NULL PRIMARY KEY,
    sha256       BLOB NOT NULL,
    tenant_id    TEXT NOT NULL,
    name         TEXT NOT NULL,
    roles        TEXT NOT NULL,
    projects     TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   TEXT,
    last_used_at TEXT
) STRICT;
CREATE INDEX tokens_of_tenant ON tokens (tenant_id, created_at);

CREATE TABLE login_codes (
    sha256     BLOB NOT NULL PRIMARY KEY,
    token_id   TEXT NOT NULL REFERENCES tokens (token_id) ON DELETE CASCADE,
    expires_at TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
    sha256     BLOB NOT NULL PRIMARY KEY,
    token_id   TEXT REFERENCES tokens (token_id) ON DELETE CASCADE,
    credential BLOB NOT NULL,
    expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_of_token ON sessions (token_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

CREATE TABLE tenant_states (
    tenant_id    TEXT NOT NULL PRIMARY KEY,
    created_at   TEXT NOT NULL,
    closed_at    TEXT,
    limit_before INTEGER
) STRICT;
