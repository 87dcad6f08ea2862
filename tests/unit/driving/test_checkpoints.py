"""A resumed run starts from its newest checkpoint and the records after it; without one it replays its log.

Counted are the records that a resume reads, through the real engine: a busy machine changes nothing.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from podium.engines.local import LocalEngine
from podium.language.workflow import read_workflow
from podium.log.checkpoints import Checkpoint
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.operations.signals import send_signal
from podium.plan.plan import Plan
from podium.ports.engine import LEFT, RunEnded, RunRequest
from podium.runtime import checkpoints
from podium.runtime.checkpoints import CheckpointWriter, notes_of
from podium.runtime.replaying import replayed
from podium.runtime.restoring import write_views
from podium.runtime.rundir import RunDirectory
from podium.stores.memory import MemoryStore
from podium.stores.sqlite import BootClock
from podium.testing.access import owner
from podium.testing.engine_promises import canonical
from tests.unit.driving.corpus import CORPUS, plan_named
from tests.unit.driving.scripted import Scripted, memory
from tests.unit.driving.test_restart_after_every_event import Killed, LogThatDies

NOTHING = "tests:nothing"
R1 = RunId("r1")
# What a resume may read besides the tail: the first events of the run, the newest ones, and single records.
BESIDES = 260


def _plan(items: int) -> Plan:
    text = f"""
version: "2.0"
name: test
steps:
  - name: L
    for_each:
      items: {list(range(items))}
      steps: [{{name: A, python: '{NOTHING}'}}]
  - {{name: Ask, approval: {{message: Really?}}}}
  - {{name: Last, python: '{NOTHING}'}}
"""
    plan = read_workflow(text.encode(), "w.yaml").plan
    assert plan is not None
    return plan


class CountingStore:
    """Counts the records that are read."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.read_records = 0
        self.reads: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        """As with a real disk, others have their turn while it is written."""
        await asyncio.sleep(0)
        return await self._store.append(*arguments, **options)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        records = await self._store.read(run_id, after=after, limit=limit)
        self.read_records += len(records)
        self.reads.append((after, len(records)))
        return records


@dataclass
class Resumable:
    """A run that was left at an approval, with its checkpoint; it can be resumed by another process."""

    folder: Path
    plan: Plan
    store: MemoryStore = field(default_factory=lambda: MemoryStore(BootClock()))
    counting: CountingStore = field(init=False)

    def __post_init__(self) -> None:
        self.counting = CountingStore(self.store)

    def _engine(self, store: Any) -> LocalEngine:
        return LocalEngine(store, BootClock(), self.folder, inline={NOTHING: lambda: None})

    async def leave_waiting(self) -> "Resumable":
        engine = self._engine(self.counting)
        await engine.create(RunRequest(self.plan, run_id=R1))
        ended = await engine.drive(R1, no_wait=True)
        assert ended.event_type == LEFT
        return self

    async def resume(self) -> RunEnded:
        """Approve it, and drive it to its end."""
        await send_signal(
            self.store, BootClock(), "default", R1, "APPROVE", {"stepId": "Ask"}, access=owner()
        )
        self.counting.read_records = 0
        return await self._engine(self.counting).drive(R1)

    async def checkpoint(self) -> Checkpoint:
        found = await self.store.load_checkpoint(R1)
        assert found is not None
        return found

    def replace_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        self.store._runs[R1].checkpoint = checkpoint

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.folder, R1)

    async def check_views(self) -> None:
        """The files say what they say if the log is read from its beginning."""
        other = RunDirectory(self.folder / "other", R1)
        other.make()
        run = await self.store.get_run(R1)
        await self._write_views(other, run)
        for name in ("logs/events.jsonl", "logs/workflow.jsonl"):
            assert (self.directory.path / name).read_text() == (other.path / name).read_text(), name
        assert json.loads(self.directory.state.read_text()) == json.loads(other.state.read_text())

    async def _write_views(self, other: RunDirectory, run: Any) -> None:
        (other.path / "plan.json").write_bytes((self.directory.path / "plan.json").read_bytes())
        await write_views(self.store, BootClock(), other, run, lambda: None)  # type: ignore[arg-type,return-value]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.runtime.machine_cache._LONG_TAIL", 20)


async def _left(folder: Path, items: int = 300) -> Resumable:
    return await Resumable(folder, _plan(items)).leave_waiting()


@pytest.mark.parametrize("items", [50, 500])
def test_a_resume_reads_only_the_tail_however_long_the_run_is(items: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path, items)
        ended = await run.resume()
        assert ended.event_type == EventType.RUN_COMPLETED
        assert run.counting.read_records < BESIDES
        await run.check_views()

    asyncio.run(scenario())


def test_checkpoints_are_saved_while_a_run_is_driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a killed driver costs only what came after the last one."""
    monkeypatch.setattr("podium.runtime.machine_cache.CHECKPOINT_EVERY", 100)
    monkeypatch.setattr("podium.runtime.machine_cache._LONG_TAIL", 10**9)

    async def scenario() -> None:
        run = await _left(tmp_path)
        head = (await run.store.get_run(R1)).head
        assert head - 300 < (await run.checkpoint()).run_seq < head
        ended = await run.resume()
        assert ended.event_type == EventType.RUN_COMPLETED
        assert run.counting.read_records < BESIDES + 300
        await run.check_views()

    asyncio.run(scenario())


def test_a_short_run_saves_no_checkpoint(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path, 3)
        assert await run.store.load_checkpoint(R1) is None
        assert (await run.resume()).event_type == EventType.RUN_COMPLETED

    asyncio.run(scenario())


# --- what is ignored ------------------------------------------------------------------------------


def _changed(**fields: Any) -> Callable[[Checkpoint], Checkpoint]:
    return lambda one: msgspec.structs.replace(one, **fields)


def _with_body(change: Callable[[dict[str, Any]], None]) -> Callable[[Checkpoint], Checkpoint]:
    """Another body, whose digest is right."""

    def changed(one: Checkpoint) -> Checkpoint:
        body = msgspec.json.decode(one.body)
        change(body)
        encoded = msgspec.json.encode(body)
        return msgspec.structs.replace(one, body=encoded, sha256=sha256(encoded).digest())

    return changed


def _damaged(one: Checkpoint) -> Checkpoint:
    """One digit of a number that is still a number."""
    body = one.body.replace(b'"visits":', b'"visits":1', 1)
    assert body != one.body
    return msgspec.structs.replace(one, body=body)


def _renumber(tree: dict[str, Any]) -> None:
    tree["scopes"]["0"]["index"] = 2


IGNORED: dict[str, Callable[[Checkpoint], Checkpoint | None]] = {
    "missing": lambda one: None,
    "damaged": _damaged,
    "cut short": lambda one: msgspec.structs.replace(one, body=one.body[: len(one.body) // 2]),
    "of another version": _changed(version="0.0.9/1"),
    "of other rules": _changed(rules_version=2),
    "of another plan": _changed(plan_sha256="ab" * 32),
    "of another log": _with_body(lambda body: body.update(event_id="another")),
    "beyond the log": lambda one: msgspec.structs.replace(one, run_seq=one.run_seq + 1000),
    "without a view": _with_body(lambda body: body["views"].pop("state")),
    "with a view that had failed": _with_body(lambda body: body["views"]["notes"].update(run_seq=3)),
    "with a machine that nobody understands": _with_body(lambda body: body["machine"].pop("tree")),
    "with a part of another type": _with_body(lambda body: body["machine"]["tree"].update(phase="open")),
    "with a tree of positional lists": _with_body(
        lambda body: body["machine"].update(tree=[*body["machine"]["tree"].values()])
    ),
    "with a list that the plan does not have": _with_body(lambda body: _renumber(body["machine"]["tree"])),
    "with a step that is not in the plan": _with_body(
        lambda body: body["views"]["state"]["main"].update(Other=body["views"]["state"]["main"]["L"])
    ),
}


@pytest.mark.parametrize("name", IGNORED)
def test_a_checkpoint_that_does_not_fit_is_ignored_and_the_log_is_replayed(name: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path)
        run.replace_checkpoint(IGNORED[name](await run.checkpoint()))
        head = (await run.store.get_run(R1)).head
        ended = await run.resume()
        assert ended.event_type == EventType.RUN_COMPLETED
        assert run.counting.read_records >= head
        await run.check_views()

    asyncio.run(scenario())


def _cut_events(directory: RunDirectory) -> None:
    file = directory.logs / "events.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-50]))


def _cut_lines(directory: RunDirectory) -> None:
    file = directory.logs / "workflow.jsonl"
    file.write_bytes(file.read_bytes()[:-5000])


def _other_events(directory: RunDirectory) -> None:
    file = directory.logs / "events.jsonl"
    file.write_bytes(b"{}\n" + file.read_bytes())


@pytest.mark.parametrize("damage", [_cut_events, _cut_lines, _other_events])
def test_logs_in_the_directory_that_have_lost_lines_are_completed_from_the_whole_log(
    damage: Callable[[RunDirectory], None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path)
        damage(run.directory)
        head = (await run.store.get_run(R1)).head
        assert (await run.resume()).event_type == EventType.RUN_COMPLETED
        assert run.counting.read_records >= head
        if damage is not _other_events:  # a line that was put there by hand stays
            await run.check_views()

    asyncio.run(scenario())


def test_a_store_that_cannot_load_a_checkpoint_does_not_stop_a_resume(tmp_path: Path) -> None:
    from podium.errors import StoreUnavailable

    async def scenario() -> None:
        run = await _left(tmp_path)

        async def refuse(_run_id: RunId) -> Checkpoint:
            raise StoreUnavailable("the table cannot be read")

        with patch.object(run.counting, "load_checkpoint", refuse, create=True):
            assert (await run.resume()).event_type == EventType.RUN_COMPLETED

    asyncio.run(scenario())


def test_a_store_that_cannot_save_a_checkpoint_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from podium.errors import StoreUnavailable

    monkeypatch.setattr("podium.runtime.machine_cache.CHECKPOINT_EVERY", 50)

    async def refuse(*_arguments: Any) -> None:
        raise StoreUnavailable("the disk is full")

    async def scenario() -> None:
        run = Resumable(tmp_path, _plan(300))
        with patch.object(run.store, "save_checkpoint", refuse):
            await run.leave_waiting()
        assert (await run.resume()).event_type == EventType.RUN_COMPLETED

    asyncio.run(scenario())


# --- other readers --------------------------------------------------------------------------------


def test_whoever_asks_what_a_run_waits_for_reads_only_the_tail(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path)
        machine = await replayed(run.counting, R1, run.plan)
        assert [(one.kind, one.subject) for one in machine.obligations()] == [("approval", "Ask")]
        assert run.counting.read_records < 50

    asyncio.run(scenario())


def test_what_a_view_recalls_is_the_same_with_and_without_a_checkpoint(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = await _left(tmp_path)
        recalled = await notes_of(run.counting, R1)
        assert run.counting.read_records < 50
        run.replace_checkpoint(None)
        assert recalled == await notes_of(run.store, R1)
        assert recalled.questions == {"Ask": "Really?"}

    asyncio.run(scenario())


def test_a_checkpoint_that_is_too_large_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_MAX_BYTES", 1000)

    async def scenario() -> None:
        run = await _left(tmp_path)
        assert await run.store.load_checkpoint(R1) is None

    asyncio.run(scenario())


def test_one_checkpoint_is_saved_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        run = await Scripted(plan_named(next(iter(CORPUS))), memory()).create()
        writer = CheckpointWriter(run.store, run.run_id, run.plan, {})
        assert writer.save(1, b"{}", {}) > 0
        assert writer.save(1, b"{}", {}) == 0
        await writer.close()
        assert writer.save(1, b"{}", {}) > 0
        await writer.close()

    asyncio.run(scenario())


# --- after any kill -------------------------------------------------------------------------------


@pytest.mark.rule("D31")
@pytest.mark.parametrize("name", CORPUS)
def test_a_run_that_is_killed_after_any_commit_continues_from_its_checkpoint(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a checkpoint after every commit, and after every third one."""

    async def killed_after(appends: int) -> tuple[Scripted, Sequence[EventRecord]] | None:
        run = await Scripted(plan_named(name), memory(), checkpoints=True).create()
        try:
            await run.drive(log=LogThatDies(run.store, appends))
        except Killed:
            pass
        else:
            return None
        if (await run.store.get_run(R1)).status.value in ("COMPLETED", "FAILED", "CANCELLED"):
            return None
        again = Scripted(run.plan, run.store, checkpoints=True)
        await again.drive()
        return again, await again.log()

    async def scenario() -> None:
        undisturbed = await Scripted(plan_named(name), memory()).create()
        await undisturbed.drive()
        expected = canonical(undisturbed.plan, await undisturbed.log())
        for every in (1, 3):
            monkeypatch.setattr("podium.runtime.machine_cache.CHECKPOINT_EVERY", every)
            monkeypatch.setattr("podium.runtime.machine_cache._BYTES_PER_EVENT", 10**9)
            appends = 1
            while (found := await killed_after(appends)) is not None:
                _, log = found
                assert canonical(undisturbed.plan, log) == expected, (every, appends)
                appends += 1

    asyncio.run(scenario())
