"""What becomes of a step's output: the capped text, lines or JSON, what it must contain, the values it leaves."""

import json
from pathlib import Path
from typing import Any, Final

from podium.core.json_schema import schema_problem
from podium.errors import PodiumError
from podium.model.plan import Work
from podium.runtime.rundir import RunDirectory, inside

# What `capture: lines` and `capture: json` read at most.
_MOST_CAPTURED: Final = 1024 * 1024
_STDERR_TAIL: Final = 2000
_MOST_VALUES: Final = 64 * 1024


class NotAsExpected(PodiumError):
    """The step has run, and what it left is not what was asked for."""

    code = "EXPECTATION_FAILED"


def capture(output: Path, work: Work, most: int) -> dict[str, Any]:
    """The facts about an output for the log. Raises `NotAsExpected` if it cannot be read as asked."""
    size = output.stat().st_size if output.exists() else 0
    limit = most
    if work.limits is not None and work.limits.max_output_size is not None:
        limit = work.limits.max_output_size
    text = _read(output, limit)
    facts: dict[str, Any] = {"output": text}
    if size > limit:
        facts |= {"truncated": True, "outputBytes": size}
    if work.capture == "text":
        return facts
    if size > _MOST_CAPTURED:
        raise NotAsExpected(
            f"the output has {size} bytes; `capture: {work.capture}` reads at most {_MOST_CAPTURED}"
        )
    whole = _read(output, _MOST_CAPTURED)
    if work.capture == "lines":
        return {**facts, "lines": whole.splitlines()}
    return {**facts, "json": parse_json(whole)}


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAsExpected(f"the output is no JSON: {error}") from error


def check_expected(work: Work, facts: dict[str, Any], files: list[str], directory: RunDirectory) -> None:
    """Raises `NotAsExpected` unless everything is there that the step promised."""
    if work.expect is None:
        return
    for name in files:
        if not inside(directory.artifacts, name, what="expected file").exists():
            raise NotAsExpected(f"the step did not write {name!r} into the artifacts")
    if work.expect.schema is not None:
        if "json" not in facts:
            facts["json"] = parse_json(str(facts.get("output", "")))
        problem = schema_problem(facts["json"], work.expect.schema)
        if problem is not None:
            raise NotAsExpected(f"the result does not fit its schema: {problem}")


def values_left(file: Path) -> dict[str, str]:
    """The `key=value` lines that a step wrote to $PODIUM_OUTPUT."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_VALUES).decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value for key, _, value in pairs}


def tail_of(file: Path) -> str:
    """The end of what was written to standard error: where the reason usually stands."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(0, opened.tell() - _STDERR_TAIL))
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _read(file: Path, most: int) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
