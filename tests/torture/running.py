"""Many runs, what they covered, and the smallest plan that still fails."""

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from podium.plan.plan import Block, Call, Plan, Step, Workflow
from tests.torture.driving import Torture
from tests.torture.generator import FEATURES, replace_workflow

# How many plans may lack a feature: each has to occur in one of a hundred.
RAREST = 0.01


@dataclass
class Batch:
    plans: int = 0
    runs: int = 0
    events: int = 0
    features: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, bool, str]] = field(default_factory=list)

    def add(self, other: "Batch") -> None:
        self.plans += other.plans
        self.runs += other.runs
        self.events += other.events
        self.features += other.features
        self.done += other.done
        self.failures += other.failures


def run_batch(seeds: Iterable[int]) -> Batch:
    """Each seed twice: with everything, and as a plain plan that the interpreter knows, too."""
    batch = Batch()
    for seed in seeds:
        for plain in (False, True):
            told, torture = run_one(seed, plain=plain)
            batch.runs += 1
            batch.events += len(torture.log)
            batch.done += torture.done
            if not plain:
                batch.plans += 1
                batch.features += Counter(name for name, count in torture.features.items() if count)
            if told:
                batch.failures.append((seed, plain, told))
    return batch


def run_one(seed: int, *, plain: bool, plan: Plan | None = None) -> tuple[str, Torture]:
    """What went wrong, or nothing."""
    torture = Torture(seed, plain=plain, plan=plan)
    try:
        torture.run()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}: {error}", torture
    return "", torture


def missing_features(batch: Batch) -> list[str]:
    return [name for name in FEATURES if batch.features[name] < RAREST * batch.plans]


# --- shrinking ------------------------------------------------------------------------------------


def shrink(seed: int, *, plain: bool) -> str:
    """Leave steps out as long as it still fails; what is left, as JSON, and the end of its log."""
    told, torture = run_one(seed, plain=plain)
    plan = torture.plan
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(plan):
            try:
                found, attempt = run_one(seed, plain=plain, plan=candidate)
            except Exception:  # a goto or a dependency that leads nowhere: not a plan
                continue
            if found and found.split(":")[0] == told.split(":")[0]:
                plan, torture, smaller = candidate, attempt, True
                break
    lines = [msgspec.json.encode(plan.workflow).decode()]
    lines += [
        f"  {record.run_seq} {record.event_type} {record.step_id or ''} {record.logical_attempt_id}"
        f" {record.payload.decode()[:120]}"
        for record in torture.log[-15:]
    ]
    return "\n".join(lines)


def _smaller(plan: Plan) -> Iterator[Plan]:
    for workflow in _workflows(plan.workflow):
        yield replace_workflow(plan, workflow, {})


def _workflows(workflow: Workflow) -> Iterator[Workflow]:
    for name in ("cleanup", "error", "timeout", "budget"):
        if getattr(workflow, name) is not None:
            yield _changed(workflow, **{name: None})
    for block in _blocks(workflow.block):
        yield _changed(workflow, block=block)
    if workflow.cleanup is not None:
        for block in _blocks(workflow.cleanup):
            yield _changed(workflow, cleanup=block)


def _blocks(block: Block) -> Iterator[Block]:
    for index, step in enumerate(block.steps):
        if len(block.steps) > 1:
            yield Block(block.discipline, block.steps[:index] + block.steps[index + 1 :])
        for smaller in _steps(step):
            yield Block(block.discipline, (*block.steps[:index], smaller, *block.steps[index + 1 :]))


def _steps(step: Step) -> Iterator[Step]:
    for name in ("when", "on", "retry", "timeout"):
        if getattr(step, name) is not None:
            yield _changed(step, **{name: None})
    body = step.body
    if isinstance(body, Call):
        for workflow in _workflows(body.workflow):
            yield _changed(step, body=_changed(body, workflow=workflow))
    elif hasattr(body, "block"):
        for block in _blocks(body.block):
            yield _changed(step, body=_changed(body, block=block))


def _changed(part: Any, **facts: Any) -> Any:
    return type(part)(**{name: getattr(part, name) for name in part.__struct_fields__} | facts)
