"""Approvals at the terminal that shows a run (D29). They can also be given from elsewhere."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from shlex import quote
from typing import Any, Final, TypeAlias

import click

from podium.cli.hints import say
from podium.errors import PodiumError
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.notes import RunNotes
from podium.log.payloads import Question, StepStarted, payload_of
from podium.log.transitions import RUN_ENDS, STEP_ENDS
from podium.operations.form_hints import describe_field, field_options
from podium.plan.declared import problem_of, read_text
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Approval, FormField, Plan
from podium.text import visible

_ANSWERS: Final = {"y": "APPROVE", "yes": "APPROVE", "n": "REJECT", "no": "REJECT"}
_ANSWERS_IN_DOUBT: Final = {**_ANSWERS, "r": "RETRY_STEP", "s": "SKIP_STEP"}
_DETAILS: Final = frozenset({"d", "details", "?"})

# Sends a signal: tenant, run, type, the fields of a form, and the rest of its payload.
Answer: TypeAlias = Callable[..., Awaitable[Any]]
# Shows the question about a step until it is called again; None: there is no question.
Ask: TypeAlias = Callable[[str | None, str], None]


def print_question(step: str | None, prompt: str) -> None:
    if step is not None:
        click.echo(f"{visible(step)}: {prompt}")


class FormFilling:
    """The fields of a form, one line each."""

    def __init__(self, form: Mapping[str, FormField]) -> None:
        self._open = list(form.items())
        self.values: dict[str, str] = {}

    @property
    def prompt(self) -> str | None:
        """None if everything was answered."""
        if not self._open:
            return None
        name, field = self._open[0]
        return f"{visible(name)} ({describe_field(field)}):"

    def take(self, line: str) -> str:
        """What is wrong with the answer; empty if the next field follows."""
        name, field = self._open[0]
        if not line and field.required:
            return "this field is required"
        if line and (problem := problem_of(read_text(line, field), field)):
            return f"the field {visible(repr(name))} {visible(problem)}"
        del self._open[0]
        if line:
            self.values[name] = line
        return ""


class Questions:
    """An observer that asks whenever a single approval is the only thing that the run waits for."""

    def __init__(
        self, answer: Answer, plan: Plan, typed: Callable[[str], None], ask: Ask = print_question
    ) -> None:
        self._answer = answer
        # Called with what the terminal has echoed.
        self._typed = typed
        self._show = ask
        self._forms = {
            path: step.body.form for path, step in walk(plan.workflow) if isinstance(step.body, Approval)
        }
        self._run: RunIdentity | None = None
        self._asked: dict[str, Question] = {}
        self._running: set[str] = set()
        # The step of the current question, while it waits; and its form, once that is being filled in.
        self._about: str | None = None
        self._filling: FormFilling | None = None
        # A doubtful step, if only a person can continue the run by answering for it.
        self._in_doubt: str | None = None
        self._is_over = False
        self._sending: set[asyncio.Task[None]] = set()

    def recall(self, run: RunIdentity, notes: RunNotes) -> None:
        """Restore the questions from before this process observed the run."""
        self._run = run
        self._asked = {path: Question(message) for path, message in notes.questions.items()}
        self._running = set(notes.running)
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
            question = payload_of(record, StepStarted).approval
            if question is not None:
                self._asked[step] = question
            else:
                self._running.add(step)
        elif record.event_type in STEP_ENDS:
            self._running.discard(step)
            self._asked.pop(step, None)

    def _only_one(self) -> str | None:
        """The step that waits for a person, if there is only one and nothing else runs except what contains
        it.
        """
        if self._in_doubt is not None or len(self._asked) != 1:
            return self._in_doubt
        (step,) = self._asked
        inside = all(step.startswith((f"{running}/", f"{running}[")) for running in self._running)
        return step if inside else None

    def _ask(self, step: str | None) -> None:
        if step == self._about or self._is_over:
            return
        loop, before, self._about = asyncio.get_running_loop(), self._about, step
        self._filling = None
        if step is None:
            loop.remove_reader(sys.stdin.fileno())
        elif before is None:
            loop.add_reader(sys.stdin.fileno(), self._answered)
        self._show(step, self._prompt(step) if step is not None else "")

    def _prompt(self, step: str) -> str:
        if step == self._in_doubt:
            return "did it happen? [y/n, r: run it again, s: leave it out]"
        # One line in the tree; `details` shows all of them.
        message = " ".join(self._asked[step].message.splitlines())
        return f"waiting for your approval: {visible(message)} [y/n/details]"

    def _answered(self) -> None:
        """A line was entered, or the input has ended: then there will be no more answers from here."""
        try:
            line = os.read(sys.stdin.fileno(), 1000).decode(errors="replace")
        except OSError:  # The terminal is gone.
            line = ""
        if not line:
            # Checked before anything is shown: at the end of input the terminal stays readable forever, but
            # perhaps not writable.
            self._ask(None)
            self._is_over = True
            return
        self._typed(line)
        if self._about is None or self._run is None:
            return
        if self._filling is not None:
            self._take_value(self._about, self._filling, line.strip())
        else:
            self._take_answer(self._about, line.strip().lower())

    def _take_answer(self, step: str, line: str) -> None:
        is_doubt = step == self._in_doubt
        answers = _ANSWERS_IN_DOUBT if is_doubt else _ANSWERS
        answer = answers.get(line)
        if line in _DETAILS and not is_doubt:
            self._print_details(step)
        elif answer is None:
            click.echo(f"please answer {' or '.join(key for key in answers if len(key) == 1)}")
        elif answer == "APPROVE" and not is_doubt and self._form(step):
            self._filling = FormFilling(self._form(step))
            self._fill(step, self._filling)
        else:
            self._send_soon(answer, step)

    def _take_value(self, step: str, filling: FormFilling, line: str) -> None:
        if problem := filling.take(line):
            click.echo(problem)
        self._fill(step, filling)

    def _fill(self, step: str, filling: FormFilling) -> None:
        if filling.prompt is not None:
            self._show(step, filling.prompt)
            return
        self._filling = None
        self._show(step, self._prompt(step))
        self._send_soon("APPROVE", step, filling.values)

    def _form(self, step: str) -> Mapping[str, FormField]:
        return self._forms.get(plan_path(step), {})

    def _print_details(self, step: str) -> None:
        """Print the complete question, and how to answer from another terminal."""
        question, form = self._asked[step], self._form(step)
        first, *more = question.message.splitlines() or [""]
        click.echo(f"{visible(step)}: {visible(first)}")
        for line in more:
            click.echo(f"  {visible(line)}".rstrip())
        if question.assignee:
            click.echo(f"  for      {visible(question.assignee)}")
        for name, field in form.items():
            click.echo(f"  field    {visible(name)} ({describe_field(field)})")
        assert self._run is not None
        run_id, named = self._run.run_id, visible(quote(step))
        say(f"  context  `podium logs {run_id}`, `podium report {run_id}`")
        options = visible(field_options(form))
        say(f"  approve  `{f'podium approve {run_id} {named} {options}'.rstrip()}`")
        say(f"  reject   `podium reject {run_id} {named}`")

    def _send_soon(self, answer: str, step: str, fields: Mapping[str, str] | None = None) -> None:
        assert self._run is not None
        sending = asyncio.ensure_future(self._send(self._run, answer, step, fields))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _send(self, run: RunIdentity, answer: str, step: str, fields: Mapping[str, str] | None) -> None:
        try:
            await self._answer(run.tenant_id, run.run_id, answer, fields, stepId=step)
        except PodiumError as refusal:
            say(f"{refusal.code}: {visible(str(refusal))}", err=True)
