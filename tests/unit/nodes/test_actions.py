"""What an action says, and to whom."""

from uuid import UUID, uuid4

import pytest

from podium.nodes import EnumActionType, EnumExecutionMode, ModelAction, _create_action_for_step, executor
from tests.unit.nodes.building import (
    NOON,
    WORKFLOW,
    CountingIds,
    StandingClock,
    TickingClock,
    definition,
    execute,
    id_of,
    step,
)
from tests.unit.nodes.conftest import FailSteps


@pytest.mark.rule("NR16", "NR17", "NR44", "NR65", "AC5.2", "FX09", "N34", "NR18")
def test_an_action_is_exactly_this() -> None:
    one = step("Extract", step_type="effect", timeout_ms=60000, retry_count=2, priority=7, order_index=4)
    action = execute([one]).actions_emitted[0]
    assert action == ModelAction(
        action_id=UUID(int=1),
        action_type=EnumActionType.EFFECT,
        target_node_type="NodeEffect",
        payload={
            "workflow_id": str(WORKFLOW),
            "step_id": str(id_of("Extract")),
            "step_name": "Extract",
        },
        dependencies=[],
        priority=7,
        timeout_ms=60000,
        lease_id=UUID(int=2),
        epoch=0,
        retry_count=2,
        metadata={"step_name": "Extract", "correlation_id": str(id_of("correlation of Extract"))},
        created_at=NOON,
    )


@pytest.mark.rule("AC5.3", "NR71", "N09")
@pytest.mark.parametrize(
    ("step_type", "action_type", "target"),
    [
        ("compute", "COMPUTE", "NodeCompute"),
        ("effect", "EFFECT", "NodeEffect"),
        ("reducer", "REDUCE", "NodeReducer"),
        ("orchestrator", "ORCHESTRATE", "NodeOrchestrator"),
        ("custom", "CUSTOM", "NodeCustom"),
        ("parallel", "CUSTOM", "NodeCustom"),
    ],
)
def test_the_step_type_decides_where_an_action_goes_and_nothing_else(
    step_type: str, action_type: str, target: str
) -> None:
    action = execute([step("a", step_type=step_type)]).actions_emitted[0]
    assert (action.action_type, action.target_node_type) == (EnumActionType[action_type], target)
    same_but_for_the_route = {"action_type": EnumActionType.COMPUTE, "target_node_type": "NodeCompute"}
    assert action.model_copy(update=same_but_for_the_route) == execute([step("a")]).actions_emitted[0]


@pytest.mark.rule("AC5.4", "FX16", "N15")
def test_dependencies_are_action_ids_in_order_of_declaration() -> None:
    steps = [step("a"), step("b"), step("off", enabled=False), step("c", after=["off", "b", "a", "b"])]
    a, b, c = execute(steps).actions_emitted
    assert c.dependencies == [a.action_id, b.action_id]


@pytest.mark.rule("NR14", "NR15", "NR37", "N15")
def test_actions_come_wave_by_wave_in_order_of_declaration() -> None:
    steps = [step("d", after=["b"]), step("c", after=["a"]), step("b"), step("a")]
    actions = execute(steps).actions_emitted
    assert [action.payload["step_name"] for action in actions] == ["b", "a", "d", "c"]


@pytest.mark.rule("NR18", "FX06", "N10")
@pytest.mark.parametrize("mode", ["SEQUENTIAL", "PARALLEL", "BATCH"])
@pytest.mark.parametrize(("given", "clamped"), [(1, 1), (9, 9), (10, 10), (11, 10), (1000, 10)])
def test_the_priority_is_clamped_silently_in_every_mode(
    given: int, clamped: int, mode: str, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    result = execute([step("a", priority=given)], execution_mode=EnumExecutionMode[mode])
    assert result.actions_emitted[0].priority == clamped
    assert (caplog.records, list(recwarn)) == ([], [])


@pytest.mark.rule("N10")
def test_the_default_priority_becomes_ten() -> None:
    assert execute([step("a")]).actions_emitted[0].priority == 10


@pytest.mark.rule("NR59", "N23")
def test_no_workflow_timeout_shortens_the_timeout_of_a_step() -> None:
    result = execute([step("a", timeout_ms=300000)], definition(timeout_ms=1000), global_timeout_ms=5)
    assert result.actions_emitted[0].timeout_ms == 300000


@pytest.mark.rule("NR46", "NR16", "AC5.2", "FX09")
def test_every_action_has_an_id_and_a_lease_of_its_own() -> None:
    steps = [step(f"s{n}", after=[f"s{n - 1}"] if n % 2 else []) for n in range(200)]
    results = [execute(steps, id_factory=uuid4) for _ in range(2)]
    ids = [
        id_ for r in results for action in r.actions_emitted for id_ in (action.action_id, action.lease_id)
    ]
    assert len(set(ids)) == len(ids) == 800
    assert {id_.version for id_ in ids} == {4}


@pytest.mark.rule("N41", "N01")
def test_the_action_id_is_drawn_before_the_lease_id() -> None:
    ids = CountingIds()
    actions = execute([step("a"), step("b")], id_factory=ids).actions_emitted
    assert [(a.action_id.int, a.lease_id.int) for a in actions] == [(1, 2), (3, 4)]


@pytest.mark.rule("NR44", "NR29", "NR28")
def test_ids_of_steps_are_passed_on_untouched() -> None:
    given = step("a")
    action = execute([given]).actions_emitted[0]
    assert action.metadata["correlation_id"] == str(given.correlation_id)
    assert action.payload["step_id"] == str(given.step_id)
    assert (given.step_id, given.correlation_id) == (id_of("a"), id_of("correlation of a"))


@pytest.mark.rule("NR41")
def test_retries_are_passed_on_and_never_become_actions() -> None:
    actions = execute([step("a", retry_count=10)]).actions_emitted
    assert [action.retry_count for action in actions] == [10]


@pytest.mark.rule("N43")
def test_the_seam_is_looked_up_for_every_step_and_gets_three_arguments_and_two_keywords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def seam(*arguments: object, **keywords: object) -> ModelAction:
        calls.append((arguments, keywords))
        # Replaced again while the workflow is processed: the next step must see it.
        monkeypatch.setattr(executor, "_create_action_for_step", _create_action_for_step)
        return _create_action_for_step(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(executor, "_create_action_for_step", seam)
    ids, clock = CountingIds(), StandingClock()
    steps = [step("a"), step("b", after=["a"])]
    assert len(execute(steps, id_factory=ids, clock=clock).actions_emitted) == 2
    assert calls == [((steps[0], WORKFLOW, {}), {"id_factory": ids, "clock": clock})]


@pytest.mark.rule("N43", "FX16", "FX08")
def test_the_seam_maps_dependencies_through_the_map_it_is_given() -> None:
    one = step("c", after=["b", "a"])
    actions = {id_of("other"): UUID(int=7), id_of("a"): UUID(int=8), id_of("b"): UUID(int=9)}
    action = _create_action_for_step(one, WORKFLOW, actions)
    assert action.dependencies == [UUID(int=8), UUID(int=9)]
    assert action.action_id.version == action.lease_id.version == 4


@pytest.mark.rule("NR14", "NR22")
def test_no_action_for_failed_or_skipped_steps(fail_steps: FailSteps) -> None:
    fail_steps("b")
    steps = [
        step("a"),
        step("b", error_action="continue"),
        step("off", enabled=False),
        step("c", skip_on_failure=True),
    ]
    assert [a.payload["step_name"] for a in execute(steps).actions_emitted] == ["a"]


@pytest.mark.rule("N01")
def test_an_action_is_stamped_by_the_given_clock() -> None:
    clock = TickingClock(10)
    # Read at the start, before the step, for the action.
    assert execute([step("a")], clock=clock).actions_emitted[0].created_at.microsecond == 20_000
