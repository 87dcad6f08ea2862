"""Workers that are killed at exact points: before and after the work of a step, before and after an append.

`python -m tests.torture.temporal_points` goes through all of them.
"""

import pytest

from tests.engines.cases import Case
from tests.engines.site import until
from tests.temporal.kill_points import STEPS, KillPoint, add_crash, kill_at
from tests.temporal.site import Site


@pytest.mark.rule("G13")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "point",
    [
        KillPoint("before", "start_attempt", 2),
        KillPoint("after", "start_attempt", 2),
        KillPoint("before", "append", 3),
        KillPoint("after", "append", 3),
    ],
    ids=str,
)
def test_a_worker_dies_at_a_call_of_the_store_and_another_one_continues(site: Site, point: KillPoint) -> None:
    assert kill_at(site, point)


@pytest.mark.rule("G13")
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("command", "times"), [("crash; mark 0.1", 1), ("mark 0.1; crash", 2)], ids=["before", "after"]
)
def test_a_step_kills_its_worker_before_or_after_its_work(site: Site, command: str, times: int) -> None:
    worker = site.start_worker()
    add_crash(site)
    case = Case(site, STEPS.replace('[mark, "0.1"]', f'[sh, -c, "{command}"]'))
    until(lambda: not worker.is_alive, "the worker to be killed")
    site.start_worker()
    case.finish()
    assert case.marks.count("end", "B") == times
