-- Open runs that another engine carries.
CREATE INDEX runs_open_by_engine
    ON runs (provider, run_id)
    WHERE provider IS NOT NULL AND status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED');
