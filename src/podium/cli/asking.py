"""Approvals at the terminal that a run is shown on (D29). From elsewhere they can be given all the same."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from shlex import quote
from typing import Any, Final, TypeAlias

import click

from podium.cli.hints import say
from podium.errors import PodiumError
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.notes import RunNotes
from podium.log.payloads import StepStarted, payload_of
from podium.log.transitions import RUN_ENDS, STEP_ENDS
from podium.operations.form_hints import field_options
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Approval, Plan
from podium.text import visible

_ANSWERS: Final = {"y": "APPROVE", "yes": "APPROVE", "n": "REJECT", "no": "REJECT"}
_ANSWERS_IN_DOUBT: Final = {**_ANSWERS, "r": "RETRY_STEP", "s": "SKIP_STEP"}

# Sends a signal: tenant, run, type, and the fields of its payload.
Answer: TypeAlias = Callable[..., Awaitable[Any]]


class Questions:
    """Looks on, and asks whenever one approval is the only thing that is waited for."""

    def __init__(self, answer: Answer, plan: Plan, typed: Callable[[int], None]) -> None:
        self._answer = answer
        # Called with the number of lines that the terminal has echoed.
        self._typed = typed
        # The options that fill in a form, for those that need more than a yes.
        self._needed = {
            path: field_options(step.body.form)
            for path, step in walk(plan.workflow)
            if isinstance(step.body, Approval)
        }
        self._run: RunIdentity | None = None
        self._asked: set[str] = set()
        self._running: set[str] = set()
        # The step that was asked about last, while it waits.
        self._about: str | None = None
        # A step that may have happened, if a person can say so and nothing else moves the run.
        self._in_doubt: str | None = None
        self._is_over = False
        self._sending: set[asyncio.Task[None]] = set()

    def recall(self, run: RunIdentity, notes: RunNotes) -> None:
        """What was asked before this process looked on."""
        self._run = run
        self._asked, self._running = set(notes.questions), set(notes.running)
        self._ask(self._only_one())

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            self._take(record)
        self._ask(self._only_one())

    def doubt(self, run: RunIdentity, step: str | None) -> None:
        self._run, self._in_doubt = run, step
        self._ask(self._only_one())

    def _take(self, record: EventRecord) -> None:
        self._run = record.run
        step = record.step_id
        if record.event_type in RUN_ENDS:
            self._asked.clear()
            self._running.clear()
        elif step is None:
            return
        elif record.event_type == EventType.STEP_STARTED:
            asks = payload_of(record, StepStarted).approval is not None
            (self._asked if asks else self._running).add(step)
        elif record.event_type in STEP_ENDS:
            self._running.discard(step)
            self._asked.discard(step)

    def _only_one(self) -> str | None:
        """The step that waits for a person, if only one does and nothing runs but what it stands in."""
        if self._in_doubt is not None or len(self._asked) != 1:
            return self._in_doubt
        (step,) = self._asked
        inside = all(step.startswith((f"{running}/", f"{running}[")) for running in self._running)
        return step if inside else None

    def _ask(self, step: str | None) -> None:
        if step == self._about or self._is_over:
            return
        loop, before, self._about = asyncio.get_running_loop(), self._about, step
        if step is None:
            loop.remove_reader(sys.stdin.fileno())
            return
        if before is None:
            loop.add_reader(sys.stdin.fileno(), self._answered)
        if step == self._in_doubt:
            click.echo(f"{visible(step)}: did it happen? [y/n, r: run it again, s: leave it out]")
            return
        needed = self._needed.get(plan_path(step))
        if needed and self._run is not None:
            say(
                f"{visible(step)}: `podium approve {self._run.run_id} {visible(quote(step))} {visible(needed)}`"
            )
        else:
            click.echo(f"{visible(step)}: approve? [y/n]")

    def _answered(self) -> None:
        """A line is there, or the end of the input: then no more answers come from here."""
        try:
            line = os.read(sys.stdin.fileno(), 1000).decode(errors="replace")
        except OSError:  # The terminal is gone.
            line = ""
        if not line:
            # Before anything is shown: what is at its end is readable for ever, and can perhaps not be written to.
            self._ask(None)
            self._is_over = True
            return
        self._typed(line.count("\n"))
        answers = _ANSWERS_IN_DOUBT if self._about is not None and self._about == self._in_doubt else _ANSWERS
        answer = answers.get(line.strip().lower())
        if self._about is None or self._run is None:
            return
        if answer is None:
            click.echo(f"please answer {' or '.join(key for key in answers if len(key) == 1)}")
        elif answer == "APPROVE" and self._needed.get(plan_path(self._about)):
            click.echo("this approval has required fields; use `podium approve ... --field NAME=VALUE`")
        else:
            sending = asyncio.ensure_future(self._send(self._run, answer, self._about))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send(self, run: RunIdentity, answer: str, step: str) -> None:
        try:
            await self._answer(run.tenant_id, run.run_id, answer, stepId=step)
        except PodiumError as refusal:
            say(f"{refusal.code}: {visible(str(refusal))}", err=True)
