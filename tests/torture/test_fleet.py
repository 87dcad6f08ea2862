"""A sample of worker processes that are killed; `make torture` submits twenty thousand runs."""

import asyncio
from pathlib import Path

from tests.torture.fleet import Settings, torture


def test_every_request_is_one_run_that_ends_once_although_workers_are_killed(tmp_path: Path) -> None:
    settings = Settings(runs=60, workers=2, kill_every=2.0, max_kills=4)
    assert asyncio.run(torture(f"sqlite:{tmp_path / 'podium.db'}", tmp_path, settings)) == []
