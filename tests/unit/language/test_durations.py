"""Durations in workflow files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.language.durations import seconds_of
from podium.language.workflow import read_workflow
from podium.plan.loading import plan_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1d2h3m4s", 93_784),
        ("0.5s", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
    ],
)
def test_a_duration_is_a_number_of_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "90",
        "5 min",
        "30m1h",
        "1h1h",
        "1H",
        "-5s",
        "1e3s",
        "500ms",
        "1h 30m",
        "٣s",
        ".5s",
        "1.s",
        "1s\n",
    ],
)
def test_other_texts_are_not_durations(text: str) -> None:
    assert seconds_of(text) is None


@given(st.integers(0, 10**6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_the_parts_of_a_duration_are_added(days: int, hours: int, minutes: int, seconds: int) -> None:
    text = f"{days}d{hours}h{minutes}m{seconds}s"
    assert seconds_of(text) == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _plan(timeout: str) -> bytes:
    text = f'{{"version": "2.0", "name": "w", "steps": [{{"name": "A", "command": "true", "timeout": {timeout}}}]}}'
    plan = read_workflow(text.encode(), "w").plan
    assert plan is not None
    return plan_bytes(plan)


def test_a_duration_and_its_seconds_are_the_same_plan() -> None:
    assert _plan('"1h30m"') == _plan("5400")
