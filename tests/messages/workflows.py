"""Workflows, and what `podium validate` prints about each."""

from typing import Final

from podium.plan.plan import MAX_NESTING
from tests.messages.corpus import Corpus

_HEAD: Final = "version: '2.0'\nname: Made\nsteps:\n"


def _nested(levels: int) -> str:
    """A group in a group in a group."""
    lines = []
    for level in range(levels):
        indent = "  " * (2 * level)
        lines += [f"{indent}- name: Level {level}", f"{indent}  steps:"]
    indent = "  " * (2 * levels)
    return "\n".join([*lines, f"{indent}- {{name: Innermost, command: [make]}}", ""])


def _greeting(expression: str) -> str:
    return f'- name: Greet\n  when:\n    expr: "{expression}"\n  command: [echo, hello]\n'


_GENERATED: Final = {
    "bounds_name_is_too_long": f"- name: {'very ' * 50}long\n  command: [make]\n",
    "expression_is_too_long": _greeting(" and ".join(["true"] * 2_000)),
    "expression_has_too_many_parts": _greeting(" or ".join(["true"] * 1_001)),
    "expression_is_nested_too_deep": _greeting("(" * 65 + "true" + ")" * 65),
    "reference_has_too_many_parts": f'- name: Greet\n  command: ["${{context{".a" * 64}}}"]\n',
    "nested_in_each_other_too_deep": _nested(MAX_NESTING),
    "command_is_longer_than_the_system_takes": f'- name: Greet\n  command: "echo {"x" * (128 * 1024)}"\n',
}

WORKFLOWS: Final = Corpus(
    "workflows", ("validate",), {name: f"{_HEAD}{steps}".encode() for name, steps in _GENERATED.items()}
)
