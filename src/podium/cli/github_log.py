"""A run in the log of GitHub Actions: each step that has ended is a group with its output, failures are
marked.

Output of steps is not interpreted: the log's own commands are disabled around it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from podium.cli.progress import Lines, line_of, print_reuse, retried_steps
from podium.cli.reporting import annotation
from podium.log.events import EventRecord, EventType
from podium.log.payloads import StepEnd, payload_of
from podium.runtime.tasks.capturing import tail_of
from podium.text import visible


class GithubLog(Lines):
    is_for_people = True

    def __init__(self, runs: Path) -> None:
        super().__init__(runs, stream=False)

    def observe(self, records: Sequence[EventRecord]) -> None:
        self.take_notes(records)
        retried = retried_steps(records)
        for record in records:
            line = line_of(record, retried)
            if line is None:
                continue
            if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED):
                self._print_group(line, record)
            elif record.event_type != EventType.STEP_STARTED:
                click.echo(line)
            is_final = (record.step_id or "", record.logical_attempt_id) not in retried
            if record.event_type == EventType.STEP_FAILED and is_final:
                click.echo(annotation("error", record.step_id or "", payload_of(record, StepEnd).failure))
        print_reuse(records)

    def _print_group(self, line: str, record: EventRecord) -> None:
        printed = [text for file in self._files(record) for text in tail_of(file).splitlines()]
        if not printed:
            click.echo(line)
            return
        token = os.urandom(16).hex()
        click.echo(f"::group::{line.splitlines()[0]}\n::stop-commands::{token}")
        for text in printed:
            click.echo(visible(text))
        click.echo(f"::{token}::\n::endgroup::")
