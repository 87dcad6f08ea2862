"""The output of a run's steps, in the order in which it was written."""

import asyncio
import codecs
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from podium.language.diagnostics import did_you_mean
from podium.log.transitions import TERMINAL
from podium.operations.inputs import InvalidInput
from podium.operations.parts import Parts
from podium.operations.run_logs import LATE_SECONDS, is_shared, logs_of
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Plan
from podium.ports.logs import LogName, RunLogs, StoredLog
from podium.runtime.rundir import file_name
from podium.text import visible

_PIECE: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
# In a bucket, where every check is a request.
_LOOK_SHARED_SECONDS: Final = 1.0
# What is shown of a visit: the kinds of its files, and their labels. For a watched agent, what it did and
# answered; the raw output of its program is for programs.
PRINTED: Final = {"out": "", "err": " (stderr)"}
OF_AN_AGENT: Final = {"progress": "", "txt": " (answer)", "err": " (stderr)"}


class LogPart(NamedTuple):
    """What one attempt of a step has written since the last check."""

    step: str
    attempt: int
    # Which of its outputs; empty for the default one.
    kind: str
    logs: RunLogs
    name: LogName
    start: int
    end: int

    async def pieces(self) -> AsyncIterator[str]:
        """In chunks, because a log may be large, and a line very long."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        at = self.start
        while at < self.end and (piece := await self.logs.read(self.name, at, min(self.end - at, _PIECE))):
            at += len(piece)
            yield decoder.decode(piece)


async def read_logs(
    parts: Parts,
    tenant_id: str,
    run_id: str,
    step: str | None = None,
    *,
    raw: bool = False,
    follow: bool = False,
) -> AsyncIterator[LogPart]:
    """The output of all steps, or of one; with `follow` until the run has ended. Raises `InvalidInput` for an
    unknown step.

    `raw`: for agents, also everything that their programs wrote.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    await parts.restored(run)
    if step is not None:
        check_step(step, await parts.plan_of(run))
    logs, shared = await logs_of(parts, run), is_shared(parts, run)
    seen: dict[LogName, int] = {}
    is_followed = follow
    while True:
        was_over = run.status in TERMINAL
        for part in new_parts(logs, await logs.list(), step, seen, raw=raw):
            yield part
        if not is_followed or (was_over and not shared):
            return
        # What was written just before the end of the run may not have reached the bucket yet.
        is_followed = not was_over
        await asyncio.sleep(LATE_SECONDS if was_over else _LOOK_SHARED_SECONDS if shared else _LOOK_SECONDS)
        run = await parts.store.runs.find(tenant_id, run_id)


def new_parts(
    logs: RunLogs, listed: Sequence[StoredLog], step: str | None, seen: dict[LogName, int], *, raw: bool
) -> list[LogPart]:
    wanted = None if step is None else file_name(step)
    watched = {(log.name.step, log.name.attempt) for log in listed if log.name.kind == "progress"}
    found = []
    for name, size, _ in sorted(listed, key=lambda log: log.modified):
        kinds = OF_AN_AGENT if not raw and (name.step, name.attempt) in watched else PRINTED
        start = seen.get(name, 0)
        if name.kind not in kinds or (wanted is not None and name.step != wanted) or size == start:
            continue
        seen[name] = size
        # Shorter than before: rewritten by a process that has resumed the run.
        shown = name.step.replace("~", "/")
        since = start if start < size else 0
        found.append(LogPart(shown, name.attempt, kinds[name.kind], logs, name, since, size))
    return found


def is_of_an_agent(file: Path) -> bool:
    """Whether it belongs to a visit of a watched agent, which reports its progress."""
    return file.with_suffix(".progress").exists()


def check_step(step: str, plan: Plan) -> None:
    """Accepts a step of the plan, with any visit and iteration; raises for any other name."""
    known = [path for path, _ in walk(plan.workflow)]
    if plan_path(step) in known:
        return
    inside = [path for path in known if path.rpartition("/")[2] == step]
    near = did_you_mean(step, [*known, *inside])
    listed = ", ".join(visible(path) for path in known[:10]) + (", ..." if len(known) > 10 else "")
    hint = f"Did you mean '{visible(inside[0])}'?" if inside else near
    raise InvalidInput(
        " ".join(filter(None, (f"step {step!r} not found in this run.", hint, f"Its steps: {listed}.")))
    )
