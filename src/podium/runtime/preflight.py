"""What a plan needs from the machine it runs on, checked before anything is created and before RunStarted.

Everything that would certainly fail later is found here and reported together: a run must not work for an
hour and then find that a key is missing. Steps that may never be reached count, too. What an earlier step
could still provide, such as the program of a command, is only a warning.

Nothing is executed or sent, except that configured sources of secrets are read, and that a configured bucket
is written to. The environment is an argument: what an environment file adds counts like the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from podium.errors import PodiumError
from podium.log.redaction import MIN_SECRET, is_maskable
from podium.machine.program import references_in
from podium.plan.container_names import RUNTIMES
from podium.plan.loading import LocatedStep, located_steps
from podium.plan.plan import PLAIN_WORK, Agent, Command, Http, Node, Plan, Python, Work
from podium.plan.secret_inputs import input_of_secret, named_secret
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
    """The available resources."""

    workspace: Path
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    # Called only if the plan has agents.
    providers: "Callable[[], Providers] | None" = None
    # Agents are answered from a recording: none of their keys and programs is needed.
    replays: bool = False
    # Functions of this process that Python steps may call by name.
    functions: frozenset[str] = frozenset()
    # Where the output of steps is copied to, if configured.
    bucket: ArtifactBucket | None = None
    # The nodes of this process; None: the steps of nodes are not checked.
    nodes: "Callable[[], NodeRuntime] | None" = None

    def __repr__(self) -> str:
        """Omits values of the environment."""
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
    """It could not be masked: half of every log would match it."""

    code = "SECRET_TOO_SHORT"


class FunctionNotRegistered(PodiumError):
    """A Python step names a function without a module, and the embedding program has not registered one."""

    code = "FUNCTION_NOT_REGISTERED"


class ClientMissing(PodiumError):
    """The program that starts commands on other machines, or in containers, is not installed."""

    code = "CLIENT_NOT_INSTALLED"


def check_needs(plan: Plan, around: Surroundings) -> Readiness:
    """Everything that is missing for a run of the plan here."""
    steps = located_steps(plan.workflow)
    problems = [
        *_secret_problems(plan, steps, around),
        *_extra_problems(steps),
        *_function_problems(steps, around),
        *_client_problems(steps, around),
        *_notification_problems(plan, steps, around),
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
    if not value or is_maskable(value):
        return None
    return (
        f"{named_secret(name)} has fewer than {MIN_SECRET} characters and could not be masked in logs and events; "
        "use a longer value, or pass it with `env` instead of `secrets` if it may be seen"
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
    if not _knows_inputs(around):
        named_by = {name: paths for name, paths in named_by.items() if input_of_secret(name) is None}
    names = dict.fromkeys([*declared, *named_by])
    if isinstance(around.secrets, SecretLookup):
        around.secrets.prefetch(names)
    for name, paths in named_by.items():
        try:
            if not around.secrets.get(name):
                yield SecretMissing(f"{named_secret(name)} of {steps_named(paths)} {_how_to_set(name)}")
        except (SecretNotFound, SecretProviderFailed) as error:
            yield type(error)(f"{named_secret(name)} of {steps_named(paths)}: {error}")
    for name in names:
        if problem := length_problem(name, known_secrets(around.secrets, [name]).get(name, "")):
            yield SecretTooShort(problem)


def _knows_inputs(around: Surroundings) -> bool:
    """Only a run has them, and not every check is about one."""
    from podium.runtime.secret_inputs import InputSecrets

    return isinstance(around.secrets, InputSecrets)


def _how_to_set(name: str) -> str:
    given = input_of_secret(name)
    if given is None:
        return f"is not set; set the environment variable {name}, or name a source for it in the configuration file"
    return f"is not given; give it with --input {given}=env:NAME or --input {given}=file:PATH"


def known_secrets(secrets: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Those that have a value. Secrets that no step uses may be missing, and so may their source."""
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
                yield f"{named_secret(name)}: {warning}"


def _extra_problems(steps: Sequence[LocatedStep]) -> Iterator[PodiumError]:
    paths = [found.path for found in steps if isinstance(found.step.body, Http)]
    if paths and not has_extra("http"):
        yield ExtraMissing(f"{steps_named(paths)}: {install_hint('http')}")


def _function_problems(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[PodiumError]:
    """`python: score`, without a module, is a function of the embedding program (D69)."""
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


def _client_problems(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[PodiumError]:
    """The clients that start commands elsewhere. Unlike the commands' programs, an earlier step cannot
    provide them.
    """
    users: dict[tuple[str, ...], list[str]] = {}
    for found in steps:
        body = found.step.body
        if isinstance(body, Command) and (clients := _clients_of(body)):
            users.setdefault(clients, []).append(found.path)
    for clients, paths in users.items():
        if not any(
            is_program(name, around.environment.get("PATH", ""), around.workspace) for name in clients
        ):
            named = " or ".join(map(repr, clients))
            yield ClientMissing(f"{steps_named(paths)}: {named} is not on PATH; install it")


def _notification_problems(
    plan: Plan, steps: Sequence[LocatedStep], around: Surroundings
) -> Iterator[PodiumError]:
    """The needs of notifications at the end must be met from the start."""
    targets = [*plan.workflow.notify, *(target for found in steps for target in found.step.notify)]
    targets += [target for found in steps for target in found.workflow.notify]
    for extra, is_needed in (
        ("http", any(target.webhook is not None for target in targets)),
        ("notify", any(target.apprise is not None for target in targets)),
    ):
        if is_needed and not has_extra(extra):
            yield ExtraMissing(f"`notify`: {install_hint(extra)}")
    named = {str(reference.path[-1]) for reference in references_in(targets)}
    for name in sorted(named - known_secrets(around.secrets, sorted(named)).keys()):
        yield SecretMissing(
            f"`notify` names the variable {name!r}, which is not set; set it, or name a source for it"
        )


def _clients_of(body: Command) -> tuple[str, ...]:
    """One of these has to be installed."""
    if body.ssh is not None:
        return ("ssh",)
    if body.container is None:
        return ()
    return (body.container.runtime,) if body.container.runtime is not None else RUNTIMES


def _command_warnings(steps: Sequence[LocatedStep], around: Surroundings) -> Iterator[str]:
    """A program that is missing now; an earlier step may install it, so the run starts."""
    looked_up: dict[tuple[str, str | None, Path], list[str]] = {}
    for found in steps:
        body = found.step.body
        if not isinstance(body, Command) or not body.argv or not isinstance(body.argv[0], str):
            continue
        if body.ssh is not None or body.container is not None:
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
    """PATH as the step will see it; None if it is known only when the step runs."""
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
