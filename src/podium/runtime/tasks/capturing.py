"""Processing of a step's output: truncated text, lines or JSON, checks of expectations, and values that it
sets.
"""

import math
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from podium.errors import PodiumError
from podium.log.events import MAX_PAYLOAD_BYTES
from podium.plan.plan import Limits, Work, Workflow
from podium.runtime.rundir import RunDirectory, inside
from podium.runtime.tasks.caps import cap_of, too_large
from podium.runtime.tasks.cutting import cut_bytes
from podium.runtime.tasks.output import STDERR_TAIL, Output

# The maximum that `capture: lines` and `capture: json` read.
MAX_CAPTURED: Final = 1024 * 1024
_MAX_VALUES: Final = 64 * 1024


class NotAsExpected(PodiumError):
    """The step has run, but its result does not meet its expectations."""

    code = "EXPECTATION_FAILED"


def most_shown(work: Work, workflow: Workflow) -> int:
    """How many bytes of the output are recorded in the event."""
    own = work.limits.max_output_size if work.limits is not None else None
    return min(own if own is not None else workflow.max_output_size, MAX_PAYLOAD_BYTES)


def most_kept(work: Work, workflow: Workflow) -> int:
    """How many bytes of the output have to be available when the step has ended."""
    # One byte more than is shown, to find out whether the last line is complete.
    shown = most_shown(work, workflow) + 1
    return shown if work.capture == "text" and not _has_schema(work) else max(shown, MAX_CAPTURED)


def shown_facts(output: Output, most: int) -> dict[str, Any]:
    """The output as it is in the event."""
    facts: dict[str, Any] = {"output": output.text(most)}
    if output.size > most:
        facts |= {"truncated": True, "outputBytes": output.size}
    return facts


def text_facts(text: str, most: int) -> dict[str, Any]:
    """A text that is completely available, as it is in the event."""
    content = text.encode("utf-8", "replace")
    if len(content) <= most:
        return {"output": content.decode()}
    return {"output": cut_bytes(content[: most + 1], most), "truncated": True, "outputBytes": len(content)}


def captured_facts(output: Output, work: Work) -> dict[str, Any]:
    """The output for `${steps.X.lines}` and `.json`. Raises `NotAsExpected` if it cannot be parsed."""
    if work.capture == "text":
        return {}
    whole = _whole(output, f"`capture: {work.capture}`")
    return {"lines": lines_of(whole)} if work.capture == "lines" else {"json": parse_json(whole)}


def _whole(output: Output, who: str) -> str:
    if output.size > MAX_CAPTURED:
        raise NotAsExpected(f"the output has {output.size} bytes; {who} reads at most {MAX_CAPTURED}")
    return output.text(MAX_CAPTURED)


def lines_of(text: str) -> list[str]:
    # Only line feeds: `splitlines` would also split at rarer characters such as U+2028.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def parse_json(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_constant=_no_json, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise NotAsExpected(f"the output is not JSON: {error}") from error


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(digits: str) -> float:
    """Infinity cannot be recorded: it would become null."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def check_files(files: Sequence[str], directory: RunDirectory, limits: Limits | None) -> None:
    """Raises `NotAsExpected` unless the step has created the files it promised, `ArtifactTooLarge` if one is
    too large.
    """
    for name in files:
        found = inside(directory.artifacts, name, what="expected file")
        if not found.exists():
            raise NotAsExpected(f"the step did not write {name!r} into the artifacts")
        if (size := _size_of(found)) > (cap := cap_of("artifact", limits)):
            raise too_large(name, size, cap)


def _size_of(path: Path) -> int:
    """The size of a file, or of all files below a folder; links are not followed."""
    if not path.is_dir():
        return path.stat().st_size
    found = (file.lstat() for file in path.rglob("*"))
    return sum(one.st_size for one in found if stat.S_ISREG(one.st_mode))


def check_schema(work: Work, facts: dict[str, Any], output: Output | None = None) -> None:
    """Raises `NotAsExpected` unless the result fits its schema; it is parsed as JSON for that."""
    if work.expect is None or work.expect.schema is None:
        return
    if "json" not in facts:
        text = _whole(output, "`expect.schema`") if output is not None else str(facts.get("output", ""))
        facts["json"] = parse_json(text)
    # Imported with the first schema.
    from podium.expressions.json_schema import schema_problem

    problem = schema_problem(facts["json"], work.expect.schema)
    if problem is not None:
        raise NotAsExpected(f"the result does not fit its schema: {problem}")


def _has_schema(work: Work) -> bool:
    return work.expect is not None and work.expect.schema is not None


def take_values(file: str) -> dict[str, str]:
    """The `key=value` lines that a step wrote to $PODIUM_OUTPUT. The file is removed, because it may contain
    secrets.
    """
    try:
        # A pipe in its place must not block us, and a link must not be followed.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotAsExpected(
            f"what the step wrote to $PODIUM_OUTPUT cannot be read: {error.strerror}"
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotAsExpected("$PODIUM_OUTPUT is no longer a file")
    with os.fdopen(handle, "rb") as opened:
        content = opened.read(_MAX_VALUES + 1)
    Path(file).unlink(missing_ok=True)
    if len(content) > _MAX_VALUES:
        raise NotAsExpected(f"the step wrote more than {_MAX_VALUES} bytes to $PODIUM_OUTPUT")
    pairs = (line.partition("=") for line in lines_of(content.decode("utf-8", "replace")) if "=" in line)
    return {key.strip(): value for key, _, value in pairs if key.strip()}


def tail_of(file: Path) -> str:
    """The end of a log, which usually contains the reason of a failure."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(0, opened.tell() - STDERR_TAIL))
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return ""
