"""The power goes while a run is under way: what was synced is left, and from that the run goes on to the same end.

The engine drives a run whose store lies on a disk that remembers what was synced, and whose files are watched in the
same way. The power is cut after every acknowledgement and in the middle of every sync. Each time, what a disk might
hold is put elsewhere and the run is taken up there, as if the machine had been started again.
"""

import asyncio
import os
import random
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.engines.local import LocalEngine
from podium.errors import RunNotFound
from podium.language.workflow import read_workflow
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import BootClock, SqliteStore
from podium.testing.engine_promises import canonical
from tests.promises.sqlite.disks import PowerlessDisk, open_on

R1 = RunId("r1")
RUNS = "runs"
ENDS = (EventType.STEP_COMPLETED, EventType.STEP_FAILED)
# Of state.json; all else has to be the same.
VARIES = frozenset({"started_at", "completed_at", "duration"})
_names = count()


def _step(name: str, more: str = "", then: str = "true") -> str:
    """A step that leaves word of every time it runs."""
    return f"{{name: {name}, command: [sh, -c, 'echo \"$PODIUM_VISIT\" >> story; {then}']{more}}}"


IF_THREE = ', when: {expr: "${context.n} == 3"}'
RETRIED = 'test "$PODIUM_ATTEMPT" -ge 2'
IN_ORDER = {
    "sequence with finally": f"finally: [{_step('Z')}]\nsteps: [{_step('A')}, {_step('B')}, {_step('C')}]\n",
    "loop with values": "context: {n: 0}\nsteps:\n  - name: L\n    for_each:\n      items: [1, 2, 3]\n"
    f"      steps: [{_step('A')}, {{name: S, set: {{n: '${{item}}'}}}}]\n"
    f"  - {_step('B', IF_THREE)}\n",
    "retries": "steps:\n"
    + "".join(f"  - {_step(name, ', retry: {attempts: 2, delay: 0.01}', RETRIED)}\n" for name in "AB"),
}
AT_ONCE = {
    "loop at once": "max_parallel: 3\nsteps:\n  - name: L\n    for_each:\n      items: [1, 2, 3, 4, 5]\n"
    f"      parallel: true\n      max_workers: 4\n      steps: [{_step('A')}]\n",
    "graph": f"steps:\n  - {_step('A')}\n"
    + "".join(f"  - {_step(name, ', depends_on: [A]')}\n" for name in "BCD")
    + f"  - {_step('E', ', depends_on: [B, C, D]')}\n",
}
WORKFLOWS = IN_ORDER | AT_ONCE


def _plan(name: str) -> Plan:
    plan = read_workflow(f'version: "2.0"\nname: test\n{WORKFLOWS[name]}'.encode(), "w.yaml").plan
    assert plan is not None
    return plan


# --- what survives --------------------------------------------------------------------------------


class SyncedFiles:
    """Which names and which contents below a folder were synced; of the rest, a cut leaves anything."""

    def __init__(self, top: Path) -> None:
        self._top = top
        # By folder the names in it, by inode the content.
        self._names: dict[Path, frozenset[str]] = {}
        self._contents: dict[int, bytes] = {}

    def fsync(self, file: int) -> None:
        """Stands in for `os.fsync`."""
        path, facts = Path(f"/proc/self/fd/{file}").readlink(), os.fstat(file)
        if stat.S_ISDIR(facts.st_mode):
            self._names[path] = frozenset(entry.name for entry in path.iterdir())
        else:
            self._contents[facts.st_ino] = path.read_bytes()

    def cut(self, folder: Path, chance: random.Random) -> None:
        survive = chance.choice((0.0, 0.5))
        self._cut(self._top, folder, survive, chance)

    def _cut(self, source: Path, target: Path, survive: float, chance: random.Random) -> None:
        for entry in os.scandir(source):
            if entry.name.startswith("podium.db"):
                continue  # the store's own disk knows better
            if entry.name not in self._names.get(source, ()) and chance.random() >= survive:
                continue
            if entry.is_dir():
                (target / entry.name).mkdir()
                self._cut(Path(entry.path), target / entry.name, survive, chance)
                continue
            content = self._contents.get(entry.inode())
            if content is None:
                written = Path(entry.path).read_bytes()
                content = written[: chance.randrange(len(written) + 1)]
            (target / entry.name).write_bytes(content)


@dataclass
class Cut:
    """What was left, and what had been acknowledged by then."""

    place: Path
    created: bool
    ended: frozenset[tuple[str, int]]
    told: str


@dataclass
class PowerCuts:
    """Makes them."""

    to: Path
    disk: "Disk"
    files: SyncedFiles
    chance: random.Random
    created: bool = False
    cuts: list[Cut] = field(default_factory=list)
    _ended: set[tuple[str, int]] = field(default_factory=set)

    def acknowledged(self, records: Sequence[EventRecord]) -> None:
        """An observer of the run."""
        self._ended.update(
            (str(record.step_id), record.logical_attempt_id)
            for record in records
            if record.event_type in ENDS
        )
        self.cut(f"after {records[-1].run_seq} {records[-1].event_type}")

    def cut(self, told: str) -> None:
        place = self.to / f"cut{len(self.cuts)}"
        place.mkdir(parents=True)
        self.files.cut(place, self.chance)
        if (place / RUNS).exists():
            self.disk.cut(place / RUNS, self.chance)
        self.cuts.append(Cut(place, self.created, frozenset(self._ended), f"cut {len(self.cuts)}, {told}"))


class Disk(PowerlessDisk):
    """Tells when a sync is under way."""

    on_sync: Callable[[], None] | None = None

    def before_sync(self) -> None:
        if self.on_sync is not None:
            self.on_sync()


# --- runs -----------------------------------------------------------------------------------------


@dataclass
class Ran:
    """A run to its end."""

    log: list[EventRecord]
    state: Any
    # How often each visit ran.
    story: list[tuple[str, int]]


class World:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._workspace = folder / "workspace"
        self._workspace.mkdir()

    def undisturbed(self, name: str) -> Ran:
        async def scenario() -> Ran:
            store = await SqliteStore.open(self._folder / "calm" / "podium.db")
            engine = LocalEngine(store, BootClock(), self._folder / "calm")
            await engine.create(RunRequest(_plan(name), run_id=R1, workspace=self._workspace))
            await engine.drive(R1)
            return await self._ran(store, self._folder / "calm")

        return asyncio.run(scenario())

    def cut_everywhere(self, name: str, synchronous: str = "FULL") -> list[Cut]:
        top = self._folder / "disk"
        top.mkdir()
        disk = Disk(f"runs{next(_names)}")
        files = SyncedFiles(top)
        self._monkeypatch.setattr(os, "fsync", files.fsync)
        cuts = PowerCuts(self._folder / "cuts", disk, files, random.Random(f"{name} {synchronous}"))

        async def scenario() -> None:
            store = await open_on(disk.vfs_name, top / RUNS / "podium.db", synchronous)
            engine = LocalEngine(store, BootClock(), top / RUNS)
            disk.on_sync = lambda: cuts.cut("in a sync")
            await engine.create(RunRequest(_plan(name), run_id=R1, workspace=self._workspace))
            cuts.created = True
            cuts.cut("after it was created")
            await engine.drive(R1, observers=[cuts.acknowledged])
            disk.on_sync = None
            await store.close()

        asyncio.run(scenario())
        disk.unregister()
        self._monkeypatch.undo()
        self._story()
        return cuts.cuts

    def go_on(self, cut: Cut) -> Ran | None:
        """After the machine was started again; None if there is no run."""
        runs = cut.place / RUNS

        async def scenario() -> Ran | None:
            store = await SqliteStore.open(runs / "podium.db", boot="the next one")
            try:
                before = await store.read(R1, limit=1000)
            except RunNotFound:
                await store.close()
                return None
            engine = LocalEngine(store, BootClock(), runs)
            await engine.drive(R1)
            ran = await self._ran(store, runs)
            _check_marks(before, ran, cut.told)
            return ran

        ran = asyncio.run(scenario())
        shutil.rmtree(cut.place)
        return ran

    async def _ran(self, store: SqliteStore, runs: Path) -> Ran:
        log = await store.read(R1, limit=1000)
        assert await store.problems() == []
        await store.close()
        for name in ("events.jsonl", "workflow.jsonl"):
            lines = (runs / R1 / "logs" / name).read_bytes().splitlines()
            assert len([msgspec.json.decode(line) for line in lines]) == len(log)
        return Ran(log, _plain(msgspec.json.decode((runs / R1 / "state.json").read_bytes())), self._story())

    def _story(self) -> list[tuple[str, int]]:
        """What has run since this was last asked."""
        file = self._workspace / "story"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [(path, int(attempt)) for path, _, attempt in (line.rpartition("#") for line in lines)]


def _plain(state: Any) -> Any:
    """Without what differs between two runs of the same thing."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items() if name not in VARIES}
    return [_plain(one) for one in state] if isinstance(state, list) else state


def _check_marks(before: list[EventRecord], ran: Ran, told: str) -> None:
    """What had begun and runs a second time says so."""
    begun = {(r.step_id, r.logical_attempt_id) for r in before if r.event_type == EventType.STEP_STARTED}
    for record in ran.log[len(before) :]:
        key = (str(record.step_id), record.logical_attempt_id)
        if record.event_type in ENDS and key in begun and key in ran.story:
            assert record.engine_attempt_id == 2, told


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.rule("D31", "G13", "OP10")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_goes_on_after_the_power_was_cut_as_if_nothing_had_happened(name: str, world: World) -> None:
    calm = world.undisturbed(name)
    cuts = world.cut_everywhere(name)
    assert len(cuts) > 12
    repeated = 0
    for cut in cuts:
        ran = world.go_on(cut)
        if ran is None:
            assert not cut.created, cut.told
            continue
        assert not cut.ended.intersection(ran.story), f"{cut.told}: a completed visit runs again"
        assert len(ran.story) == len(set(ran.story)), f"{cut.told}: a visit ran twice"
        assert canonical(_plan(name), ran.log) == canonical(_plan(name), calm.log), cut.told
        assert ran.state == calm.state, cut.told
        repeated += any(record.engine_attempt_id == 2 for record in ran.log)
    print(f"{len(cuts)} cuts, after {repeated} of them something ran a second time")
    assert repeated > len(cuts) / 4, "the cuts fell into the work"


@pytest.mark.timeout(200)
def test_a_store_that_syncs_less_would_let_completed_visits_run_again(world: World) -> None:
    """The same cuts, so that we know that they would be noticed."""
    again = 0
    for cut in world.cut_everywhere("sequence with finally", "NORMAL"):
        ran = world.go_on(cut)
        again += cut.created if ran is None else bool(cut.ended.intersection(ran.story))
    assert again > 0
