"""The fingerprint of an attempt: what it is carried out with, as a short hash (R078, D30).

Two attempts with the same fingerprint were given the same command, inputs and files. It never keeps a step from running
inside its own run; it tells a later run what need not be done again. Where a run keeps its files is no input, and a
secret counts by its name: its value must not be guessed from a hash.
"""

import asyncio
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.core.canonical import canonical_sha256
from podium.core.expressions import EvaluationError, Lookup
from podium.core.machine.program import references_in
from podium.core.templates import fill_in, is_spread, render, render_arguments
from podium.errors import PodiumError
from podium.model.expressions import Reference, Template
from podium.model.plan import PLAIN_WORK, Agent, Command, DataList, DataMap, Prompt, Python
from podium.runtime.rundir import first_inside, inside
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder

_DIGITS: Final = 16
# What says how often and for how much a step is carried out, and not what it does.
_NO_INPUTS: Final = frozenset({"cache", "budget"})
_PLACES: Final = {("run", "dir"): "<run>", ("run", "artifacts"): "<artifacts>"}


async def fingerprint_of(
    order: TaskOrder, host: TaskHost, plan_path: str, constant: dict[str, Any]
) -> str | None:
    """None if something is missing: such an attempt fails, and says itself why.

    `constant` keeps what is the same for every attempt of a step that names no values, by its path in the plan.
    """
    body = order.step.body
    work = getattr(body, "work", PLAIN_WORK)
    lookup = _without_secrets(order, frozenset(work.secrets))
    try:
        files = _files_of(order, host)
        filled = constant.get(plan_path)
        if filled is None:
            filled = resolved(body, lookup)
            if not references_in(body):
                constant[plan_path] = filled
        given = {
            "step": plan_path,
            "kind": body.__struct_config__.tag,
            "body": filled,
            "agent": _agent(order) if isinstance(body, Agent) else None,
            "env": {name: render(text, lookup) for name, text in order.workflow.env.items()},
            "files": await asyncio.to_thread(_digests, files) if files else {},
        }
        return canonical_sha256(given)[:_DIGITS]
    except (EvaluationError, PodiumError, OSError, RecursionError):
        return None


def _agent(order: TaskOrder) -> dict[str, Any]:
    """Who is asked, where the workflow says so itself, and in which conversation."""
    body = order.step.body
    assert isinstance(body, Agent)
    return {
        "template": msgspec.to_builtins(order.workflow.providers.get(body.provider)),
        "session": order.values.get(("steps", body.resume, "session")) if body.resume is not None else None,
    }


def _without_secrets(order: TaskOrder, secrets: frozenset[str]) -> Lookup:
    look = order.lookup

    def looked_up(path: tuple[str | int, ...]) -> Any:
        if path in _PLACES:
            return _PLACES[path]
        if path[0] == "env" and path[-1] in secrets:
            return f"<secret {path[-1]}>"
        return look(path)

    return looked_up


def resolved(value: Any, lookup: Lookup) -> Any:
    """Part of a plan with its texts filled in, as plain data."""
    match value:
        case Reference() | Template() | DataList() | DataMap():
            return fill_in(value, lookup)
        case msgspec.Struct():
            names = (name for name in value.__struct_fields__ if name not in _NO_INPUTS)
            return {name: resolved(getattr(value, name), lookup) for name in names}
        case dict():
            return {key: resolved(item, lookup) for key, item in value.items()}
        case tuple() | list():
            return [item for one in value for item in _items(one, lookup)]
        case _:
            return value


def _items(value: Any, lookup: Lookup) -> list[Any]:
    spread = isinstance(value, Template) and is_spread(value)
    return [*render_arguments((value,), lookup)] if spread else [resolved(value, lookup)]


# --- files ----------------------------------------------------------------------------------------


def _files_of(order: TaskOrder, host: TaskHost) -> dict[str, Path]:
    """The files that the step is given by name, and where they are."""
    body, lookup = order.step.body, order.lookup
    roots = (host.directory.artifacts, host.workspace)
    found: dict[str, Path] = {}
    for text in getattr(body, "work", PLAIN_WORK).input_files:
        name = render(text, lookup)
        path = first_inside(roots, name, what="input_file")
        if path is None:
            raise FileNotFoundError(name)
        found[name] = path
    for prompt in _prompts(body):
        assert prompt.file is not None
        name = render(prompt.file, lookup)
        found[name] = inside(host.workspace, name, what="prompt_file")
    for name in _programs(order):
        # Most are no files of the workspace: that is seen at once.
        if not os.access(f"{host.workspace}/{name}", os.F_OK):
            continue
        program = first_inside((host.workspace,), name, what="program")
        if program is not None and program.is_file():
            found[name] = program
    return found


def _programs(order: TaskOrder) -> Iterator[str]:
    """What is carried out, if it may be a file of the workspace; programs of the machine are not looked at."""
    body = order.step.body
    work = getattr(body, "work", PLAIN_WORK)
    folder = render(work.workdir, order.lookup) if work.workdir is not None else "."
    if isinstance(body, Command) and body.argv and not is_spread(body.argv[0]):
        name = render(body.argv[0], order.lookup)
        if "/" in name and not name.startswith("/"):
            yield f"{folder}/{name}"
    elif isinstance(body, Python):
        module = body.function.partition(":")[0].replace(".", "/")
        yield f"{folder}/{module}.py"
        yield f"{folder}/{module}/__init__.py"


def _prompts(body: Any) -> Iterator[Prompt]:
    """Those whose text is read when the step runs."""
    if isinstance(body, Agent):
        for prompt in (body.prompt, body.system_prompt):
            if prompt is not None and prompt.file is not None:
                yield prompt


def _digests(files: dict[str, Path]) -> dict[str, Any]:
    return {name: digest_of(path) if path.is_file() else _folder(path) for name, path in files.items()}


def _folder(folder: Path) -> dict[str, str]:
    inner = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): digest_of(path) for path in inner}


def digest_of(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
