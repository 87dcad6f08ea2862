"""`python -m bench.versus` compares what two commits measured."""

import pytest

from bench.versus import Figure, measured, slowdown

PRINTED = """2 cores, x86_64, CPython 3.11.7, load 0.1 before the first measurement

The machine alone
  sequence of 20 steps: the floor              1,250,000 events/s
  sequence of 20 steps                         205,000.50 events/s   goal: at least 100000 events/s met
  last tenth / first                                1.02 x   goal: at most 1.5 x           met

Start of the command line
  podium --version                                25.10 ms

Every goal that decides was met.
"""


def test_figures_are_compared_within_their_section_and_ratios_are_left_out() -> None:
    assert measured(PRINTED) == {
        Figure("The machine alone", "sequence of 20 steps: the floor", "events/s"): 1_250_000,
        Figure("The machine alone", "sequence of 20 steps", "events/s"): 205_000.5,
        Figure("Start of the command line", "podium --version", "ms"): 25.1,
    }


@pytest.mark.parametrize(
    ("unit", "older", "newer", "expected"),
    [
        ("ms", 10, 12, 1.2),
        ("ms", 10, 5, 0.5),
        ("events/s", 100, 50, 2),
        ("events/s", 100, 200, 0.5),
        ("KiB", 4, 8, 2),
    ],
)
def test_slower_is_more_than_one(unit: str, older: float, newer: float, expected: float) -> None:
    assert slowdown(Figure("", "", unit), older, newer) == pytest.approx(expected)
