"""The node executor: time and memory per step, how they grow, and what a plain implementation needs."""

from uuid import UUID

from bench import plain, workflows
from bench.measure import Contestant, Job, Times, bytes_kept, compete
from bench.report import Report, microseconds, milliseconds
from podium.nodes import (
    ModelWorkflowStep,
    execute_workflow,
    get_execution_order,
    validate_workflow_definition,
)

# With how many calls in one measurement. A single one of 10,000 steps makes as many objects as just cause one
# full garbage collection, or just do not; over several calls both sides pay for theirs.
_SIZES = {100: 20, 1_000: 4, 10_000: 3}
_SMALL, _MIDDLE, _LARGE = _SIZES
_ROUNDS = 10
_JOBS = ("validate", "order", "execute")
_SLOWEST = {"validate": 1.0, "order": 1.0, "execute": 1.1}
_WORKFLOW_ID = UUID(int=1)

# A contestant is a job with the number of steps it does it for.
JobTimes = Times[tuple[str, int]]


def run(report: Report) -> None:
    steps = {size: workflows.steps(workflows.random_dependencies(size)) for size in _SIZES}
    contestants = {
        (name, size): Contestant(job, repeats)
        for size, repeats in _SIZES.items()
        for name, job in _jobs(steps[size]).items()
    }
    for name in ("execute", "plain execute"):
        contestants[f"{name} once", _LARGE] = Contestant(contestants[name, _LARGE].job)
    times = compete(contestants, _ROUNDS)
    for size in _SIZES:
        _against_plain(report, times, size)
    _growth(report, times)
    kept = _memory(report, steps[_LARGE])
    _limits_of_the_specification(report, times, kept)


def _jobs(steps: list[ModelWorkflowStep]) -> dict[str, Job]:
    definition = workflows.definition()
    return {
        "bare pass": _bare_pass(steps),
        "validate": lambda: workflows.finished(validate_workflow_definition(definition, steps)),
        "plain validate": lambda: plain.validate(definition, steps),
        "order": lambda: get_execution_order(steps),
        "plain order": lambda: plain.order(steps),
        "execute": lambda: workflows.finished(execute_workflow(definition, steps, _WORKFLOW_ID)),
        "plain execute": lambda: plain.execute(definition, steps, _WORKFLOW_ID),
    }


def _bare_pass(steps: list[ModelWorkflowStep]) -> Job:
    """The least that anything reading a workflow must do: look at every id and at every dependency."""
    index_of = {step.step_id.int: index for index, step in enumerate(steps)}

    def look_at_everything() -> int:
        seen = 0
        for step in steps:
            seen += index_of[step.step_id.int]
            for needed in step.depends_on:
                seen += index_of[needed.int]
        return seen

    return look_at_everything


def _against_plain(report: Report, times: JobTimes, size: int) -> None:
    report.section(f"Executor, {size:,} steps with 3 dependencies each, per step")
    for job in _JOBS:
        floor = f"plain {job}"
        report.figure(job, microseconds(times.best((job, size)) / size))
        report.figure(floor, microseconds(times.best((floor, size)) / size))
        report.goal(f"{job} / {floor}", times.ratio((job, size), (floor, size)), at_most=_SLOWEST[job])
    if size == _LARGE:
        once = times.ratio(("execute once", size), ("plain execute once", size))
        report.figure("the same for a single call after a collection", f"{once:.2f} x")
    per_action = times.best(("execute", size)) / size
    report.goal("one action", per_action * 1e6, at_most=26, unit="us", decides=False)


def _growth(report: Report, times: JobTimes) -> None:
    """Even the bare pass grows, because 10,000 steps do not fit into the caches: that much is not ours."""

    def growth(job: str) -> float:
        return times.ratio((job, _LARGE), (job, _SMALL)) * _SMALL / _LARGE

    report.section(f"Executor, growth of the time per step from {_SMALL:,} to {_LARGE:,} steps")
    bare = growth("bare pass")
    report.figure("bare pass", f"{bare:.2f} x")
    for job in _JOBS:
        raw = growth(job)
        report.figure(f"plain {job}", f"{growth(f'plain {job}'):.2f} x")
        report.figure(job, f"{raw:.2f} x")
        report.figure(f"{job}, relative to the bare pass", f"{raw / bare:.2f} x")
        report.goal(f"{job}, the smaller of the two", min(raw, raw / bare), at_most=1.5)


def _memory(report: Report, steps: list[ModelWorkflowStep]) -> float:
    """Bytes per step."""
    report.section(f"Executor, memory of a result of {len(steps):,} steps, per step")
    jobs = _jobs(steps)
    kept, floor = (bytes_kept(jobs[name]) / len(steps) for name in ("execute", "plain execute"))
    report.figure("plain execute", f"{floor / 1000:.2f} KB")
    report.goal("execute", kept / 1000, at_most=2.5, unit="KB")
    report.goal("execute / plain execute", kept / floor, at_most=1.1)
    return kept


def _limits_of_the_specification(report: Report, times: JobTimes, kept: float) -> None:
    report.section("Executor, the limits that the specification itself sets")
    report.goal("validate 100 steps", times.best(("validate", _SMALL)) * 1e3, at_most=100, unit="ms")
    report.goal("order 1,000 steps", times.best(("order", _MIDDLE)) * 1e3, at_most=50, unit="ms")
    whole = times.best(("execute", _LARGE))
    report.figure(f"execute {_LARGE:,} steps", milliseconds(whole))
    report.goal("one action", whole / _LARGE * 1e3, at_most=10, unit="ms")
    report.goal("memory per step", kept / 1000, at_most=10, unit="KB")
