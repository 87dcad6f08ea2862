"""What a failed graph says: the same whichever of its steps ends last, so that engines and repeated runs agree."""

from itertools import permutations

import pytest

from tests.unit.machine.building import graph, plan, task
from tests.unit.machine.hosting import Host

STEPS = (task("a"), task("b"), task("c"))


def _message(codes: dict[str, int], order: tuple[str, ...]) -> str:
    host = Host(plan(*STEPS, discipline="graph")).start()
    for name in order:
        host.end(name, codes[name])
    assert host.ended == "Failed"
    return str(host.log[-1].payload.decode()).partition('"message":"')[2].partition('"')[0]


@pytest.mark.rule("D65")
@pytest.mark.parametrize("order", list(permutations("abc")))
def test_the_one_step_that_failed_is_named_with_its_reason_whichever_step_ends_last(
    order: tuple[str, ...],
) -> None:
    assert _message({"a": 0, "b": 3, "c": 0}, order) == "step 'b': exit code 3"


@pytest.mark.rule("D65")
@pytest.mark.parametrize("order", list(permutations("abc")))
def test_several_steps_that_failed_are_named_in_the_order_of_the_plan(order: tuple[str, ...]) -> None:
    assert _message({"a": 1, "b": 0, "c": 2}, order) == "failed: a, c"


@pytest.mark.rule("D65")
def test_a_failure_that_was_taken_back_is_not_named() -> None:
    host = Host(plan(graph("g", *STEPS))).start()
    host.end("g/a", 1)
    host.end("g/b", 4)
    host.signal("RETRY_STEP", stepId="g/a")
    host.end("g/a", attempt=2)
    host.end("g/c")
    assert host.last("g", "StepFailed")["error"]["message"] == "step 'b': exit code 4"


@pytest.mark.rule("D65")
def test_the_reason_is_kept_by_a_checkpoint() -> None:
    host = Host(plan(*STEPS, discipline="graph")).start()
    host.end("b", 3)
    saved = host.machine.checkpoint("sha")
    restored = type(host.machine).restore(host.plan, saved, "sha")
    host.machine = restored
    host.end("a")
    host.end("c")
    assert '"message":"step \'b\': exit code 3"' in host.log[-1].payload.decode()
