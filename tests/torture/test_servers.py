"""A sample of servers and workers that are killed; `make torture` has twenty thousand requests."""

import asyncio
from pathlib import Path

import pytest

from services import postgres
from tests.servers import need
from tests.torture.servers import Settings, torture


@pytest.mark.timeout(400)
def test_every_request_delivery_and_time_is_one_run_although_servers_and_workers_are_killed(
    tmp_path: Path,
) -> None:
    settings = Settings(runs=30, workers=2, callers=2, schedules=1, ticks=5, followed=2, max_kills=4)
    with need(lambda: postgres.start(fsync=False)) as server:
        assert asyncio.run(torture(server, tmp_path, settings)) == []
