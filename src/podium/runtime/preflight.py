"""What a plan needs from the machine it runs on, checked before anything is created and before RunStarted.

Everything that would fail later for certain is found here, all at once: a run must not do an hour of work and then
find that a key is missing. Steps that may never be reached count, too. What an earlier step could still bring, the
program of a command, is a warning.

Nothing is executed or sent, except that configured sources of secrets are read, and that a configured bucket is written
to. The environment is an argument: what an environment file adds counts like the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from podium.errors import PodiumError
from podium.log.redaction import SHORTEST
from podium.plan.loading import LocatedStep, located_steps
from podium.plan.plan import PLAIN_WORK, Agent, Command, Http, Node, Plan, Python, Work
from podium.ports.artifacts import ArtifactBucket
from podium.ports.secrets import SecretLookup, SecretNotFound, SecretProviderFailed
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.runtime.tasks.host import SecretMissing
from podium.runtime.tasks.processes import find_program

if TYPE_CHECKING:
    from podium.ports.provider import Providers
    from podium.runtime.tasks.node_runtime import NodeRuntime

_MAX_STEPS_NAMED: Final = 3


class Surroundings(msgspec.Struct, frozen=True):
    """What is there."""

    workspace: Path
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    # Asked for only if the plan has agents.
    providers: "Callable[[], Providers] | None" = None
    # Agents are answered from a recording: no key and no program of theirs is needed.
    replays: bool = False
    # Functions of this process that Python steps may call by name.
    functions: frozenset[str] = frozenset()
    # Where what steps leave is copied to, if one is configured.
    bucket: ArtifactBucket | None = None
    # The nodes of this process; None: the steps of nodes are not checked.
    nodes: "Callable[[], NodeRuntime] | None" = None

    def __repr__(self) -> str:
        """Without values of the environment."""
        return f"Surroundings({str(self.workspace)!r})"


class Readiness(msgspec.Struct, frozen=True):
    problems: tuple[PodiumError, ...] = ()
    warnings: tuple[str, ...] = ()

    def require(self) -> None:
        """Raises the problem, or `NotReady` with all of them."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            raise NotReady(self.problems)


class NotReady(PodiumError):
    """Several things that the run needs are missing; each is listed with its own code."""

    code = "NOT_READY"

    def __init__(self, problems: Sequence[PodiumError]) -> None:
        listed = "".join(f"\n  {problem.code}: {problem}" for problem in problems)
        super().__init__(
            f"{len(problems)} things that the run needs are missing; nothing was started.{listed}"
        )
        self.problems = tuple(problems)


class SecretTooShort(PodiumError):
    """It could not be masked: half of every log would look like it."""

    code = "SECRET_TOO_SHORT"


class FunctionNotRegistered(PodiumError):
    """A Python step names a function without a module, and the program that runs it has registered none."""

    code = "FUNCTION_NOT_REGISTERED"


def check_needs(plan: Plan, around: Surroundings) -> Readiness:
    """All that is missing for a run of the plan here."""
    steps = located_steps(plan.workflow)
    problems = [
        *_secret_problems(plan, steps, around),
        *_extra_problems(steps),
        *_function_problems(steps, around),
    ]
    if around.bucket is not None and (unreachable := around.bucket.problem()) is not None:
        problems.append(unreachable)
    if around.providers is not None and any(isinstance(found.step.body, Agent) for found in steps):
        from podium.runtime.preflight_agents import agent_problems

        problems += agent_problems(steps, around, around.providers)
    if around.nodes is not None and any(isinstance(found.step.body, Node) for found in steps):
        from podium.runtime.preflight_nodes import node_problems

        problems += node_problems(steps, around.nodes().registry)
    return Readiness(tuple(problems), (*_secret_warnings(steps, around), *_command_warnings(steps, around)))


def steps_named(paths: Sequence[str]) -> str:
    """`step 'Ask'`, `steps 'Ask', 'Tell' and 4 more`."""
    named = ", ".join(repr(path) for path in paths[:_MAX_STEPS_NAMED])
    more = len(paths) - _MAX_STEPS_NAMED
    return f"step{'s' if len(paths) > 1 else ''} {named}{f' and {more} more' if more > 0 else ''}"


def length_problem(name: str, value: str) -> str | None:
    if not 0 < len(value) < SHORTEST:
        return None
    return (
        f"the secret {name!r} has fewer than {SHORTEST} characters and could not be masked in logs and events; use a "
        f"longer value, or pass it with `env` instead of `secrets` if it may be seen"
    )


def work_of(found: LocatedStep) -> Work:
    work: Work = getattr(found.step.body, "work", PLAIN_WORK)
    return work


def _secret_problems(plan: Plan, steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[PodiumError]:
    named_by: dict[str, list[str]] = {}
    for found in steps:
        for name in work_of(found).secrets:
            named_by.setdefault(name, []).append(found.path)
    declared = [*plan.workflow.secrets, *(n for found in steps for n in found.workflow.secrets)]
    names = dict.fromkeys([*declared, *named_by])
    if isinstance(around.secrets, SecretLookup):
        around.secrets.prefetch(names)
    for name, paths in named_by.items():
        try:
            if not around.secrets.get(name):
                yield SecretMissing(
                    f"the secret {name!r} of {steps_named(paths)} is not set; set the environment variable {name}, or "
                    f"name a source for it in the configuration file"
                )
        except (SecretNotFound, SecretProviderFailed) as error:
            yield type(error)(f"the secret {name!r} of {steps_named(paths)}: {error}")
    for name in names:
        if problem := length_problem(name, known_secrets(around.secrets, [name]).get(name, "")):
            yield SecretTooShort(problem)


def known_secrets(secrets: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Those that have a value. One that no step names may be missing, and so may its source."""
    found = {}
    for name in names:
        with suppress(SecretNotFound, SecretProviderFailed):
            if value := secrets.get(name):
                found[name] = value
    return found


def _secret_warnings(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[str]:
    if isinstance(around.secrets, SecretLookup):
        for name in dict.fromkeys(name for found in steps for name in work_of(found).secrets):
            if warning := around.secrets.warning(name):
                yield f"the secret {name!r}: {warning}"


def _extra_problems(steps: Sequence[LocatedStep]) -> Iterator[PodiumError]:
    paths = [found.path for found in steps if isinstance(found.step.body, Http)]
    if paths and not has_extra("http"):
        yield ExtraMissing(f"{steps_named(paths)}: {install_hint('http')}")


def _function_problems(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[PodiumError]:
    """`python: score`, without a module, is a function of the program that runs the workflow (D69)."""
    called_by: dict[str, list[str]] = {}
    for found in steps:
        body = found.step.body
        if isinstance(body, Python) and ":" not in body.function and body.function not in around.functions:
            called_by.setdefault(body.function, []).append(found.path)
    for name, paths in called_by.items():
        calls = "calls" if len(paths) == 1 else "call"
        yield FunctionNotRegistered(
            f"{steps_named(paths)} {calls} the function {name!r}, which is not registered here; run it from the "
            f"program that has it, with functions={{{name!r}: ...}}, or name a function of a module: "
            f"`python: module:{name}`"
        )


def _command_warnings(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[str]:
    """A program that is not there now; an earlier step may install it, so the run starts."""
    looked_up: dict[tuple[str, str | None, Path], list[str]] = {}
    for found in steps:
        body = found.step.body
        if not isinstance(body, Command) or not body.argv or not isinstance(body.argv[0], str):
            continue
        work = body.work
        path = search_path(found, around)
        if path is not None and (work.workdir is None or isinstance(work.workdir, str)):
            folder = around.workspace / (work.workdir or "")
            looked_up.setdefault((body.argv[0], path, folder), []).append(found.path)
    for (program, path, folder), paths in looked_up.items():
        if not is_program(program, path, folder):
            where = "program not found" if "/" in program else "it is not on PATH"
            yield f"{steps_named(paths)}: the program {program!r} cannot be started now: {where}"


def search_path(found: LocatedStep, around: Surroundings) -> str | None:
    """PATH as the step will see it; None if that is known only when it runs."""
    for env in (work_of(found).env, found.workflow.env):
        if "PATH" in env:
            given = env["PATH"]
            return given if isinstance(given, str) else None
    return around.environment.get("PATH", "")


def is_program(name: str, path: str | None, folder: Path) -> bool:
    try:
        find_program(name, path, folder)
    except (OSError, ValueError):
        return False
    return True
