-- Runs of pools, which hosts claim many at a time.
--
-- `wake_at` says since when a run without a holder may be claimed again: NULL of a run that is not parked, a moment in
-- the future of one that waits for it, and '' of one that was sent a signal. It is written when a run is parked, claimed
-- or signalled, and not with the events of its driver: those must not touch an index.
--
-- `has_turn` is set when a run with a limit for its key is claimed for the first time, and stays. Of two runs that are
-- created at the same time the younger may be visible first: the older one waits for it then.
--
-- `runs_of_key` has the open runs of a key by age: how many come before a run is known after looking at as many as
-- may be under way, however many wait.

ALTER TABLE runs ADD COLUMN pool text COLLATE "C";
ALTER TABLE runs ADD COLUMN concurrency_limit integer;
ALTER TABLE runs ADD COLUMN wake_at text COLLATE "C";
ALTER TABLE runs ADD COLUMN has_turn boolean NOT NULL DEFAULT false;

CREATE INDEX runs_queued_in_pool ON runs (pool, tenant_id, priority DESC, number)
    WHERE pool IS NOT NULL AND wake_at IS NULL
      AND (status = 'APPROVED' OR (status = 'PENDING' AND NOT needs_approval));
CREATE INDEX runs_started_in_pool ON runs (pool, tenant_id, number)
    WHERE pool IS NOT NULL AND wake_at IS NULL AND status IN ('RUNNING', 'PAUSED');
CREATE INDEX runs_parked ON runs (pool, tenant_id, wake_at)
    WHERE pool IS NOT NULL AND wake_at IS NOT NULL AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED');
CREATE INDEX runs_of_key ON runs (tenant_id, concurrency_key, number)
    WHERE concurrency_limit IS NOT NULL AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED');
CREATE INDEX runs_with_turn ON runs (tenant_id, concurrency_key, number)
    WHERE concurrency_limit IS NOT NULL AND has_turn AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED');
