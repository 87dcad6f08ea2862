"""When a join is decided, and how."""

from itertools import product
from typing import Literal

import pytest

from podium.machine.joins import decided
from podium.plan.plan import Join

Rule = Literal["all", "any", "majority"]


@pytest.mark.rule("D07")
@pytest.mark.rule("R060")
@pytest.mark.parametrize(
    ("rule", "total", "completed", "failed", "others", "verdict"),
    [
        ("all", 3, 2, 0, 0, None),
        ("all", 3, 3, 0, 0, "success"),
        ("all", 3, 0, 1, 0, None),
        ("all", 3, 2, 1, 0, "failure"),
        ("all", 3, 2, 0, 1, "success"),
        ("all", 3, 0, 0, 3, "success"),
        ("any", 3, 1, 0, 0, "success"),
        ("any", 3, 0, 2, 0, None),
        ("any", 3, 0, 3, 0, "failure"),
        ("any", 3, 0, 2, 1, "failure"),
        ("majority", 3, 1, 0, 0, None),
        ("majority", 3, 2, 0, 0, "success"),
        ("majority", 4, 2, 1, 0, None),
        ("majority", 4, 2, 2, 0, "failure"),
        ("majority", 4, 0, 2, 0, "failure"),
        ("majority", 4, 1, 0, 2, "failure"),
        ("all", 0, 0, 0, 0, "success"),
        ("any", 0, 0, 0, 0, "success"),
        ("majority", 0, 0, 0, 0, "success"),
    ],
)
def test_a_join_is_decided_as_soon_as_it_is_certain(
    rule: Rule, total: int, completed: int, failed: int, others: int, verdict: str | None
) -> None:
    found = decided(Join(rule), total=total, completed=completed, failed=failed, others=others)
    assert found == verdict


@pytest.mark.rule("D07")
def test_all_can_fail_fast() -> None:
    assert decided(Join("all", fail_fast=True), total=3, completed=0, failed=1, others=0) == "failure"
    assert decided(Join("all", fail_fast=True), total=3, completed=2, failed=0, others=0) is None


@pytest.mark.parametrize("rule", ["all", "any", "majority"])
def test_a_decision_never_changes_whatever_follows_and_always_comes(rule: Rule) -> None:
    for fail_fast, total in product((False, True), range(1, 6)):
        join = Join(rule, fail_fast=fail_fast)
        for completed, failed, others in product(range(total + 1), repeat=3):
            ended = completed + failed + others
            if ended > total:
                continue
            verdict = decided(join, total=total, completed=completed, failed=failed, others=others)
            if ended == total:
                assert verdict is not None
            elif verdict is not None:
                for more in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
                    after = decided(
                        join,
                        total=total,
                        completed=completed + more[0],
                        failed=failed + more[1],
                        others=others + more[2],
                    )
                    assert after == verdict
