"""A copy of a run continues elsewhere to the same end, whichever copy it is and wherever in the run it was made.

    python -m tests.torture.copies

Each workflow runs once to its end. Then, for every event of it, the run as it was after that event is taken from a
backup of the store, from an export and from the run's directory, and is driven on in another folder.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.operations.rebuilding import rebuild_store
from podium.operations.signals import send_signal
from podium.operations.transfer import export_run, read_export, store_export
from podium.operations.workflows import load_workflow
from podium.ports.engine import LEFT, RunRequest
from podium.ports.store import Store
from podium.stores.sqlite import SqliteStore
from podium.testing.access import owner
from podium.testing.engine_promises import canonical
from podium.wiring.artifacts import payload_store
from podium.wiring.engines import local_engine
from podium.wiring.stores import system_clock

R: Final = RunId("r1")
_RETRY: Final = "retry: {attempts: 3, delay: 0.01}"
WORKFLOWS: Final = {
    "for_each": "steps: [{name: L, for_each: {items: [1, 2], steps: [{name: A, command: [echo, '${item}']}]}}]",
    "while": "context: {n: 0}\nsteps:\n  - name: L\n    while: {condition: {expr: '${context.n} < 2'}, "
    "max_iterations: 3, steps: [{name: A, set: {n: '${loop.iteration}'}}, {name: B, command: [echo, b]}]}",
    "parallel": "steps: [{name: P, parallel: [{name: A, command: [echo, a]}, {name: B, command: [echo, b]}]}]",
    "graph": "steps: [{name: A, command: [echo, a]}, {name: B, command: [echo, b], depends_on: [A]}]",
    "call": "steps: [{name: C, call: {workflow: inner.yaml}}, {name: D, command: [echo, d]}]",
    "approval": "steps: [{name: A, command: [echo, a]}, "
    "{name: Q, approval: {message: ok?}}, {name: B, command: [echo, b]}]",
    "retry": f"steps: [{{name: A, command: [sh, -c, 'test $PODIUM_ATTEMPT -ge 2'], {_RETRY}}}]",
    "spilled": "steps: [{name: A, command: [seq, '60000'], capture: lines}, "
    "{name: B, command: [echo, '${steps.A.lines[59999]}']}]",
    "finally": "steps: [{name: A, command: [echo, a]}]\nfinally: [{name: Z, command: [echo, z]}]",
    "set": "context: {x: 1}\nsteps: [{name: A, set: {x: 2}}, {name: B, command: [echo, '${context.x}']}]",
}
INNER: Final = 'version: "2.0"\nname: inner\nsteps: [{name: I, command: [echo, i]}]\n'
_LONG: Final = timedelta(minutes=10)
WAYS: Final = ("backup", "export", "rebuild")


class Original:
    """A run that has ended, and copies of it as it was before."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "inner.yaml").write_text(INNER)
        self._source = f'version: "2.0"\nname: copied\n{WORKFLOWS[name]}\n'.encode()
        read = load_workflow(self._source, str(folder / "w.yaml"), workspace=folder)
        assert read.plan is not None, [str(one) for one in read.diagnostics]
        self.plan = read.plan

    async def run(self) -> list[EventRecord]:
        store = await SqliteStore.open(self.runs / "podium.db")
        engine = local_engine(store, system_clock(), self.runs)
        await engine.create(RunRequest(self.plan, {}, R, self._source, self.folder))
        await to_its_end(store, self.runs)
        self._lines = [line async for line in export_run(store, "default", R)]
        log = await store.read(R, limit=5000)
        await store.close()
        return log

    async def copy(self, way: str, events: int, there: Path) -> Store:
        """The run after so many events, on another machine."""
        there.mkdir(parents=True)
        if way == "rebuild":
            left = there / "left"
            shutil.copytree(self.runs / R, left / R)
            log = left / R / "logs" / "events.jsonl"
            log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:events]))
            (left / R / "state.json").unlink()
            shutil.move(left / R, there / "runs" / R)
            store = await SqliteStore.open(there / "runs" / "podium.db")
            rebuilt = await rebuild_store(store, there / "runs", payload_store)
            assert [(one.events, one.notes) for one in rebuilt] == [(events, ())], rebuilt
            return store
        store = await SqliteStore.open(there / "runs" / "podium.db")
        await store_export(store, read_export(self._cut(events)))
        if way == "export":
            return store
        await store.claim(R, owner="a driver of the original", ttl=_LONG)
        await store.backup(there / "copy.db")
        await store.close()
        return await SqliteStore.open(there / "copy.db")

    def _cut(self, events: int) -> Iterator[bytes]:
        header: dict[str, Any] = msgspec.json.decode(self._lines[0])
        whole = header["events"]
        yield msgspec.json.encode({**header, "events": events})
        yield from self._lines[1 : 1 + events]
        yield from self._lines[1 + whole :]


async def to_its_end(store: Store, runs: Path) -> None:
    """Drive it, and say yes to whatever it asks."""
    while True:
        engine = local_engine(store, system_clock(), runs)
        ended = await engine.drive(R, no_wait=True)
        if ended.event_type != LEFT:
            return
        await send_signal(store, system_clock(), "default", R, "APPROVE", {"stepId": "Q"}, access=owner())


async def check(folder: Path, name: str, cuts: slice = slice(None)) -> int:
    """Compare every copy with the original; how many there were."""
    original = Original(folder / "original", name)
    log = await original.run()
    checked = 0
    for events in list(range(1, len(log)))[cuts]:
        for way in WAYS:
            there = folder / f"{way}-{events}"
            store = await original.copy(way, events, there)
            await to_its_end(store, there / "runs")
            copied = await store.read(R, limit=5000)
            assert canonical(original.plan, copied) == canonical(original.plan, log), (
                f"{name}: {way} after event {events}"
            )
            assert (there / "runs" / R / "state.json").exists()
            assert await store.problems() == []
            await store.close()
            checked += 1
    return checked


def main() -> int:
    for name in WORKFLOWS:
        with tempfile.TemporaryDirectory() as folder:
            print(
                f"{name}: {asyncio.run(check(Path(folder), name))} copies continue to the same end",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
