"""What the steps of a run wrote: the files of its directory, in the order in which they were written."""

import asyncio
import codecs
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from podium.language.diagnostics import did_you_mean
from podium.log.transitions import TERMINAL
from podium.operations.inputs import InvalidInput
from podium.operations.parts import Parts
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Plan
from podium.runtime.rundir import RunDirectory, file_name
from podium.text import visible

_PIECE: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
# What is shown of a visit: the kinds of its files, and how they are called. Of an agent that is watched what it did and
# answered; what its program wrote is for programs.
_PRINTED: Final = {"out": "", "err": " (stderr)"}
_OF_AN_AGENT: Final = {"progress": "", "txt": " (answer)", "err": " (stderr)"}


class LogPart(NamedTuple):
    """What one attempt of a step has written since the last look."""

    step: str
    attempt: str
    # Which of its outputs; empty for the usual one.
    kind: str
    file: Path
    start: int
    end: int

    def pieces(self) -> Iterator[str]:
        """Piece by piece: a log may be large, and a line endless."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        left = self.end - self.start
        with self.file.open("rb") as opened:
            opened.seek(self.start)
            while left > 0 and (piece := opened.read(min(left, _PIECE))):
                left -= len(piece)
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
    """All of it, or of one step; with `follow` until the run has ended. Raises `InvalidInput` for an unknown step.

    `raw`: of agents, too, all that their programs wrote.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    directory = await parts.restored(run)
    if step is not None:
        _check_step(step, await parts.plan_of(run))
    seen: dict[Path, int] = {}
    while True:
        is_last = not follow or run.status in TERMINAL
        for part in _new_parts(directory, step, seen, raw=raw):
            yield part
        if is_last:
            return
        await asyncio.sleep(_LOOK_SECONDS)
        run = await parts.store.runs.find(tenant_id, run_id)


def _new_parts(
    directory: RunDirectory, step: str | None, seen: dict[Path, int], *, raw: bool
) -> Iterator[LogPart]:
    wanted = None if step is None else file_name(step)
    for file in sorted(directory.steps.glob("*"), key=lambda file: file.stat().st_mtime_ns):
        name, _, kind = file.name.rpartition(".")
        base, _, attempt = name.rpartition(".")
        kinds = _OF_AN_AGENT if not raw and is_of_an_agent(file) else _PRINTED
        if kind not in kinds or (wanted is not None and base != wanted):
            continue
        size, start = file.stat().st_size, seen.get(file, 0)
        if size == start:
            continue
        seen[file] = size
        # Shorter than before: written again, by a process that has resumed the run.
        yield LogPart(base.replace("~", "/"), attempt, kinds[kind], file, start if start < size else 0, size)


def is_of_an_agent(file: Path) -> bool:
    """Whether it belongs to a visit of an agent that is watched: one that tells how far it is."""
    return file.with_suffix(".progress").exists()


def _check_step(step: str, plan: Plan) -> None:
    """A step of the plan, at whatever visit and iteration; a name that is none of them is a mistake."""
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
