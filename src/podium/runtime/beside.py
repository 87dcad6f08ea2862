"""What ran beside a step: in other branches, in other items of a parallel loop, in a graph without depending
on it.

A rerun from such a step repeats the step and what follows from it. What ran beside it neither precedes nor
follows it: a task there that completed keeps its result, even if it was still running when the step started.
A race (`join: any` or `majority`) is repeated, because its outcome depends on which branch is first.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final, TypeAlias

from podium.log.events import EventRecord, EventType
from podium.log.payloads import StepEnd, payload_of
from podium.log.transitions import STEP_ENDS
from podium.machine.flow import Event, Way, way_on
from podium.plan.loading import FINALLY, plan_path
from podium.plan.plan import Block, Call, ForEach, Group, Parallel, Plan, Step, While, Workflow
from podium.runtime.continued import Continued

IsBeside: TypeAlias = Callable[[str], bool]
IsSameVisit: TypeAlias = Callable[[EventRecord, EventRecord], bool]
_STARTED_AGAIN = EventType.STEP_RETRY_SCHEDULED
_FAILURES: Final[tuple[Event, ...]] = ("failure", "timeout")
_ENDING: Final = (Way.FAILED, Way.NO_TRANSITION)


def beside(plan: Plan, step: str) -> IsBeside | None:
    """A function that says whether a path is beside the step; None if nothing is."""
    tests = list(_tests(plan.workflow, step))
    return (lambda path: any(test(path) for test in tests)) if tests else None


def _tests(workflow: Workflow, path: str) -> Iterator[IsBeside]:
    """One for each list or loop around the step whose parts run concurrently."""
    block: Block | None = workflow.block
    others: Callable[[Block, str], frozenset[str]] = _others_of_graph
    before = ""
    for part in path.split("/"):
        name = part.split("#", 1)[0].split("[", 1)[0]
        step = next((one for one in block.steps if one.step_id == name), None) if block is not None else None
        if block is None or step is None or part == FINALLY:
            return
        if names := others(block, name):
            yield _in_list(before, names)
        if isinstance(step.body, ForEach) and step.body.parallel and "[" in part and _waits_for_all(step):
            yield _in_other_items(before + part)
        others = _others_of_branches if isinstance(step.body, Parallel) else _others_of_graph
        # The winner of a race depends on timing, and so do the results of its branches.
        block = _inside(step) if not isinstance(step.body, Parallel) or _waits_for_all(step) else None
        before = f"{before}{part}/"


def _waits_for_all(step: Step) -> bool:
    return isinstance(step.body, Parallel | ForEach) and step.body.join.wait_for == "all"


def _inside(step: Step) -> Block | None:
    match step.body:
        case Call():
            return step.body.workflow.block
        case Group() | Parallel() | ForEach() | While():
            return step.body.block
        case _:
            return None


def _others_of_branches(block: Block, name: str) -> frozenset[str]:
    return frozenset(one.step_id for one in block.steps) - {name}


def _others_of_graph(block: Block, name: str) -> frozenset[str]:
    """The steps that do not depend on the step, directly or indirectly."""
    if block.discipline != "graph":
        return frozenset()
    dependents = defaultdict(list)
    for one in block.steps:
        for needed in one.depends_on:
            dependents[needed].append(one.step_id)
    followers, pending = {name}, [name]
    while pending:
        new = [one for one in dependents[pending.pop()] if one not in followers]
        followers.update(new)
        pending += new
    return frozenset(one.step_id for one in block.steps) - followers


def _in_list(before: str, names: frozenset[str]) -> IsBeside:
    def test(path: str) -> bool:
        first = path[len(before) :].split("/", 1)[0]
        return path.startswith(before) and first.split("#", 1)[0].split("[", 1)[0] in names

    return test


def _in_other_items(item: str) -> IsBeside:
    loop = item[: item.rindex("[") + 1]

    def test(path: str) -> bool:
        return path.startswith(loop) and not path.startswith(item)

    return test


# --- their results --------------------------------------------------------------------------------


def same_visits(plan: Plan, continued: Continued) -> IsSameVisit:
    """A function that says of two ends of one path whether the second belongs to the same visit: the run was
    reopened and repeated it.

    True only if the failure ended its list. If the list continued elsewhere, the second may be another visit.
    """
    decisive = frozenset(_decisive(plan.workflow.block))

    def test(failed: EventRecord, following: EventRecord) -> bool:
        reopened = continued.reopened_between(failed.run_seq, following.run_seq)
        return reopened and plan_path(str(failed.step_id)) in decisive

    return test


def _decisive(block: Block, before: str = "") -> Iterator[str]:
    """The steps whose failures end the list that contains them."""
    for step in block.steps:
        ways = [way_on(block.discipline, step.on, event) for event in _FAILURES]
        if all(way in _ENDING for way in ways) and not step.allow_failure:
            yield before + step.step_id
        inner = _inside(step)
        if inner is not None:
            yield from _decisive(inner, f"{before}{step.step_id}/")


def completed_beside(
    records: Sequence[EventRecord], reached: int, is_same_visit: IsSameVisit
) -> Iterator[tuple[int, EventRecord]]:
    """For one path: the attempts that a rerun starts, and the completions that answer them.

    `reached`: the number of the event with which the step itself was reached. Attempts that had ended before
    it are copied with their numbers, except for a failure that was repaired later. Later attempts of one
    visit are answered immediately: no failure and no delay is repeated.
    """
    ended = [one for one in records if one.event_type in STEP_ENDS]
    repaired = repaired_beside(records, reached, is_same_visit)
    before = [one for one in ended if one.run_seq < reached and one is not repaired]
    attempt = 1 + max((_number(one) for one in before), default=0)
    scheduled = {_number(one) for one in records if one.event_type == _STARTED_AGAIN}
    for record, following in zip_longest(ended, ended[1:]):
        if record.run_seq < reached or _number(record) in scheduled or _was_stopped(record):
            continue  # copied with its number, or its visit continued with the next attempt
        if record.event_type == EventType.STEP_COMPLETED:
            yield attempt, record
        elif record.event_type != EventType.STEP_SKIPPED:
            if following is not None and is_same_visit(record, following):
                continue
            return  # it failed: from here on it runs again
        attempt += 1


def repaired_beside(
    records: Sequence[EventRecord], reached: int, is_same_visit: IsSameVisit
) -> EventRecord | None:
    """For one path: the failure that it had ended with when the step was reached, if that visit completed
    later.
    """
    ended = [one for one in records if one.event_type in STEP_ENDS]
    for failed, following in pairwise(ended):
        if failed.run_seq < reached <= following.run_seq and failed.event_type == EventType.STEP_FAILED:
            later = (one for one in ended if one.run_seq >= reached)
            completed = any(one.event_type == EventType.STEP_COMPLETED for one in later)
            return failed if completed and is_same_visit(failed, following) else None
    return None


def _number(record: EventRecord) -> int:
    return record.logical_attempt_id


def _was_stopped(record: EventRecord) -> bool:
    return record.event_type == EventType.STEP_INTERRUPTED or payload_of(record, StepEnd).is_stopped
