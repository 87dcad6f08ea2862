"""The executor decides and does nothing else."""

import ast
import asyncio
import copy
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import podium.nodes
from podium.nodes import (
    EnumExecutionMode,
    ModelCoordinationRules,
    ModelExecutionGraph,
    ModelWorkflowDefinition,
    ModelWorkflowNode,
    ModelWorkflowStep,
    execute_workflow,
    executor,
)
from tests.unit.nodes.building import (
    V1,
    WORKFLOW,
    CountingIds,
    StandingClock,
    TickingClock,
    definition,
    emitted_names,
    execute,
    now,
    process,
    step,
)
from tests.unit.nodes.conftest import FailSteps

Everything: TypeAlias = Callable[..., list[object]]

STEPS = [
    step("c", after=["a", "b"], parallel_group="g", metadata={"ignored": 1}),
    step("a"),
    step("off", enabled=False),
    step("b", after=["off"]),
]
WIDE = [*STEPS, step("alone"), step("last", after=["alone"])]


def outcome(steps: list[ModelWorkflowStep], **keywords: Any) -> str:
    return process(steps, **keywords).model_dump_json()


@pytest.fixture
def everything(fail_steps: FailSteps, caplog: pytest.LogCaptureFixture) -> Everything:
    """All that can be seen of a workflow: results, outputs and logs when it succeeds, fails or is too slow."""
    caplog.set_level(logging.DEBUG)

    def see(steps: list[ModelWorkflowStep], workflow: ModelWorkflowDefinition | None = None) -> list[object]:
        caplog.clear()
        seen: list[object] = []
        for failing in ([], ["a"], ["b"]):
            fail_steps(*failing)
            seen += [
                vars(execute(steps, workflow, default_error_action=each)) for each in ("stop", "continue")
            ]
            seen.append(outcome(steps, workflow=workflow))
        fail_steps()
        seen.append(vars(execute(steps, workflow, clock=TickingClock(400), global_timeout_ms=2000)))
        return [*seen, [(record.levelname, record.getMessage()) for record in caplog.records]]

    return see


@pytest.mark.rule("AC1.1", "N01")
def test_the_same_input_gives_the_same_output_to_the_letter() -> None:
    assert outcome(STEPS) == outcome(STEPS)


@pytest.mark.rule("AC1.1", "N01")
def test_two_executions_differ_only_in_ids_and_times() -> None:
    first, second = (now(execute_workflow(definition(), STEPS, WORKFLOW)) for _ in range(2))

    def renamed(result: Any) -> list[Any]:
        number = {action.action_id: n for n, action in enumerate(result.actions_emitted)}
        return [
            {
                **action.model_dump(exclude={"action_id", "lease_id", "created_at"}),
                "dependencies": [number[id_] for id_ in action.dependencies],
            }
            for action in result.actions_emitted
        ]

    assert renamed(first) == renamed(second)
    assert not {a.action_id for a in first.actions_emitted} & {a.action_id for a in second.actions_emitted}


@pytest.mark.rule("AC1.2", "NR05", "NR29", "NR63", "FX04", "NR28", "NR50")
@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"execution_mode": EnumExecutionMode.BATCH},
        {"global_timeout_ms": 2000},
        {"global_timeout_ms": 2000, "clock": TickingClock(1000)},
        {"default_error_action": "continue"},
    ],
    ids=["plain", "another mode", "a shorter timeout", "too late", "a failure"],
)
def test_no_input_is_changed_however_deep(keywords: dict[str, Any], fail_steps: FailSteps) -> None:
    if "default_error_action" in keywords:
        fail_steps("a")
    steps = copy.deepcopy(STEPS)
    workflow = definition()
    untouched = copy.deepcopy((steps, workflow))
    order = [id(one) for one in steps]
    fields_set = [set(one.model_fields_set) for one in steps]
    # The very list, not a copy of it.
    now(execute_workflow(workflow, steps, WORKFLOW, **keywords))
    assert (steps, workflow) == untouched
    assert workflow.workflow_metadata.model_fields_set == untouched[1].workflow_metadata.model_fields_set
    assert [id(one) for one in steps] == order
    assert [one.model_fields_set for one in steps] == fields_set


@pytest.mark.rule("NR38", "NR05")
def test_actions_share_nothing_mutable() -> None:
    first, second = execute([step("a"), step("b")]).actions_emitted
    containers = [
        id(part)
        for action in (first, second)
        for part in (action.payload, action.metadata, action.dependencies)
    ]
    assert len(set(containers)) == 6


@pytest.mark.rule("NR38")
def test_an_action_is_not_changed_after_it_was_created(monkeypatch: pytest.MonkeyPatch) -> None:
    original = executor._create_action_for_step
    seen = []

    def remembering(*arguments: Any, **keywords: Any) -> Any:
        action = original(*arguments, **keywords)
        seen.append((action, action.model_copy(deep=True)))
        return action

    monkeypatch.setattr(executor, "_create_action_for_step", remembering)
    result = execute(STEPS)
    assert all(action == as_created for action, as_created in seen)
    assert all(a is b for a, (b, _) in zip(result.actions_emitted, seen, strict=True))


@pytest.mark.rule("AC1.3")
def test_thirty_two_threads_give_what_one_gives() -> None:
    expected = outcome(WIDE)
    switching = sys.getswitchinterval()
    # Threads take turns after a microsecond instead of 5 ms: in the middle of every execution.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(32) as pool:
            results = list(pool.map(lambda _: outcome(WIDE), range(200)))
    finally:
        sys.setswitchinterval(switching)
    assert set(results) == {expected}


@pytest.mark.rule("NR70", "N24", "FX08", "N39")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "batch"])
def test_execution_is_a_coroutine_that_never_waits(mode: str, fail_steps: FailSteps) -> None:
    assert asyncio.iscoroutinefunction(execute_workflow)
    # `now` fails if the coroutine suspends even once.
    assert now(execute_workflow(definition(mode), STEPS, WORKFLOW)).completed_steps
    fail_steps("a")
    assert now(execute_workflow(definition(mode), STEPS, WORKFLOW)).failed_steps


@pytest.mark.rule("NR70", "NR19")
def test_steps_of_a_wave_are_processed_one_after_the_other() -> None:
    under_way = []

    def ids() -> Any:
        under_way.append(len(asyncio.all_tasks(asyncio.get_running_loop())))
        return CountingIds()()

    asyncio.run(execute_workflow(definition("parallel"), STEPS, WORKFLOW, id_factory=ids))
    assert set(under_way) == {1}


@pytest.mark.rule("NR08", "FX15")
def test_nothing_is_read_written_or_started() -> None:
    """Audit events tell of every file, socket and process; none may occur while a workflow is processed."""
    code = """
        import asyncio, sys, threading
        from podium.nodes import executor
        from tests.unit.nodes.test_purity import STEPS, TickingClock, definition, execute, process
        create = executor._create_action_for_step
        def fail(step, *arguments, **keywords):
            if step.step_name == "b":
                raise RuntimeError("the fault was injected")
            return create(step, *arguments, **keywords)
        def succeed_be_late_and_fail():
            executor._create_action_for_step = create
            assert not process(STEPS, definition()).failed_steps
            assert execute(STEPS, clock=TickingClock(1000), global_timeout_ms=2000).failed_steps
            executor._create_action_for_step = fail
            assert process(STEPS, definition()).failed_steps
        succeed_be_late_and_fail()
        seen, watching = [], True
        def audit(event, arguments):
            world = {"open", "os", "socket", "subprocess", "sqlite3", "shutil", "import"}
            if watching and event.split(".")[0] in world:
                seen.append((event, arguments))
        sys.addaudithook(audit)
        threads = threading.active_count()
        succeed_be_late_and_fail()
        watching = False
        assert threading.active_count() == threads
        assert not seen, seen
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=_ROOT, check=False
    )
    assert done.returncode == 0, done.stderr


# --- what is declared and never read --------------------------------------------------------------


@pytest.mark.rule("NR06", "FX03")
def test_the_execution_graph_is_never_consulted(caplog: pytest.LogCaptureFixture) -> None:
    class Explosive(ModelExecutionGraph):
        def __getattribute__(self, name: str) -> Any:
            if name in ("nodes", "version"):
                raise AssertionError("somebody looked into the execution graph")
            return super().__getattribute__(name)

    workflow = definition()
    caplog.set_level(0)
    vars(workflow)["execution_graph"] = Explosive(version=V1)
    assert emitted_names(execute(STEPS, workflow)) == ["a", "b", "c"]
    # A graph that contradicts the steps is not even mentioned.
    other = ModelExecutionGraph(version=V1, nodes=[ModelWorkflowNode(node_id="x", node_type="effect")])
    contradicting = workflow.model_copy(update={"execution_graph": other})
    assert outcome(STEPS, workflow=contradicting) == outcome(STEPS)
    # Nor is it used when there are no steps at all.
    assert execute([], workflow).completed_steps == []
    assert outcome([], workflow=contradicting) == outcome([])
    assert caplog.records == []


RESERVED_ON_STEPS = {
    "compensation_action": "undo",
    "checkpoint_required": True,
    "idempotency_key": "k",
}
ADVISORY_ON_STEPS = {
    "order_index": 99,
    "parallel_group": "group-1",
    "max_parallel_instances": 7,
    "max_memory_mb": 1,
    "max_cpu_percent": 1,
    "continue_on_error": True,
}


@pytest.mark.rule("NR02", "NR67", "NR21", "CV7", "CV8", "RF7", "RF8", "RF9")
@pytest.mark.parametrize("field", RESERVED_ON_STEPS)
def test_reserved_fields_of_steps_change_nothing(field: str, everything: Everything) -> None:
    changed = [one.model_copy(update={field: RESERVED_ON_STEPS[field]}) for one in WIDE]
    assert everything(changed) == everything(WIDE)


@pytest.mark.rule("NR40", "NR45", "NR65", "NR55", "NR39")
@pytest.mark.parametrize("field", ADVISORY_ON_STEPS)
def test_advisory_fields_of_steps_change_nothing(field: str, everything: Everything) -> None:
    changed = [
        one.model_copy(update={field: ADVISORY_ON_STEPS[field]}) if at % 2 else one
        for at, one in enumerate(WIDE)
    ]
    assert everything(changed) == everything(WIDE)


@pytest.mark.rule("NR02", "NR21", "CV7", "CV8", "RF1", "RF2", "RF3", "RF4", "RF5", "RF6", "N25", "N40")
@pytest.mark.parametrize(
    "update",
    [
        {"compensation_enabled": True},
        {"saga_pattern": "orchestrated"},
        {"checkpoint_enabled": True},
        {"coordination_rules": ModelCoordinationRules(version=V1, synchronization_points=["a", "p"])},
        {"coordination_rules": ModelCoordinationRules(version=V1, max_retries=0)},
        {"coordination_rules": ModelCoordinationRules(version=V1, retry_delay_ms=10**9)},
        {"coordination_rules": ModelCoordinationRules(version=V1, parallel_execution_allowed=False)},
        {
            "coordination_rules": ModelCoordinationRules.model_validate(
                {"version": "1.0.0", "failure_recovery_strategy": "ABORT"}
            )
        },
    ],
    ids=lambda update: ", ".join(f"{k}={v!s:.60}" for k, v in update.items()),
)
def test_reserved_fields_of_definitions_change_nothing(
    update: dict[str, Any], everything: Everything
) -> None:
    workflow = definition("parallel").model_copy(update=update)
    assert everything(WIDE, workflow) == everything(WIDE, definition("parallel"))


@pytest.mark.rule("NR67")
def test_reserved_fields_are_not_checked_beyond_their_type() -> None:
    rules = {"version": "1.0.0", "max_retries": -7, "retry_delay_ms": -1, "synchronization_points": ["", ""]}
    assert ModelCoordinationRules.model_validate(rules).max_retries == -7
    assert step("s", compensation_action="", idempotency_key="").idempotency_key == ""


@pytest.mark.rule("NR30", "NR67")
def test_an_expression_in_a_contract_is_kept_and_never_evaluated() -> None:
    nodes = [
        ModelWorkflowNode.model_validate(
            {"node_id": "n", "node_type": "effect", "branch": {"if_true": "__import__('os').abort()"}}
        )
    ]
    workflow = definition().model_copy(
        update={"execution_graph": ModelExecutionGraph(version=V1, nodes=nodes)}
    )
    named = [step("${1 + 1}"), step("{{ 7 * 7 }}")]
    assert emitted_names(execute(named, workflow)) == ["${1 + 1}", "{{ 7 * 7 }}"]


@pytest.mark.rule("NR30")
def test_the_node_package_has_nothing_that_could_evaluate_an_expression() -> None:
    called = {
        node.func.id
        for path in _NODES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


@pytest.mark.rule("NR69")
def test_no_example_contracts_live_in_the_package() -> None:
    package = _NODES.parent
    files = [path for path in package.rglob("*") if path.suffix in (".yaml", ".yml")]
    # The registration of nodes is an application of its own, not an example.
    application = _NODES / "registration" / "contract.yaml"
    assert [path for path in files if "workflow_coordination" in path.read_text()] == [application]
    assert list((_ROOT / "examples" / "contracts").glob("*.yaml"))


@pytest.mark.rule("FX11", "NR03")
def test_the_executor_knows_nothing_of_files_or_yaml() -> None:
    """The executor's modules may not import the reader: models reach it ready-made."""
    code = "import sys, podium.nodes; assert not {'yaml', 'podium.language', 'podium.cli'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_default_clock_and_ids_are_the_real_ones() -> None:
    result = now(execute_workflow(definition(), [step("a")], WORKFLOW))
    assert result.actions_emitted[0].created_at.isoformat() <= result.timestamp
    assert StandingClock().shows.isoformat() < result.timestamp


_NODES = Path(podium.nodes.__file__).parent
_ROOT = Path(__file__).parents[3]
