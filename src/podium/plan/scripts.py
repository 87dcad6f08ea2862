"""Scripts of `shell` steps: a plan has them as commands of `sh`, and each value as a variable of the step."""

import re
from typing import Final

from podium.expressions.evaluate import unparse_reference
from podium.expressions.types import Reference, Template
from podium.patterns import lazy_pattern
from podium.plan.plan import Command

SHELL: Final = ("sh", "-eu", "-c")
# Every child's `PODIUM_*` variables are documented one by one; these are not for the author of a workflow.
VARIABLE: Final = "_podium_{}"
_VARIABLES: Final = lazy_pattern(r"\$\{(_podium_[0-9]+)\}")


def script_in(command: Command) -> str | None:
    """The script as it was written, with `${...}` for values; None if the command is none."""
    if command.argv[:-1] != SHELL or not isinstance(script := command.argv[-1], str):
        return None

    def written(found: re.Match[str]) -> str:
        match command.work.env.get(found[1]):
            case Template(parts=(Reference() as reference,)):
                return unparse_reference(reference)
            case _:
                return found[0]

    return _VARIABLES.sub(written, script)
