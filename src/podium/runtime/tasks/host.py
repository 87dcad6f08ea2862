"""The machine and the run that tasks are carried out on: folders, environment, secrets."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.environment import inheritable, minimal, shown
from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import render
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.redaction import Redactor
from podium.plan.plan import Agent, Work
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.order import TaskOrder

if TYPE_CHECKING:
    from podium.runtime.run_artifacts import RunArtifacts
    from podium.runtime.tasks.node_runtime import NodeRuntime

# Proves who starts the run. No child inherits it; what shows it all the same is masked.
_TOKEN: Final = "PODIUM_TOKEN"
# What Podium itself reaches a bucket with. Steps have it as ever, because they may use the same account.
_BUCKET_VARIABLES: Final = frozenset({"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})


class SecretMissing(PodiumError):
    code = "SECRET_NOT_FOUND"


class TaskHost(msgspec.Struct):
    directory: RunDirectory
    workspace: Path
    # Values of the secrets that the workflow declares, as far as they are there.
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    # The runner's own environment, without any secret and without settings of Podium.
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    # Masks every secret of the run, in every step: what one step wrote into a file another one may print. None if
    # there is nothing to mask.
    redactor: Redactor | None = None
    # Functions of this process that Python steps call by their names.
    functions: Mapping[str, Callable[..., Any]] = msgspec.field(default_factory=dict)
    # Where what steps leave is copied to, if a bucket is configured.
    bucket: "RunArtifacts | None" = None
    # The nodes of this process; asked for by the first step that a node carries out.
    nodes: "Callable[[], NodeRuntime] | None" = None
    # Of the run; topics of contracts are filled in with them.
    environment_id: str = DEFAULT_ENVIRONMENT
    project_id: str = DEFAULT_PROJECT
    # What this process shows of its work.
    telemetry: Telemetry = SILENT
    # What children of a worker get of its environment besides the usual variables; None: all of it.
    shown_variables: frozenset[str] | None = None

    @classmethod
    def of(
        cls,
        directory: RunDirectory,
        workspace: Path,
        secret_names: frozenset[str],
        secrets: dict[str, str],
        provider_variables: frozenset[str] = frozenset(),
        functions: Mapping[str, Callable[..., Any]] | None = None,
        bucket: "RunArtifacts | None" = None,
        nodes: "Callable[[], NodeRuntime] | None" = None,
    ) -> "TaskHost":
        """`provider_variables`: what agents need, such as an API key. Other steps do not get them."""
        hidden = secret_names | provider_variables
        inherited = inheritable(os.environ)
        environment = {name: value for name, value in inherited.items() if name not in hidden}
        masked = hidden | {_TOKEN} | (_BUCKET_VARIABLES if bucket is not None else frozenset())
        values = {*secrets.values(), *(os.environ.get(name, "") for name in masked)} - {""}
        redactor = Redactor(values) if values else None
        return cls(directory, workspace, secrets, environment, redactor, functions or {}, bucket, nodes)

    @property
    def readable(self) -> dict[str, str]:
        """What workflows and steps other than agents may see of the environment."""
        return shown(self.environment, self.shown_variables)

    def environment_of(self, order: TaskOrder, work: Work) -> dict[str, str]:
        """What the child sees: the runner's environment without secrets, and what the workflow and step add."""
        is_agent = isinstance(order.step.body, Agent)
        environment = (
            minimal(self.environment, for_agent=is_agent)
            if work.env_policy == "minimal"
            else shown(self.environment, self.shown_variables, for_agent=is_agent)
        )
        lookup = order.lookup
        for name, text in (*order.workflow.env.items(), *work.env.items()):
            environment[name] = _checked(name, render(text, lookup))
        if work.secrets:
            environment |= self.secrets_of(work)
        environment["PODIUM_RUN_ID"] = order.run_id
        environment["PODIUM_RUN_DIR"] = directory = self.directory.absolute
        environment["PODIUM_ARTIFACTS"] = f"{directory}/{self.directory.artifacts.name}"
        environment["PODIUM_STEP"] = order.step.step_id
        environment["PODIUM_VISIT"] = order.visit
        environment["PODIUM_ATTEMPT"] = str(order.attempt)
        environment["PODIUM_OUTPUT"] = self.directory.output_values(order.path, order.attempt)
        return environment

    def secrets_of(self, work: Work) -> dict[str, str]:
        """The secrets a step may see. Raises `SecretMissing` for the first that is not there."""
        for name in work.secrets:
            if name not in self.secrets:
                raise SecretMissing(
                    f"the secret {name!r} has no value; set the environment variable {name}, or check its source in "
                    "the configuration file"
                )
        return {name: self.secrets[name] for name in work.secrets}

    def values_of_env(self, allowed: tuple[str, ...], secrets: tuple[str, ...]) -> dict[str, str]:
        """What `${env.X}` means in a step's texts: only what was allowed."""
        known = self.readable
        found = {name: known[name] for name in allowed if name in known}
        if secrets:
            found |= {name: self.secrets[name] for name in secrets if name in self.secrets}
        return found


def _checked(name: str, value: str) -> str:
    if not name or "=" in name or "\0" in name + value:
        raise EvaluationError(
            f"the environment variable {name!a} has a NUL character, or a name that is none"
        )
    return value
