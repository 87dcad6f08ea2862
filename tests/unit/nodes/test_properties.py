"""What holds for every workflow: random graphs, all modes, disabled and failing steps."""

import copy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.nodes import (
    EnumExecutionMode,
    ModelAction,
    ModelWorkflowStep,
    get_execution_order,
)
from podium.nodes.executor import _create_action_for_step
from tests.unit.nodes.building import definition, execute, id_of, problems_of, process, step

MODES = [EnumExecutionMode.SEQUENTIAL, EnumExecutionMode.PARALLEL, EnumExecutionMode.BATCH]


@st.composite
def workflows(draw: st.DrawFn, most: int = 14) -> list[ModelWorkflowStep]:
    """Steps without cycles, declared in any order; some are disabled, some fail ("bad" in their name)."""
    count = draw(st.integers(0, most))
    names = [draw(st.sampled_from([f"s{n}", f"bad{n}"])) for n in range(count)]
    steps = []
    for at, name in enumerate(names):
        fields: dict[str, Any] = {
            "enabled": draw(st.integers(0, 4)) > 0,
            "skip_on_failure": draw(st.booleans()),
            "priority": draw(st.integers(1, 1000)),
            "order_index": draw(st.integers(0, 5)),
            "parallel_group": draw(st.sampled_from([None, "g", "h"])),
        }
        if draw(st.booleans()):
            fields["error_action"] = draw(st.sampled_from(["stop", "continue", "retry", "compensate"]))
        earlier = draw(st.lists(st.sampled_from(names[:at]), max_size=4)) if at else []
        steps.append(step(name, after=earlier, **fields))
    return draw(st.permutations(steps))


@pytest.fixture(autouse=True, scope="module")
def bad_steps_fail() -> Any:
    """Steps called bad... cannot be turned into actions."""

    def create(
        step: ModelWorkflowStep, workflow_id: UUID, actions: Mapping[UUID, UUID], **keywords: Any
    ) -> ModelAction:
        if step.step_name.startswith("bad"):
            raise RuntimeError("the fault was injected")
        return _create_action_for_step(step, workflow_id, actions, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podium.nodes.executor._create_action_for_step", create)
        yield


@given(workflows())
def test_the_order_respects_every_dependency_on_an_enabled_step(steps: list[ModelWorkflowStep]) -> None:
    place = {id_: at for at, id_ in enumerate(get_execution_order(steps))}
    assert len(place) == len(steps)
    enabled = {one.step_id for one in steps if one.enabled}
    for one in steps:
        assert all(place[needed] < place[one.step_id] for needed in one.depends_on if needed in enabled)


@given(workflows(), st.sampled_from(["stop", "continue"]))
def test_every_mode_gives_the_same(steps: list[ModelWorkflowStep], default: str) -> None:
    results = [execute(steps, execution_mode=mode, default_error_action=default) for mode in MODES]
    assert len({str([vars(action) for action in result.actions_emitted]) for result in results}) == 1
    assert len({str((r.completed_steps, r.failed_steps, r.skipped_steps)) for r in results}) == 1


@given(workflows())
def test_every_step_ends_in_exactly_one_way(steps: list[ModelWorkflowStep]) -> None:
    result = execute(steps)
    ended = [*result.completed_steps, *result.failed_steps, *result.skipped_steps]
    assert sorted(ended) == sorted(str(one.step_id) for one in steps)
    assert [error["step_id"] for error in result.errors] == result.failed_steps
    assert (result.execution_status.value == "failed") == bool(result.failed_steps)
    declared = [str(one.step_id) for one in steps]
    assert result.skipped_steps == [id_ for id_ in declared if id_ in set(result.skipped_steps)]


@given(workflows())
def test_actions_belong_to_completed_steps_in_the_one_order(steps: list[ModelWorkflowStep]) -> None:
    result = execute(steps)
    emitted = [action.payload["step_id"] for action in result.actions_emitted]
    assert emitted == result.completed_steps
    order = [str(id_) for id_ in get_execution_order(steps)]
    assert emitted == [id_ for id_ in order if id_ in set(emitted)]


@given(workflows())
def test_dependencies_of_actions_are_actions_emitted_before(steps: list[ModelWorkflowStep]) -> None:
    result = execute(steps)
    by_step = {UUID(action.payload["step_id"]): action for action in result.actions_emitted}
    declared = {one.step_id: at for at, one in enumerate(steps)}
    emitted: set[UUID] = set()
    for one in (next(s for s in steps if str(s.step_id) == id_) for id_ in result.completed_steps):
        action = by_step[one.step_id]
        needed = sorted(set(one.depends_on) & by_step.keys(), key=declared.__getitem__)
        assert action.dependencies == [by_step[id_].action_id for id_ in needed]
        assert set(action.dependencies) <= emitted
        emitted.add(action.action_id)


@given(workflows())
def test_a_naive_reading_of_the_rules_gives_the_same(steps: list[ModelWorkflowStep]) -> None:
    """Written straight from the rules, one step at a time and without a care for speed."""
    disabled = {one.step_id for one in steps if not one.enabled}
    waiting, waves = list(steps), []
    placed: set[UUID] = set()
    while waiting:
        wave = [one for one in waiting if all(d in placed or d in disabled for d in one.depends_on)]
        waves.append(wave)
        placed |= {one.step_id for one in wave}
        waiting = [one for one in waiting if one not in wave]
    done: list[UUID] = []
    failed: list[UUID] = []
    for one in (one for wave in waves for one in wave if one.enabled):
        if not all(d in done or d in disabled for d in one.depends_on):
            failed.append(one.step_id)
        elif one.skip_on_failure and failed:
            continue
        elif one.step_name.startswith("bad"):
            failed.append(one.step_id)
            if one.error_action == "stop":
                break
        else:
            done.append(one.step_id)
    result = execute(steps)
    assert result.completed_steps == [str(id_) for id_ in done]
    assert result.failed_steps == [str(id_) for id_ in failed]


@given(workflows(), st.sampled_from(MODES))
def test_inputs_are_unchanged_and_outputs_repeat_to_the_letter(
    steps: list[ModelWorkflowStep], mode: EnumExecutionMode
) -> None:
    workflow = definition()
    before = copy.deepcopy((steps, workflow))
    first = process(steps, workflow, execution_mode=mode).model_dump_json()
    assert (steps, workflow) == before
    assert process(steps, workflow, execution_mode=mode).model_dump_json() == first


@settings(max_examples=5)
@given(st.lists(workflows(), min_size=4, max_size=4))
def test_thirty_two_threads_give_what_one_gives(several: list[list[ModelWorkflowStep]]) -> None:
    expected = [process(steps).model_dump_json() for steps in several]
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda at: process(several[at % 4]).model_dump_json(), range(64)))
    assert found == expected * 16


@given(
    st.lists(st.tuples(st.integers(0, 7), st.lists(st.integers(0, 9), max_size=3), st.booleans()), max_size=8)
)
def test_validation_is_deterministic_and_ordered_whatever_the_steps(
    drawn: list[tuple[int, list[int], bool]],
) -> None:
    steps = [
        step(f"s{at}", step_id=id_of(f"s{own}"), after=[f"s{n}" for n in needed], enabled=enabled)
        for at, (own, needed, enabled) in enumerate(drawn)
    ]
    problems = problems_of(steps)
    assert problems == problems_of(steps)
    rank = {"Duplicate": 0, "Step": 1, "Workflow": 2}
    ranks = [rank[problem.split()[0]] for problem in problems]
    assert ranks == sorted(ranks)
