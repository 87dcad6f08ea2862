"""`run.json` in a run's directory: what the store knows of the run besides its events.

It is written once, when the run is created, for `podium store rebuild`. Directories of earlier versions have none; then
the same is read from the events, as far as they have it.
"""

from typing import Any, Final

import msgspec

from podium.log.events import RunIdentity
from podium.log.runs import NewRun, Run
from podium.log.times import Timestamp
from podium.runtime.rundir import RunDirectory, write_atomically

_NAME: Final = "run.json"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run without its events."""

    run: RunIdentity
    run_request_id: str
    priority: int
    concurrency_key: str | None
    plan_sha256: str
    inputs_sha256: str
    metadata: dict[str, Any]
    created_at: Timestamp | None = None


def facts_of(run: Run) -> RunFacts:
    return RunFacts(
        run=run.identity,
        run_request_id=run.run_request_id,
        priority=run.priority,
        concurrency_key=run.concurrency_key,
        plan_sha256=run.plan_sha256,
        inputs_sha256=run.inputs_sha256,
        metadata=msgspec.json.decode(run.metadata),
        created_at=run.created_at,
    )


def new_run(facts: RunFacts) -> NewRun:
    """To be created again, elsewhere."""
    return NewRun(
        identity=facts.run,
        run_request_id=facts.run_request_id,
        plan_sha256=facts.plan_sha256,
        inputs_sha256=facts.inputs_sha256,
        concurrency_key=facts.concurrency_key,
        priority=facts.priority,
        metadata=msgspec.json.encode(facts.metadata),
        created_at=facts.created_at,
    )


def write_run_file(directory: RunDirectory, run: Run) -> None:
    content = msgspec.json.format(msgspec.json.encode(facts_of(run)))
    write_atomically(directory.path / _NAME, content, durable=False)


def read_run_file(directory: RunDirectory) -> RunFacts | None:
    """None if there is none that can be read."""
    try:
        return msgspec.json.decode((directory.path / _NAME).read_bytes(), type=RunFacts)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
