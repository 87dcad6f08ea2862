"""Words for tests about nodes: steps by name, a clock that is moved, ids that count."""

from collections.abc import Coroutine, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

from podium.nodes import (
    ModelExecutionGraph,
    ModelOrchestratorInput,
    ModelOrchestratorOutput,
    ModelSemVer,
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowStep,
    NodeOrchestrator,
    WorkflowExecutionResult,
    execute_workflow,
    validate_workflow_definition,
)

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WORKFLOW = UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")
V1 = ModelSemVer(major=1, minor=0, patch=0)

T = TypeVar("T")


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits; fails if it does."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waited for something")


def id_of(name: str) -> UUID:
    return uuid5(NAMESPACE_OID, name)


def step(name: str, *, after: Iterable[str] = (), **fields: Any) -> ModelWorkflowStep:
    """A step called `name` that depends on the steps called `after`."""
    values: dict[str, Any] = {
        "step_id": id_of(name),
        "correlation_id": id_of(f"correlation of {name}"),
        "step_name": name,
        "step_type": "compute",
        "depends_on": [id_of(other) for other in after],
        **fields,
    }
    return ModelWorkflowStep(**values)


def unchecked_step(name: str, **fields: Any) -> ModelWorkflowStep:
    """A step built without validation, as a careless caller might."""
    return ModelWorkflowStep.model_construct(**{**step(name).__dict__, **fields})


def definition(mode: str = "sequential", **metadata: Any) -> ModelWorkflowDefinition:
    values: dict[str, Any] = {
        "version": V1,
        "workflow_name": "nightly",
        "workflow_version": V1,
        "description": "a workflow",
        "execution_mode": mode,
        **metadata,
    }
    return ModelWorkflowDefinition(
        version=V1,
        workflow_metadata=ModelWorkflowDefinitionMetadata(**values),
        execution_graph=ModelExecutionGraph(version=V1),
    )


class CountingIds:
    """00000000-...-0001, -0002, ..."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self) -> UUID:
        self.drawn += 1
        return UUID(int=self.drawn)


class StandingClock:
    """A clock that shows the same moment until it is moved."""

    def __init__(self) -> None:
        self.shows = NOON

    def __call__(self) -> datetime:
        return self.shows

    def move(self, milliseconds: float) -> None:
        self.shows += timedelta(milliseconds=milliseconds)


class TickingClock(StandingClock):
    """A clock that moves on by a fixed time whenever it is read."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self._tick = milliseconds

    def __call__(self) -> datetime:
        shown = self.shows
        self.move(self._tick)
        return shown


def execute(
    steps: Iterable[ModelWorkflowStep],
    workflow: ModelWorkflowDefinition | None = None,
    **keywords: Any,
) -> WorkflowExecutionResult:
    """Execute with counting ids and a standing clock, unless told otherwise."""
    settings = {"id_factory": CountingIds(), "clock": StandingClock(), **keywords}
    return now(execute_workflow(workflow or definition(), list(steps), WORKFLOW, **settings))


def problems_of(
    steps: Iterable[ModelWorkflowStep], workflow: ModelWorkflowDefinition | None = None
) -> list[str]:
    return now(validate_workflow_definition(workflow or definition(), list(steps)))


def process(
    steps: Iterable[ModelWorkflowStep],
    workflow: ModelWorkflowDefinition | None = None,
    **fields: Any,
) -> ModelOrchestratorOutput:
    """What a fresh orchestrator makes of one operation, with counting ids and a standing clock."""
    orchestrator = NodeOrchestrator(object())
    orchestrator.workflow_definition = workflow or definition()
    operation = ModelOrchestratorInput(workflow_id=WORKFLOW, steps=list(steps), **fields)
    return now(orchestrator.process(operation, id_factory=CountingIds(), clock=StandingClock()))


def names_of(ids: Iterable[str | UUID], steps: Iterable[ModelWorkflowStep]) -> list[str]:
    by_id = {str(one.step_id): one.step_name for one in steps}
    return [by_id[str(id_)] for id_ in ids]


def emitted_names(result: WorkflowExecutionResult) -> list[str]:
    return [action.payload["step_name"] for action in result.actions_emitted]


def every_value_in(value: object) -> Iterator[object]:
    """All keys and values of nested plain data."""
    yield value
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from every_value_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from every_value_in(item)
