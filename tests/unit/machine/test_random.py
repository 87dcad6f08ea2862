"""Random plans, outcomes, orders, crashes and signals: a few hundred here, many more with `python -m tests.torture`."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.torture.generator import FEATURES
from tests.torture.running import missing_features, run_batch, run_one


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_runs_keep_every_promise(first: int) -> None:
    batch = run_batch(range(first, first + 25))
    assert batch.failures == []
    assert batch.runs == 50


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=10**6, max_value=10**12), st.booleans())
def test_any_seed_keeps_every_promise(seed: int, plain: bool) -> None:
    told, _ = run_one(seed, plain=plain)
    assert told == ""


def test_everything_the_language_can_say_occurs_often_enough() -> None:
    from collections import Counter
    from random import Random

    from tests.torture.generator import Generator
    from tests.torture.running import Batch

    batch = Batch()
    for seed in range(500):
        generator = Generator(Random(f"plan {seed}"))
        generator.plan()
        batch.plans += 1
        batch.features += Counter(name for name, count in generator.features.items() if count)
    assert missing_features(batch) == []
    assert set(batch.features) <= {*FEATURES}
