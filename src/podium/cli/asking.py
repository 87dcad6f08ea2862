"""Approvals at the terminal that a run is shown on (D29). From elsewhere they can be given all the same."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from podium.errors import PodiumError
from podium.language.diagnostics import visible
from podium.model.events import EventRecord, EventType, RunIdentity
from podium.model.ids import RunId
from podium.operations.signals import send_signal
from podium.ports.store import Store
from podium.wiring import system_clock

_ANSWERS: Final = {"y": "APPROVE", "yes": "APPROVE", "n": "REJECT", "no": "REJECT"}
_ENDS_OF_STEPS: Final = frozenset(
    {EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_SKIPPED, EventType.STEP_INTERRUPTED}
)
_ENDS_OF_RUNS: Final = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED})


class Questions:
    """Looks on, and asks whenever one approval is the only thing that is waited for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._run: RunIdentity | None = None
        self._asked: set[str] = set()
        self._running: set[str] = set()
        self._listening = False
        self._sending: set[asyncio.Task[None]] = set()

    async def catch_up(self, run_id: RunId) -> None:
        """What was asked before this process looked on."""
        after = 0
        while records := await self._store.read(run_id, after=after, limit=5000):
            after = records[-1].run_seq
            for record in records:
                self._take(record)
        self._listen(self._may_ask())

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            self._take(record)
        self._listen(self._may_ask())

    def _take(self, record: EventRecord) -> None:
        self._run = record.run
        step = record.step_id
        if record.event_type in _ENDS_OF_RUNS:
            self._asked.clear()
            self._running.clear()
        elif step is None:
            return
        elif record.event_type == EventType.STEP_STARTED:
            payload = msgspec.json.decode(record.payload)
            if "approval" not in payload:
                self._running.add(step)
            else:
                self._asked.add(step)
        elif record.event_type in _ENDS_OF_STEPS:
            self._running.discard(step)
            self._asked.discard(step)

    def _may_ask(self) -> bool:
        """Only one waits, and nothing runs but what it stands in."""
        if len(self._asked) != 1:
            return False
        (step,) = self._asked
        return all(step.startswith((f"{running}/", f"{running}[")) for running in self._running)

    def _listen(self, wanted: bool) -> None:
        if wanted == self._listening:
            return
        self._listening = wanted
        loop = asyncio.get_running_loop()
        if not wanted:
            loop.remove_reader(sys.stdin.fileno())
            return
        loop.add_reader(sys.stdin.fileno(), self._answered)
        click.echo(f"{visible(*self._asked)}: approve? [y/n]")

    def _answered(self) -> None:
        """A line is there. It may be the end of the input: then nobody answers here any more."""
        line = os.read(sys.stdin.fileno(), 1000).decode(errors="replace")
        answer = _ANSWERS.get(line.strip().lower())
        if not line:
            self._listen(False)
        elif answer is not None and self._run is not None and self._asked:
            step = next(iter(self._asked))
            signal = asyncio.ensure_future(self._send(self._run, answer, step))
            self._sending.add(signal)
            signal.add_done_callback(self._sending.discard)
        else:
            click.echo("please answer y or n")

    async def _send(self, run: RunIdentity, answer: str, step: str) -> None:
        with contextlib.suppress(PodiumError):
            await send_signal(
                self._store, system_clock(), run.tenant_id, run.run_id, answer, {"stepId": step}
            )
