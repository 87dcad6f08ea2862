"""The budgets of a plan, taken out of it and put in again."""

from podium.plan.budgets import budgets_of, with_budgets
from podium.plan.plan import Budget
from tests.unit.workflows.reading import plan

CALLED = """version: "2.0"
name: Called
budget: {usd: USD}
steps: [{name: Ask, provider: echo, prompt: hi}]
"""
EVERYTHING = """
version: "2.0"
name: All
budget: {usd: USD}
steps:
  - {name: Ask, provider: echo, prompt: hi, cache: true, budget: {usd: USD, reserve: 1}}
  - name: Loop
    budget: {tokens: 5}
    for_each: {items: [1], steps: [{name: In, provider: echo, prompt: hi, budget: {usd: USD}}]}
  - {name: Turn, budget: {usd: USD}, repeat_until: {condition: {step_ok: T}, steps: [{name: T, command: [a]}]}}
  - {name: Both, budget: {usd: USD}, parallel: [{name: P, provider: echo, prompt: hi}, {name: Q, command: [a]}]}
  - {name: Group, budget: {usd: USD}, steps: [{name: G, provider: echo, prompt: hi}]}
  - {name: Called, call: called.yaml}
  - {name: _error, provider: echo, prompt: hi, budget: {usd: USD}}
finally: [{name: Clean, provider: echo, prompt: hi, budget: {usd: USD}}]
"""


def test_a_plan_with_the_budgets_of_another_differs_from_it_in_nothing() -> None:
    few, many = (
        plan(EVERYTHING.replace("USD", usd), files={"called.yaml": CALLED.replace("USD", usd)})
        for usd in ("1", "2")
    )
    assert few.workflow != many.workflow
    assert with_budgets(few, budgets_of(many)).workflow == many.workflow
    assert with_budgets(few, {}) == few


def test_everything_that_can_have_a_budget_is_listed() -> None:
    found = budgets_of(
        plan(EVERYTHING.replace("USD", "1"), files={"called.yaml": CALLED.replace("USD", "3")})
    )
    assert found == {
        "": Budget(usd=1),
        "Ask": Budget(usd=1, reserve=1),
        "Loop": Budget(tokens=5),
        "Loop/In": Budget(usd=1),
        "Turn": Budget(usd=1),
        "Both": Budget(usd=1),
        "Both/P": None,
        "Group": Budget(usd=1),
        "Group/G": None,
        "Called": Budget(usd=3),
        "Called/Ask": None,
        "_error": Budget(usd=1),
        "_finally/Clean": Budget(usd=1),
    }
