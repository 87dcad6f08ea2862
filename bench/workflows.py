"""The workflows that are measured: random, but the same in every run."""

import random
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import UUID

from podium.nodes import (
    ModelExecutionGraph,
    ModelSemVer,
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowStep,
)

DEPENDENCIES_PER_STEP = 3
_SEED = 20

_Result = TypeVar("_Result")


def random_dependencies(count: int) -> list[list[int]]:
    """What each of `count` steps depends on: three different earlier ones, where there are so many."""
    draw = random.Random(_SEED)
    return [
        draw.sample(range(index), min(index, DEPENDENCIES_PER_STEP)) if index else []
        for index in range(count)
    ]


def chain_dependencies(count: int) -> list[list[int]]:
    return [[index - 1] if index else [] for index in range(count)]


def definition() -> ModelWorkflowDefinition:
    version = ModelSemVer(major=1, minor=0, patch=0)
    return ModelWorkflowDefinition(
        version=version,
        workflow_metadata=ModelWorkflowDefinitionMetadata(
            version=version, workflow_name="measured", workflow_version=version, description="for measuring"
        ),
        execution_graph=ModelExecutionGraph(version=version),
    )


def steps(dependencies: list[list[int]]) -> list[ModelWorkflowStep]:
    draw = random.Random(_SEED)
    ids = [UUID(int=draw.getrandbits(128), version=4) for _ in dependencies]
    return [
        ModelWorkflowStep(
            step_id=ids[index],
            step_name=f"Step {index}",
            step_type="compute",
            # A UUID of its own for each mention, as in anything that was read from a file.
            depends_on=[UUID(int=ids[other].int) for other in needed],
        )
        for index, needed in enumerate(dependencies)
    ]


def finished(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """What the coroutine returns. Nothing measured here ever awaits, so an event loop would only be noise."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _Result = stop.value
        return result
    raise RuntimeError("it was expected to end without awaiting")
