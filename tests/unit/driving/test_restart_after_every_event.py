"""Stop after any event, go on: the run ends as it would have ended, and its history says the same."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from podium.log.events import EventRecord, EventType, EventWrite
from podium.log.ids import RunId
from podium.machine import Machine
from podium.ports.store import Store
from podium.testing.engine_promises import canonical, problems_of
from podium.wiring.stores import open_store
from tests.unit.driving.corpus import CORPUS, plan_named
from tests.unit.driving.scripted import Scripted, ScriptedTasks, memory


class Killed(BaseException):
    """The process ends here."""


class LogThatDies:
    """A log that is gone after so many appends: what was appended is there, the answer is never heard."""

    def __init__(self, store: Store, appends: int) -> None:
        self._store = store
        self._left = appends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        if self._left == 0:
            raise Killed
        self._left -= 1
        answer = await self._store.append(*arguments, **options)
        if self._left == 0:
            raise Killed
        return answer


def _writes(records: Sequence[EventRecord]) -> list[EventWrite]:
    return [
        EventWrite(
            event_id=record.event_id,
            event_type=record.event_type,
            idempotency_key=record.idempotency_key,
            emitted_at=record.emitted_at,
            step_id=record.step_id,
            logical_attempt_id=record.logical_attempt_id,
            engine_attempt_id=record.engine_attempt_id,
            payload=record.payload,
        )
        for record in records
    ]


async def _undisturbed(name: str) -> list[EventRecord]:
    run = await Scripted(plan_named(name), memory()).create()
    await run.drive()
    return await run.log()


async def _from_prefix(name: str, log: list[EventRecord], length: int) -> Scripted:
    """A run whose log holds the first events only: whoever wrote them is gone."""
    run = await Scripted(plan_named(name), memory()).create()
    lease = await run.claim()
    await run.store.append(run.run_id, _writes(log[1:length]), fence=lease.fence)
    await run.store.release(lease)
    await run.drive()
    return run


def _check(
    name: str, undisturbed: list[EventRecord], run: Scripted, log: list[EventRecord], told: str
) -> None:
    assert canonical(run.plan, log) == canonical(run.plan, undisturbed), told
    assert not problems_of(run.plan, log), told
    machine = Machine(run.plan)
    for record in log:
        machine.advance(record)
    assert machine.terminal, told
    assert not machine.inconsistent, told
    # A task runs again only if its end was not in the log, and never beside itself.
    ends = [
        (record.step_id, record.logical_attempt_id)
        for record in log
        if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED)
    ]
    assert len(ends) == len(set(ends)), told


@pytest.mark.rule("D31", "G06", "G13", "G40")
@pytest.mark.parametrize("name", CORPUS)
def test_a_run_goes_on_after_any_event_as_if_nothing_had_happened(name: str) -> None:
    async def scenario() -> None:
        undisturbed = await _undisturbed(name)
        for length in range(1, len(undisturbed)):
            run = await _from_prefix(name, undisturbed, length)
            log = await run.log()
            told = (
                f"{name}, stopped after {length} of {len(undisturbed)}: {undisturbed[length - 1].event_type}"
            )
            _check(name, undisturbed, run, log, told)
            finished = {
                (record.step_id, record.logical_attempt_id)
                for record in undisturbed[:length]
                if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED)
            }
            again = {(path, attempt) for path, attempt, _ in run.tasks.begun}
            assert not finished & again, told
            _check_marks(undisturbed[:length], log, run.tasks, told)

    asyncio.run(scenario())


def _check_marks(prefix: list[EventRecord], log: list[EventRecord], tasks: ScriptedTasks, told: str) -> None:
    """What was in flight runs a second time, and its end says so by its engine attempt."""
    started = {(r.step_id, r.logical_attempt_id) for r in prefix if r.event_type == EventType.STEP_STARTED}
    for path, attempt, engine_attempt in tasks.begun:
        assert engine_attempt == (2 if (path, attempt) in started else 1), told
    begun_again = {(path, attempt) for path, attempt, engine in tasks.begun if engine == 2}
    if begun_again:
        assert tasks.orphans_stopped == 1, told
    for record in log[len(prefix) :]:
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED) and key in begun_again:
            assert record.engine_attempt_id == 2, told


@pytest.mark.rule("D31", "G13")
def test_a_run_on_a_file_goes_on_after_any_commit(tmp_path: Path) -> None:
    """Every workflow of the corpus, killed after each of its commits, on one real database."""

    async def scenario() -> int:
        store = await open_store(str(tmp_path / "podium.db"), create=True)
        kills = 0
        try:
            for place, name in enumerate(CORPUS):
                undisturbed = await _undisturbed(name)
                appends = 0
                while True:
                    appends += 1
                    run = Scripted(plan_named(name), store, RunId(f"r{place}-{appends}"))
                    await run.create()
                    try:
                        await run.drive(log=LogThatDies(store, appends))
                    except Killed:
                        kills += 1
                    else:
                        break
                    run.tasks = ScriptedTasks()
                    log = await run.log()
                    if log[-1].event_type.startswith("Run") and log[-1].event_type not in (
                        "RunStarted",
                        "RunQueued",
                    ):
                        break  # killed after its last commit: nothing is left to do
                    await run.drive()
                    _check(name, undisturbed, run, await run.log(), f"{name}, killed after commit {appends}")
        finally:
            await store.close()
        return kills

    assert asyncio.run(scenario()) > 200
