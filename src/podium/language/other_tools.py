"""Syntax of other tools, and what to write here instead.

A template of another tool is plain text here, and a variable or `*` without a shell is passed on as it is:
both are valid, but hardly ever meant. So they are recognized, by names and forms that are unlikely as
arguments of programs.
"""

import re
from collections.abc import Callable
from typing import Final

# Namespaces of other tools, and their equivalents here.
_MEANT: Final = {
    "inputs": "inputs",
    "input": "inputs",
    "params": "inputs",
    "parameters": "inputs",
    "args": "inputs",
    "context": "context",
    "vars": "context",
    "var": "context",
    "variables": "context",
    "steps": "steps",
    "tasks": "steps",
    "jobs": "steps",
    "needs": "steps",
    "env": "env",
    "loop": "loop",
    "run": "run",
    "item": "item",
    "matrix": "matrix",
}
_SECRETS: Final = ("secrets", "secret")
# Namespaces with facts about where another tool runs.
_NOT_HERE: Final = ("github", "gitea", "gitlab", "runner", "job", "strategy", "workflow", "dag", "ds")
_NAMES: Final = "|".join((*_MEANT, *_SECRETS, *_NOT_HERE))
# `{{ inputs.x }}`, `${{ inputs.x }}` or `{{ x }}`, but not `{{.State}}` or `{{end}}` of programs with templates of
# their own.
DOUBLE_BRACES: Final = re.compile(
    rf"\$?\{{\{{-?\s*+((?:{_NAMES})\b[^{{}}]*+"
    r"|(?P<other>(?!(?:end|else|break|continue)\b)[A-Za-z_]\w*+)\s*+-?)\}\}"
)
_BESIDE_A_WORD: Final = frozenset("\"' \t\n")
# `$HOME/x`: a word with a variable in capital letters, as a shell would expand it.
VARIABLE_IN_WORD: Final = re.compile(r"[\w./=:@+-]*\$([A-Z_][A-Z0-9_]*)[\w./:@+-]*")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]+")
_GLOB: Final = re.compile(r"[\w./-]*\*[\w./*-]*")
# Commands that take names of files and never patterns.
_WITHOUT_PATTERNS: Final = frozenset(
    (
        "cat",
        "chmod",
        "chown",
        "cp",
        "gzip",
        "head",
        "ls",
        "md5sum",
        "mv",
        "rm",
        "sha256sum",
        "sort",
        "tail",
        "wc",
    )
)


def is_ours(found: re.Match[str], reference_to: Callable[[str], str]) -> bool:
    """Whether these braces are more likely meant for us than for the program: `--format={{x}}` is not."""
    other, text = found["other"], found.string
    if other is None or reference_to(other):
        return True
    before, after = text[max(0, found.start() - 1) : found.start()], text[found.end() : found.end() + 1]
    return _BESIDE_A_WORD.issuperset(before + after)


def instead_of(between: str, reference_to: Callable[[str], str] = lambda _name: "") -> str:
    """What to write instead of another tool's text between double braces. `reference_to`: the reference to what has
    this name in the workflow, empty if nothing has it.
    """
    expression = between.strip().removesuffix("-").rstrip()
    if known := reference_to(expression):
        return f"Write ${{{known}}}."
    first, _, rest = expression.partition(".")
    first = first.strip()
    name = re.match(r"\w*", rest)[0]  # type: ignore[index]  # it also matches nothing
    if first in _SECRETS:
        return instead_of_secret(name)
    if first in _NOT_HERE:
        return instead_of_fact(first)
    if not re.fullmatch(r"\w+(?:[.\[][\w.\[\] -]*)?", expression):
        return "Write ${...} with one name in it, like ${inputs.name}; conditions are written as `when: {expr: ...}`."
    if first not in _MEANT:
        return f"Write ${{inputs.{first}}}, and add '{first}' to the workflow's `inputs`."
    return f"Write ${{{'.'.join(filter(None, (_MEANT[first], rest.strip())))}}}."


def namespace_hint(first: str, rest: str) -> str:
    """What to write instead of `${first.rest}` if its namespace is another tool's; otherwise empty."""
    if first in _SECRETS:
        return instead_of_secret(rest)
    if first in _NOT_HERE:
        return instead_of_fact(first)
    meant = _MEANT.get(first)
    return f"Write ${{{meant}.{rest}}}." if meant is not None and meant != first and rest else ""


def variable_hint(name: str) -> str:
    """What to write for `${HOME}`, as a shell would expand it; nothing if it does not look like a variable."""
    if not _VARIABLE.fullmatch(name):
        return ""
    return (
        f"Write ${{env.{name}}} and add `env_allow: [{name}]`; in a script of `shell:`, ${{{name}}} is one of the "
        "shell."
    )


def instead_of_secret(name: str) -> str:
    shown = name or "TOKEN"
    return (
        f"Add `secrets: [{shown}]` to the workflow and to the step: the program finds it in its environment, and in a "
        f"text it is ${{env.{shown}}}."
    )


def instead_of_fact(first: str) -> str:
    return (
        f"Nothing like '{first}' is known here: declare an input and give it with `--input`, or list a variable in "
        "`env_allow` and write ${env.NAME}."
    )


def is_unexpanded_glob(word: str, program: str) -> bool:
    return program.rsplit("/", 1)[-1] in _WITHOUT_PATTERNS and _GLOB.fullmatch(word) is not None
