"""Views of one run besides its state: the picture with its progress, a timeline, its inputs, and a comparison
of two runs.
"""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from podium.log.runs import Run
from podium.log.snapshots import AttemptSnapshot, StepSnapshot
from podium.log.transitions import StepStatus
from podium.operations.parts import Parts
from podium.operations.runs import show_run
from podium.plan.loading import plan_path
from podium.runtime.reading import queued_of

if TYPE_CHECKING:
    from podium.drawing.picture import Arrow, Box

_PAGE: Final = 500
# Maximum number of steps that are counted for one answer; a loop can have more.
MAX_COUNTED: Final = 20_000
_MAX_DIFFERENCES: Final = 500


class RunPicture(NamedTuple):
    run: Run
    boxes: "tuple[Box, ...]"
    arrows: "tuple[Arrow, ...]"
    # Instances of each box by status: a step in a loop has many.
    counts: Mapping[str, Mapping[StepStatus, int]]


class Span(NamedTuple):
    """One attempt of a step, in time. A running attempt has no end."""

    step_id: str
    attempt: AttemptSnapshot


class Difference(NamedTuple):
    """`subject`: `input NAME`, `step PATH` or `plan`. None: missing on that side."""

    subject: str
    left: Any
    right: Any


class Comparison(NamedTuple):
    left: Run
    right: Run
    differences: tuple[Difference, ...]
    # There are more than are listed.
    is_cut: bool


async def run_picture(parts: Parts, tenant_id: str, run_id: str) -> RunPicture:
    """Raises `RunNotFound`, also for another tenant's run."""
    # Imported with the first picture: a server starts without it.
    from podium.drawing import shown
    from podium.drawing.picture import picture_of

    run = await parts.store.runs.find(tenant_id, run_id)
    picture = shown(picture_of(await parts.plan_of(run)))
    counts: dict[str, dict[StepStatus, int]] = {}
    async for step in steps_of(parts, tenant_id, run_id):
        of_path = counts.setdefault(plan_path(step.step_id), {})
        of_path[step.status] = of_path.get(step.status, 0) + 1
    return RunPicture(run, picture.boxes, picture.arrows, counts)


async def steps_of(parts: Parts, tenant_id: str, run_id: str) -> AsyncIterator[StepSnapshot]:
    """The steps of a run by path, at most `MAX_COUNTED`."""
    view = await show_run(parts.store, parts.clock, tenant_id, run_id, limit=_PAGE)
    page, seen = view.steps, 0
    while page and seen < MAX_COUNTED:
        for step in page:
            yield step
        seen += len(page)
        page = await parts.store.load_steps(view.run.identity.run_id, after=page[-1].step_id, limit=_PAGE)


async def run_spans(
    parts: Parts, tenant_id: str, run_id: str, *, after_step: str = "", limit: int = 100
) -> list[Span]:
    """The attempts of a page of steps, grouped by step, oldest first."""
    view = await show_run(parts.store, parts.clock, tenant_id, run_id, after_step=after_step, limit=limit)
    return [
        Span(step.step_id, attempt)
        for step in view.steps
        for attempt in (*reversed(step.earlier), step.newest)
    ]


async def run_inputs(parts: Parts, tenant_id: str, run_id: str) -> dict[str, Any]:
    """The inputs of the run. Raises `RunNotFound`, also for another tenant's run."""
    run = await parts.store.runs.find(tenant_id, run_id)
    inputs: dict[str, Any] = (await queued_of(parts.store, run.identity.run_id, parts.values(run_id))).inputs
    return inputs


async def compare_runs(parts: Parts, tenant_id: str, run_id: str, other_id: str) -> Comparison:
    """Differences between two runs: plans, inputs, and the ends of their steps. Raises `RunNotFound` for
    either.
    """
    left = await parts.store.runs.find(tenant_id, run_id)
    right = await parts.store.runs.find(tenant_id, other_id)
    facts = [await _facts(parts, tenant_id, run) for run in (left, right)]
    names = sorted(facts[0].keys() | facts[1].keys())
    found = [
        Difference(name, facts[0].get(name), facts[1].get(name))
        for name in names
        if facts[0].get(name) != facts[1].get(name)
    ]
    return Comparison(left, right, tuple(found[:_MAX_DIFFERENCES]), len(found) > _MAX_DIFFERENCES)


async def _facts(parts: Parts, tenant_id: str, run: Run) -> dict[str, Any]:
    run_id = run.identity.run_id
    facts: dict[str, Any] = {"plan": run.plan_sha256, "status": run.status.value}
    for name, value in (await run_inputs(parts, tenant_id, run_id)).items():
        facts[f"input {name}"] = value
    async for step in steps_of(parts, tenant_id, run_id):
        error = step.newest.error
        facts[f"step {step.step_id}"] = {
            "status": step.status.value,
            "attempts": step.attempt_count,
            "error": error.code if error is not None else None,
        }
    return facts
