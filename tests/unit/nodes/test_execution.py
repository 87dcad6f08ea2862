"""How each step ends, and what that means for the others."""

import logging

import pytest

from podium.nodes import (
    EnumCoreErrorCode,
    EnumExecutionMode,
    EnumWorkflowState,
    ModelOnexError,
    ModelOrchestratorInput,
    ModelWorkflowStep,
    NodeOrchestrator,
    WorkflowExecutionResult,
)
from tests.unit.nodes.building import (
    NOON,
    WORKFLOW,
    StandingClock,
    TickingClock,
    definition,
    emitted_names,
    execute,
    id_of,
    names_of,
    now,
    process,
    step,
)
from tests.unit.nodes.conftest import FailSteps

COMPLETED, FAILED = EnumWorkflowState.COMPLETED, EnumWorkflowState.FAILED


def ends(result: WorkflowExecutionResult, steps: list[ModelWorkflowStep]) -> tuple[list[str], ...]:
    """Names of the completed, the failed and the skipped steps."""
    return (
        names_of(result.completed_steps, steps),
        names_of(result.failed_steps, steps),
        names_of(result.skipped_steps, steps),
    )


@pytest.mark.rule("NR42")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "batch"])
def test_a_workflow_without_steps_completes_at_once(mode: str) -> None:
    result = execute([], definition(mode))
    assert (result.execution_status, result.actions_emitted, result.execution_time_ms) == (COMPLETED, [], 0)
    output = process([], definition(mode))
    assert (output.execution_status, output.actions_emitted, output.execution_time_ms) == ("completed", [], 0)


@pytest.mark.rule("AC5.1", "NR14", "FX08", "PR4")
def test_each_completed_step_has_one_action() -> None:
    steps = [
        step("a"),
        step("b", after=["a"], step_type="effect"),
        step("c", step_type="parallel", max_parallel_instances=4, retry_count=5),
    ]
    result = execute(steps)
    assert result.execution_status is COMPLETED
    # Creating the action completes a step: what its node makes of the action never comes back to the executor.
    assert ends(result, steps) == (["a", "c", "b"], [], [])
    assert emitted_names(result) == ["a", "c", "b"]
    assert result.errors == []


# --- disabled -------------------------------------------------------------------------------------


@pytest.mark.rule("NR22", "PR1", "AC8.1", "AC8.2", "FX17", "NR26")
def test_a_disabled_step_is_skipped_and_counts_as_done() -> None:
    steps = [step("off", enabled=False), step("b", after=["off"])]
    result = execute(steps)
    assert ends(result, steps) == (["b"], [], ["off"])
    assert result.execution_status is COMPLETED
    assert result.actions_emitted[0].dependencies == []


@pytest.mark.rule("NR62", "N16")
def test_skipped_steps_are_listed_as_declared(fail_steps: FailSteps) -> None:
    steps = [
        step("off1", after=["b"], enabled=False),
        step("c", after=["b"]),
        step("b"),
        step("off2", enabled=False),
        step("d"),
    ]
    fail_steps("b")
    assert ends(execute(steps), steps) == ([], ["b"], ["off1", "c", "off2", "d"])


@pytest.mark.rule("NR23")
def test_a_disabled_step_of_a_reserved_type_is_skipped_like_any_other() -> None:
    steps = [step("future", step_type="conditional", enabled=False), step("b", after=["future"])]
    assert ends(execute(steps), steps) == (["b"], [], ["future"])


# --- failure and error_action ---------------------------------------------------------------------


@pytest.mark.rule("PR3", "EF1", "AC6.2", "NR33", "N35", "FX07")
@pytest.mark.parametrize(
    "error",
    [
        ModelOnexError("no lease", EnumCoreErrorCode.VALIDATION_ERROR),
        ValueError("bad value"),
        OSError("no disk"),
    ],
)
def test_an_action_that_cannot_be_created_fails_its_step(fail_steps: FailSteps, error: Exception) -> None:
    fail_steps("b", error=error)
    steps = [step("a"), step("b", error_action="continue"), step("c")]
    result = execute(steps)
    assert ends(result, steps) == (["a", "c"], ["b"], [])
    assert result.execution_status is FAILED
    assert emitted_names(result) == ["a", "c"]
    assert result.errors == [
        {
            "step_id": str(id_of("b")),
            "error_type": type(error).__name__,
            "message": f"its action could not be created: {error}",
        }
    ]


@pytest.mark.rule("N35")
@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), KeyboardInterrupt(), SystemExit()])
def test_trouble_of_the_whole_process_is_not_a_failed_step(
    fail_steps: FailSteps, error: BaseException
) -> None:
    fail_steps("a", error=error)
    with pytest.raises(type(error)):
        execute([step("a", error_action="continue")])


@pytest.mark.rule("PR5", "NR35", "AC6.3", "N16")
@pytest.mark.parametrize("mode", ["SEQUENTIAL", "PARALLEL", "BATCH"])
def test_stop_ends_the_processing_in_the_middle_of_a_wave(fail_steps: FailSteps, mode: str) -> None:
    fail_steps("b")
    steps = [step("a"), step("b"), step("c"), step("d", after=["a"])]
    result = execute(steps, execution_mode=EnumExecutionMode[mode])
    assert ends(result, steps) == (["a"], ["b"], ["c", "d"])
    assert result.execution_status is FAILED


@pytest.mark.rule("PR6", "NR35", "AC6.3")
def test_continue_lets_the_others_go_on_but_not_the_dependents(fail_steps: FailSteps) -> None:
    fail_steps("b")
    steps = [
        step("a"),
        step("b", error_action="continue"),
        step("c"),
        step("d", after=["b"]),
        step("e", after=["c"]),
    ]
    result = execute(steps)
    assert ends(result, steps) == (["a", "c", "e"], ["b", "d"], [])
    assert result.execution_status is FAILED


@pytest.mark.rule("N20", "NR41")
@pytest.mark.parametrize("error_action", ["retry", "compensate"])
def test_only_stop_stops_and_nothing_is_tried_twice(fail_steps: FailSteps, error_action: str) -> None:
    fail_steps("a")
    steps = [step("a", error_action=error_action, retry_count=5), step("b")]
    result = execute(steps)
    assert ends(result, steps) == (["b"], ["a"], [])
    assert len(result.errors) == 1


@pytest.mark.rule("NR56")
@pytest.mark.parametrize(
    ("error_action", "continue_on_error", "completed"), [("stop", True, []), ("continue", False, ["b"])]
)
def test_continue_on_error_never_overrides_error_action(
    fail_steps: FailSteps, error_action: str, continue_on_error: bool, completed: list[str]
) -> None:
    fail_steps("a")
    steps = [step("a", error_action=error_action, continue_on_error=continue_on_error), step("b")]
    assert ends(execute(steps), steps)[0] == completed


@pytest.mark.rule("NR34", "N19")
def test_the_default_error_action_is_for_steps_that_did_not_choose(fail_steps: FailSteps) -> None:
    fail_steps("a")
    silent, chose = [step("a"), step("b")], [step("a", error_action="stop"), step("b")]
    assert ends(execute(silent), silent)[0] == []
    assert ends(execute(silent, default_error_action="continue"), silent)[0] == ["b"]
    assert ends(execute(chose, default_error_action="continue"), chose)[0] == []


@pytest.mark.rule("NR34", "N19")
def test_the_failure_strategy_of_an_operation_is_its_default(fail_steps: FailSteps) -> None:
    fail_steps("a")
    steps = [step("a"), step("b")]
    assert process(steps).completed_steps == []
    assert process(steps, failure_strategy="fail_fast").completed_steps == []
    assert process(steps, failure_strategy="continue_on_error").completed_steps == [str(id_of("b"))]
    with pytest.raises(ModelOnexError) as refused:
        process(steps, failure_strategy="hope")
    assert refused.value.context == {
        "workflow_id": str(WORKFLOW),
        "errors": ["Unknown failure_strategy 'hope': use one of fail_fast, continue_on_error"],
        "reasons": ["INVALID_VALUE"],
    }


# --- dependencies ---------------------------------------------------------------------------------


@pytest.mark.rule("NR26", "NR27", "N17", "N42", "FX19", "EF4", "PR2")
def test_a_step_whose_dependency_failed_fails_without_its_error_action(fail_steps: FailSteps) -> None:
    fail_steps("a")
    steps = [
        step("a", error_action="continue"),
        step("b", after=["a"], error_action="stop"),
        step("c", after=["b"]),
        step("free"),
        step("later", after=["free"]),
    ]
    result = execute(steps)
    assert result.execution_status is FAILED
    assert ends(result, steps) == (["free", "later"], ["a", "b", "c"], [])
    assert [(names_of([e["step_id"]], steps)[0], e["error_type"], e["message"]) for e in result.errors] == [
        ("a", "RuntimeError", "its action could not be created: the fault was injected"),
        ("b", "DEPENDENCY_NOT_MET", "it depends on 'a', which did not complete"),
        ("c", "DEPENDENCY_NOT_MET", "it depends on 'b', which did not complete"),
    ]


@pytest.mark.rule("NR26")
def test_one_completed_dependency_of_several_is_not_enough(fail_steps: FailSteps) -> None:
    fail_steps("bad")
    steps = [
        step("good"),
        step("bad", error_action="continue"),
        step("both", after=["good", "bad"]),
        step("turned", after=["bad", "good"]),
    ]
    assert ends(execute(steps), steps) == (["good"], ["bad", "both", "turned"], [])


def test_several_unmet_dependencies_are_counted(fail_steps: FailSteps) -> None:
    fail_steps("a", "b")
    steps = [
        step("a", error_action="continue"),
        step("b", error_action="continue"),
        step("c"),
        step("d", after=["c", "b", "a", "a"]),
    ]
    assert execute(steps).errors[-1]["message"] == "it depends on 'a' and 1 more, which did not complete"


# --- skip_on_failure ------------------------------------------------------------------------------


@pytest.mark.rule("NR25", "N18")
def test_skip_on_failure_looks_at_everything_before_it_in_the_order(fail_steps: FailSteps) -> None:
    fail_steps("b")
    steps = [
        step("declared_first", after=["careless"], skip_on_failure=True),
        step("before", skip_on_failure=True),
        step("b", error_action="continue"),
        step("same_wave", skip_on_failure=True),
        step("careless"),
        step("next_wave", after=["careless"], skip_on_failure=True),
    ]
    assert ends(execute(steps), steps) == (
        ["before", "careless"],
        ["b"],
        ["declared_first", "same_wave", "next_wave"],
    )


@pytest.mark.rule("NR25")
def test_skip_on_failure_without_a_failure_skips_nothing() -> None:
    steps = [step("off", enabled=False), step("a"), step("b", skip_on_failure=True)]
    assert ends(execute(steps), steps) == (["a", "b"], [], ["off"])


@pytest.mark.rule("NR25")
def test_an_unmet_dependency_counts_before_skip_on_failure(fail_steps: FailSteps) -> None:
    fail_steps("a")
    steps = [step("a", error_action="continue"), step("b", after=["a"], skip_on_failure=True)]
    assert ends(execute(steps), steps) == ([], ["a", "b"], [])


@pytest.mark.rule("N18", "NR26")
def test_a_step_skipped_for_a_failure_does_not_satisfy_its_dependents(fail_steps: FailSteps) -> None:
    fail_steps("a")
    steps = [
        step("a", error_action="continue"),
        step("b", skip_on_failure=True),
        step("c", after=["b"]),
    ]
    assert ends(execute(steps), steps) == ([], ["a", "c"], ["b"])


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.rule("NR48", "EF3", "N23", "PR8")
def test_when_the_time_runs_out_the_rest_fails_and_disabled_steps_stay_skipped() -> None:
    steps = [step("a"), step("b"), step("c", after=["a"]), step("off", enabled=False)]
    # The clock is read at the start, before each step, and for each action.
    result = execute(steps, clock=TickingClock(400), global_timeout_ms=1000)
    assert ends(result, steps) == (["a"], ["b", "c"], ["off"])
    assert result.execution_status is FAILED
    assert emitted_names(result) == ["a"]
    assert {e["error_type"] for e in result.errors} == {"TIMEOUT"}
    assert result.errors[0]["message"] == "the workflow's time ran out before the step was processed"


@pytest.mark.rule("N23")
def test_the_deadline_is_the_smaller_of_both_timeouts() -> None:
    steps = [step("a"), step("b")]

    def completed(workflow_ms: int, global_ms: int | None) -> list[str]:
        workflow = definition(timeout_ms=workflow_ms)
        result = execute(steps, workflow, clock=TickingClock(500), global_timeout_ms=global_ms)
        return names_of(result.completed_steps, steps)

    assert completed(1500, None) == completed(1500, 60000) == completed(60000, 1500) == ["a"]
    assert completed(60000, None) == completed(60000, 60000) == ["a", "b"]


@pytest.mark.rule("N23")
def test_the_deadline_itself_is_too_late() -> None:
    exactly = execute([step("a")], clock=TickingClock(1000), global_timeout_ms=1000)
    just_before = execute([step("a")], clock=TickingClock(999), global_timeout_ms=1000)
    assert (exactly.execution_status, just_before.execution_status) == (FAILED, COMPLETED)


@pytest.mark.rule("N23")
def test_an_operation_has_its_own_timeout() -> None:
    steps = [step("a"), step("b")]
    orchestrator = NodeOrchestrator(object())
    orchestrator.workflow_definition = definition(timeout_ms=3_600_000)

    def completed(**fields: int) -> list[str]:
        operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=steps, **fields)
        output = now(orchestrator.process(operation, clock=TickingClock(150_000)))
        return names_of(output.completed_steps, steps)

    # The second step is processed after 450 s.
    assert completed() == completed(global_timeout_ms=450_000) == ["a"]
    assert completed(global_timeout_ms=450_001) == ["a", "b"]


@pytest.mark.rule("N37")
@pytest.mark.parametrize(("tick", "told"), [(0, 0), (0.001, 1), (1, 1), (1.001, 2), (250, 250), (-5, 0)])
def test_the_duration_is_rounded_up(tick: float, told: int) -> None:
    # Without steps the clock is read twice.
    assert execute([], clock=TickingClock(tick)).execution_time_ms == told


@pytest.mark.rule("N02", "N01")
def test_the_result_is_stamped_with_the_end_by_the_given_clock() -> None:
    assert execute([], clock=StandingClock()).timestamp == NOON.isoformat() == "2026-01-01T12:00:00+00:00"


# --- what the result tells ------------------------------------------------------------------------


@pytest.mark.rule("N26", "AC4.3", "NR31", "FX14")
@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("sequential", {"execution_mode": "sequential", "workflow_name": "nightly"}),
        ("parallel", {"execution_mode": "parallel", "workflow_name": "nightly"}),
        ("batch", {"execution_mode": "batch", "workflow_name": "nightly", "batch_size": 3}),
    ],
)
def test_the_metadata_of_a_result_is_exactly_this(mode: str, told: dict[str, object]) -> None:
    steps = [step("a"), step("b", after=["a"]), step("off", enabled=False)]
    assert execute(steps, definition(mode)).metadata == told


@pytest.mark.rule("NR52", "NR58")
def test_a_given_mode_overrides_the_definition_without_complaint() -> None:
    result = execute([step("a")], definition("parallel"), execution_mode=EnumExecutionMode.BATCH)
    assert result.metadata["execution_mode"] == "batch"
    assert execute([], definition("parallel")).metadata["execution_mode"] == "parallel"


@pytest.mark.rule("N36", "NR67")
def test_a_failed_step_is_logged_as_a_warning_and_success_is_silent(
    fail_steps: FailSteps, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reserved = {"compensation_action": "undo-it", "idempotency_key": "key-17"}
    execute([step("a", **reserved)])
    assert caplog.records == []
    fail_steps("a")
    execute([step("a", **reserved)])
    assert [(record.levelname, record.name, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "podium.nodes.executor",
            "Step 'a' failed: its action could not be created: the fault was injected",
        )
    ]


@pytest.mark.rule("N38", "EF2", "EF5", "PR4")
def test_the_executor_itself_ends_completed_or_failed_only(fail_steps: FailSteps) -> None:
    steps = [step("a"), step("b"), step("off", enabled=False)]
    assert {execute([]).execution_status, execute(steps).execution_status} == {COMPLETED}
    late = execute(steps, clock=TickingClock(400), global_timeout_ms=1000)
    fail_steps("a")
    stopped = execute(steps)
    went_on = execute(steps, default_error_action="continue")
    assert (late.failed_steps, stopped.skipped_steps[0], went_on.completed_steps) == (
        [str(id_of("b"))],
        str(id_of("b")),
        [str(id_of("b"))],
    )
    assert {result.execution_status for result in (late, stopped, went_on)} == {FAILED}
