"""What the end of a run mentions besides its outcome: steps that failed although the run completed, and
warnings.
"""

from typing import Final

from podium.log.notes import RunNotes
from podium.text import visible

_MAX_NAMED: Final = 3


def failed_steps(notes: RunNotes) -> str:
    """`1 step failed: A (exit code 3)`; empty if none did."""
    failed = notes.failed_steps()
    if not failed:
        return ""
    named = ", ".join(f"{visible(path)} ({visible(notes.failed[path])})" for path in failed[:_MAX_NAMED])
    more = f" and {len(failed) - _MAX_NAMED} more" if len(failed) > _MAX_NAMED else ""
    return f"{len(failed)} step{'s' * (len(failed) > 1)} failed: {named}{more}"


def warnings_of(notes: RunNotes) -> list[str]:
    """The first few, each with its step, and how many more there are."""
    more = notes.warning_count - len(notes.warnings)
    named = [f"step {visible(repr(one.path))}: {visible(one.text)}" for one in notes.warnings]
    return [*named, *([f"{more} more warnings"] if more else [])]
