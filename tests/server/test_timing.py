"""How long a 404 takes says nothing about whether the object exists in another tenant.

`PODIUM_TEST_PAIRS=2000` compares as many pairs as is promised; the suite compares fewer.
"""

import math
import os
import time
from random import Random
from uuid import uuid4

import pytest

from tests.server.site import Site

PAIRS = int(os.environ.get("PODIUM_TEST_PAIRS", "300"))
# A difference that chance alone shows once in 30,000 times.
MAX_DEVIATIONS = 4.0


def deviations(left: list[float], right: list[float]) -> float:
    """Mann-Whitney: how many standard deviations the ranks of `left` are from those of chance."""
    ranked = sorted([(one, True) for one in left] + [(one, False) for one in right])
    ranks = sum(rank for rank, (_, is_left) in enumerate(ranked, 1) if is_left)
    count, other = len(left), len(right)
    mean = count * (count + other + 1) / 2
    return abs(ranks - mean) / math.sqrt(count * other * (count + other + 1) / 12)


def test_the_comparison_notices_a_small_difference_and_no_chance() -> None:
    chance = Random(1)
    some, others = ([chance.gauss(10, 1) for _ in range(PAIRS)] for _ in range(2))
    assert deviations(some, others) < MAX_DEVIATIONS
    assert deviations(some, [one + 1 for one in others]) > MAX_DEVIATIONS


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rest", ["", "/events", "/logs", "/why"])
def test_another_tenants_run_and_none_at_all_take_the_same_time(site: Site, rest: str) -> None:
    theirs = site.start(tenant="other")
    chance, taken = Random(7), {True: list[float](), False: list[float]()}

    async def compare() -> None:
        for _ in range(PAIRS + 20):
            exists = [True, False]
            chance.shuffle(exists)
            for one in exists:
                run_id = theirs if one else str(uuid4())
                since = time.perf_counter()
                answer = await site.ask_async("GET", f"/api/v1/runs/{run_id}{rest}", role="viewer")
                taken[one].append(time.perf_counter() - since)
                assert answer.status == 404

    site.run(compare())
    # What is loaded with the first answers says nothing about later ones.
    assert deviations(taken[True][20:], taken[False][20:]) < MAX_DEVIATIONS
