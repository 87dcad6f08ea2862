-- Runs that wait for a slot of their concurrency key hold the lease '|line'.

CREATE INDEX leases_in_line ON leases (boot, expires) WHERE attempt = '|line' AND owner <> '';
