"""The fingerprint of an attempt: what it is executed with, as a short hash (R078, D30).

Two attempts with the same fingerprint were given the same command, inputs and files. It never prevents a step
from running within its own run; it shows a later run what need not be repeated. The location of the run's
files is not an input, and a secret is represented by its name: its value must not be guessable from a hash.
"""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from types import CodeType
from typing import Any, Final

import msgspec

from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError, Lookup
from podium.expressions.templates import fill_in, is_spread, render, render_arguments
from podium.expressions.types import DataList, DataMap, Reference, Template
from podium.machine.program import references_in
from podium.plan.canonical import canonical_sha256
from podium.plan.plan import PLAIN_WORK, Agent, Command, Limits, Node, Prompt, Python
from podium.plan.secret_inputs import secret_of_input
from podium.runtime.rundir import first_inside, inside
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder

_DIGITS: Final = 16
# Keys that say how often and at which cost a step is executed, not what it does.
_NO_INPUTS: Final = frozenset({"cache", "budget"})
# Omitted if absent, so that the fingerprints of steps without them do not change.
_LATER_FIELDS: Final = frozenset({"ssh", "container"})
_PLACES: Final = {("run", "dir"): "<run>", ("run", "artifacts"): "<artifacts>"}


class Fingerprints:
    """The fingerprints of the attempts of one run."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._digests = Digests()
        # By the step's path in the plan: fingerprints that cannot change.
        self._constant: dict[str, str] = {}
        # By the name of a function of this process: a digest of its code.
        self._code: dict[str, str] = {}

    async def of(self, order: TaskOrder, plan_path: str) -> str | None:
        """None if something is missing: such an attempt fails, and reports the reason itself."""
        if plan_path in self._constant and not order.is_changed:
            return self._constant[plan_path]
        try:
            files = _files_of(order, self._host)
            digests = await self._digests.of(files) if files else {}
            place = {**await _worktree_of(order, self._host), **await _image_of(order, self._host)}
        except (EvaluationError, PodiumError, OSError):
            return None
        return self._mark(order, plan_path, digests, place, is_plain=not self.rests_on_more(order))

    def without_files(self, order: TaskOrder, plan_path: str) -> str | None:
        """The fingerprint of an attempt without files, computed synchronously."""
        known = self._constant.get(plan_path) if not order.is_changed else None
        return known or self._mark(order, plan_path, {}, {}, is_plain=True)

    def rests_on_more(self, order: TaskOrder) -> bool:
        """Whether anything besides texts matters: files, conversations."""
        body = order.step.body
        if isinstance(body, Agent) or getattr(body, "work", PLAIN_WORK).input_files:
            return True
        if isinstance(body, Command) and body.container is not None:
            return True
        try:
            return bool(_programs(order, self._host))
        except EvaluationError:
            return False  # the attempt will not get that far

    def _code_of(self, name: str) -> str:
        """A digest of a function of this process, from its own code; functions that it calls are not
        included.
        """
        if name not in self._code:
            code = getattr(inspect.unwrap(self._host.functions[name]), "__code__", None)
            self._code[name] = canonical_sha256(_code_facts(code))[:_DIGITS] if code is not None else ""
        return self._code[name]

    def _version_of(self, body: Node) -> str:
        """The version of a node, as stated by its author."""
        found = (
            self._host.nodes().registry.find(body.type, body.node) if self._host.nodes is not None else None
        )
        return found.version if found is not None else ""

    def _mark(
        self,
        order: TaskOrder,
        plan_path: str,
        digests: dict[str, Any],
        place: dict[str, Any],
        *,
        is_plain: bool,
    ) -> str | None:
        body, env = order.step.body, order.workflow.env
        names_values = order.may_name_values and bool(references_in(body))
        given: dict[str, Any] = {
            "step": plan_path,
            "kind": body.__struct_config__.tag,
            "body": _inputs_in(body),
            "agent": None,
            "env": {},
            "files": digests,
        }
        try:
            if names_values or env:
                lookup = _without_secrets(order, frozenset(getattr(body, "work", PLAIN_WORK).secrets))
                given["env"] = {name: render(text, lookup) for name, text in env.items()}
                if isinstance(body, Node):
                    given["body"] = _node_inputs(body, lookup)
                elif names_values:
                    given["body"] = resolved(given["body"], lookup)
            if isinstance(body, Agent):
                given["agent"] = {**_agent(order), **place}
            if isinstance(body, Command) and body.container is not None:
                given["image"] = place["image"]
            if isinstance(body, Python) and body.function in self._host.functions:
                given["code"] = self._code_of(body.function)
            if isinstance(body, Node):
                given["code"] = self._version_of(body)
            mark = canonical_sha256(given)[:_DIGITS]
        except (EvaluationError, PodiumError, RecursionError):
            return None
        if is_plain and not order.is_changed and not (names_values or (env and references_in(env))):
            self._constant[plan_path] = mark
        return mark


def _node_inputs(body: Node, lookup: Lookup) -> dict[str, Any]:
    """The input of a node. How often the step was executed before is not an input."""
    # Imported with the first node.
    from podium.runtime.tasks.node_calls import filled_inputs

    inputs = {name: value for name, value in filled_inputs(body, lookup).items() if name != "epoch"}
    return {
        "type": body.type,
        "node": body.node,
        "operation": body.operation,
        "config": body.config,
        **inputs,
    }


def _code_facts(code: CodeType) -> list[Any]:
    """Excludes line numbers and file names: moving a function changes nothing."""
    constants = [
        _code_facts(one)
        if isinstance(one, CodeType)
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)
        for one in code.co_consts
    ]
    return [code.co_code.hex(), [*code.co_names], constants]


def _inputs_in(body: Any) -> Any:
    """A body whose texts contain no references, without fields that are not inputs."""
    work = getattr(body, "work", None)
    if work is not None and (work.cache or work.budget is not None or work.limits is not None):
        plain = msgspec.structs.replace(work, cache=False, budget=None, limits=_limits_in(work.limits))
        body = msgspec.structs.replace(body, work=plain)
    return body


def _limits_in(limits: Limits | None) -> Limits | None:
    """The limits at which output is cut. Other limits fail a step that exceeds them; a completed step was
    below them.
    """
    if limits is None or limits.max_output_size is None:
        return None
    return Limits(max_output_size=limits.max_output_size)


def _agent(order: TaskOrder) -> dict[str, Any]:
    """The agent and its conversation, as far as the workflow itself defines them."""
    body = order.step.body
    assert isinstance(body, Agent)
    return {
        "template": msgspec.to_builtins(order.workflow.providers.get(body.provider)),
        "session": order.values.get(("steps", body.resume, "session")) if body.resume is not None else None,
    }


async def _worktree_of(order: TaskOrder, host: TaskHost) -> dict[str, Any]:
    """The files that an agent in a worktree of its own starts with: those of a commit."""
    body = order.step.body
    if not isinstance(body, Agent) or body.workspace != "worktree":
        return {}
    # Imported with the first agent that has one.
    from podium.runtime.tasks.worktrees import beginning

    commit, folder = await beginning(host, order.run_id, order.visit)
    return {"commit": commit, "folder": folder}


async def _image_of(order: TaskOrder, host: TaskHost) -> dict[str, Any]:
    """The content of the image that a command runs in: its name may refer to another one later."""
    body = order.step.body
    if not isinstance(body, Command) or body.container is None:
        return {}
    # Imported with the first container.
    from podium.runtime.tasks.containers import digest_of_image

    digest = await digest_of_image(body.container, order, host.environment)
    if digest is None:
        raise FileNotFoundError("the image is not on this machine yet")
    return {"image": digest}


def _without_secrets(order: TaskOrder, secrets: frozenset[str]) -> Lookup:
    look = order.lookup

    def looked_up(path: tuple[str | int, ...]) -> Any:
        if path in _PLACES:
            return _PLACES[path]
        if path[0] == "env" and path[-1] in secrets:
            return f"<secret {path[-1]}>"
        if path[0] == "inputs" and path in order.values and secret_of_input(str(path[-1])) in secrets:
            return f"<secret {order.values[path]}>"
        return look(path)

    return looked_up


def resolved(value: Any, lookup: Lookup) -> Any:
    """Part of a plan with its texts filled in, as plain data."""
    match value:
        case Reference() | Template() | DataList() | DataMap():
            return fill_in(value, lookup)
        case msgspec.Struct():
            names = (name for name in value.__struct_fields__ if name not in _NO_INPUTS)
            parts = {name: getattr(value, name) for name in names}
            return {
                name: resolved(part, lookup)
                for name, part in parts.items()
                if part is not None or name not in _LATER_FIELDS
            }
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
    """The files that are passed to the step by name, and their paths."""
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
    for name in _programs(order, host):
        # Most are not files of the workspace, which a single call shows.
        if not os.access(f"{host.workspace}/{name}", os.F_OK):
            continue
        program = first_inside((host.workspace,), name, what="program")
        if program is not None and program.is_file():
            found[name] = program
    return found


def _programs(order: TaskOrder, host: TaskHost) -> list[str]:
    """The program to run, if it may be a file of the workspace; programs of the machine are not examined."""
    body, names = order.step.body, []
    if isinstance(body, Python) and body.function not in host.functions:
        module = body.function.partition(":")[0].replace(".", "/")
        names = [f"{module}.py", f"{module}/__init__.py"]
    elif isinstance(body, Command) and body.ssh is None and body.argv and not is_spread(body.argv[0]):
        name = render(body.argv[0], order.lookup)
        names = [name] if "/" in name and not name.startswith("/") else []
    if not names:
        return []
    workdir = getattr(body, "work", PLAIN_WORK).workdir
    folder = render(workdir, order.lookup) if workdir is not None else "."
    return [f"{folder}/{name}" for name in names]


def _prompts(body: Any) -> Iterator[Prompt]:
    """Prompts whose text is read when the step runs."""
    if isinstance(body, Agent):
        for prompt in (body.prompt, body.system_prompt):
            if prompt is not None and prompt.file is not None:
                yield prompt


class Digests:
    """SHA-256 of files, computed again only if a file may have changed since."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    async def of(self, files: dict[str, Path]) -> dict[str, Any]:
        known = {name: self._known_of(path) for name, path in files.items()}
        if None not in known.values():
            return known
        stopped = threading.Event()
        try:
            return await asyncio.to_thread(self._take, files, stopped)
        finally:
            stopped.set()  # a thread cannot be cancelled

    def _known_of(self, path: Path) -> str | None:
        found = self._known.get(path)
        return found[1] if found is not None and found[0] == _mark_of(path.stat()) else None

    def _take(self, files: dict[str, Path], stopped: threading.Event) -> dict[str, Any]:
        return {
            name: self._digest(path, stopped) if path.is_file() else _folder(path, stopped)
            for name, path in files.items()
        }

    def _digest(self, path: Path, stopped: threading.Event) -> str:
        before = path.stat()
        settled = time.time_ns() - before.st_ctime_ns > _SETTLED_NS
        digest = digest_of(path, stopped)
        if settled and S_ISREG(before.st_mode):
            self._known[path] = (_mark_of(before), digest)
        return digest


# A file that was changed just now may change again without a visible change of its times.
_SETTLED_NS: Final = 2_000_000_000


def _mark_of(found: os.stat_result) -> tuple[int, ...]:
    """Attributes that a file system changes whenever the content of a file changes; a ctime cannot be set."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _folder(folder: Path, stopped: threading.Event) -> dict[str, str]:
    inner = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): digest_of(path, stopped) for path in inner}


def digest_of(path: Path, stopped: threading.Event | None = None) -> str:
    """The digest of a file of any size; `stopped` aborts it with an error."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            if stopped is not None and stopped.is_set():
                raise InterruptedError(f"{path} is not needed any more")
            digest.update(chunk)
    return digest.hexdigest()
