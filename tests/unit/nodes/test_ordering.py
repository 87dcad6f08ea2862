"""One order for everything: waves, and inside a wave the order of declaration."""

import pytest

from podium.nodes import EnumExecutionMode, ModelWorkflowStep, get_execution_order
from tests.unit.nodes.building import emitted_names, execute, names_of, step

DIAMOND = [
    step("load", after=["left", "right"]),
    step("right", after=["extract"]),
    step("left", after=["extract"]),
    step("extract"),
]


def order_of(steps: list[ModelWorkflowStep]) -> list[str]:
    return names_of(get_execution_order(steps), steps)


@pytest.mark.rule("AC3.1", "NR11")
def test_a_line_of_steps_is_ordered_along_its_dependencies() -> None:
    steps = [step("c", after=["b"]), step("b", after=["a"]), step("a")]
    assert order_of(steps) == emitted_names(execute(steps)) == ["a", "b", "c"]


@pytest.mark.rule("AC3.2", "NR11", "NR12")
def test_a_diamond_is_ordered_by_waves_then_declaration() -> None:
    assert order_of(DIAMOND) == emitted_names(execute(DIAMOND)) == ["extract", "right", "left", "load"]


@pytest.mark.rule("AC3.3", "NR12")
def test_several_roots_come_first_as_declared() -> None:
    steps = [step("z"), step("after_z", after=["z"]), step("a"), step("m")]
    assert order_of(steps) == emitted_names(execute(steps)) == ["z", "a", "m", "after_z"]


@pytest.mark.rule("N11", "NR12")
def test_inside_a_wave_declaration_decides_not_discovery() -> None:
    steps = [
        step("a"),
        step("b"),
        step("late", after=["b"]),
        step("early", after=["a"]),
        step("both", after=["a", "b"]),
    ]
    assert order_of(steps) == emitted_names(execute(steps)) == ["a", "b", "late", "early", "both"]


@pytest.mark.rule("NR36")
def test_a_step_without_any_connection_is_executed_in_the_first_wave() -> None:
    steps = [step("a"), step("b", after=["a"]), step("alone")]
    assert order_of(steps) == ["a", "alone", "b"]
    assert emitted_names(execute(steps)) == ["a", "alone", "b"]


@pytest.mark.rule("N10", "NR18")
def test_priority_does_not_order_steps() -> None:
    steps = [step("middle", priority=500), step("low", priority=1), step("high", priority=1000)]
    assert order_of(steps) == emitted_names(execute(steps)) == ["middle", "low", "high"]


@pytest.mark.rule("NR45", "NR65")
def test_order_index_does_not_order_steps() -> None:
    steps = [step("a", order_index=5), step("b", order_index=1), step("c", order_index=9)]
    assert order_of(steps) == emitted_names(execute(steps)) == ["a", "b", "c"]


@pytest.mark.rule("NR39", "NR40", "NR55")
@pytest.mark.parametrize("groups", [("g", "h", "g"), ("wave-1", "wave-2", None), ("a/1", "a/2", "a/1")])
def test_parallel_group_does_not_order_steps(groups: tuple[str | None, ...]) -> None:
    steps = [
        step("c", parallel_group=groups[0], after=["a"]),
        step("b", parallel_group=groups[1]),
        step("a", parallel_group=groups[2]),
    ]
    assert order_of(steps) == emitted_names(execute(steps)) == ["b", "a", "c"]


@pytest.mark.rule("NR37", "N15")
def test_the_order_inside_depends_on_means_nothing() -> None:
    steps = [step("a"), step("b"), step("c", after=["a", "b"])]
    turned = [step("a"), step("b"), step("c", after=["b", "a", "b"])]
    assert order_of(steps) == order_of(turned)
    expected, found = (execute(each).actions_emitted[2].dependencies for each in (steps, turned))
    assert expected == found
    assert len(found) == 2


@pytest.mark.rule("N14", "NR22")
@pytest.mark.parametrize("mode", [EnumExecutionMode.SEQUENTIAL, EnumExecutionMode.PARALLEL])
def test_whoever_waits_for_a_disabled_step_need_not_wait(mode: EnumExecutionMode) -> None:
    steps = [
        step("a"),
        step("off", after=["a"], enabled=False),
        step("c", after=["off"]),
        step("b", after=["a"]),
    ]
    # `c` waits for nothing and stands in the first wave; `off` keeps the place its own dependencies give it.
    assert order_of(steps) == ["a", "c", "off", "b"]
    assert emitted_names(execute(steps, execution_mode=mode)) == ["a", "c", "b"]


@pytest.mark.rule("N41")
def test_the_order_lists_disabled_steps_too() -> None:
    assert order_of([step("off", enabled=False), step("on")]) == ["off", "on"]


@pytest.mark.rule("N41")
def test_dependencies_on_nothing_are_left_out_of_the_order() -> None:
    assert order_of([step("a", after=["ghost"]), step("b")]) == ["a", "b"]


@pytest.mark.rule("NR50")
def test_the_list_of_steps_is_left_as_it_was() -> None:
    steps = list(DIAMOND)
    get_execution_order(steps)
    execute(steps)
    assert steps == DIAMOND


@pytest.mark.rule("N11", "AC4.1", "AC4.2", "NR13")
@pytest.mark.parametrize("mode", ["SEQUENTIAL", "PARALLEL", "BATCH"])
def test_every_mode_processes_in_the_same_order(mode: str) -> None:
    result = execute(DIAMOND, execution_mode=EnumExecutionMode[mode])
    assert emitted_names(result) == ["extract", "right", "left", "load"]
    assert names_of(result.completed_steps, DIAMOND) == ["extract", "right", "left", "load"]


def test_a_chain_of_fifty_thousand_steps_works() -> None:
    # model_copy is quick enough for 50,000 steps; validation of each would take most of the test.
    first = step("s0")
    steps = [first]
    for number in range(1, 50_000):
        fields = {"step_id": type(first.step_id)(int=number), "depends_on": [steps[-1].step_id]}
        steps.append(first.model_copy(update=fields))
    assert get_execution_order(steps) == [one.step_id for one in steps]
    result = execute(steps)
    assert len(result.actions_emitted) == 50_000
    assert result.actions_emitted[-1].dependencies == [result.actions_emitted[-2].action_id]
