-- Runs that wait for a slot of their concurrency key hold the lease '|line'.

CREATE INDEX leases_in_line ON leases (expires_at) WHERE attempt = '|line' AND owner <> '';
