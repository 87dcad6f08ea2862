"""The machine and the run for which tasks are executed: folders, environment, secrets."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.environment import inheritable, minimal, shown
from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError, unparse_reference
from podium.expressions.templates import render
from podium.expressions.types import Reference, Template, Text
from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.redaction import Redactor
from podium.log.tracing import TRACEPARENT
from podium.plan.plan import Agent, Work
from podium.plan.secret_inputs import input_of_secret
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.order import TaskOrder

if TYPE_CHECKING:
    from podium.runtime.run_artifacts import RunArtifacts
    from podium.runtime.tasks.node_runtime import NodeRuntime

# Proves who starts the run. No child inherits it; if it appears nevertheless, it is masked.
_TOKEN: Final = "PODIUM_TOKEN"
# Podium's own credentials for a bucket. Steps get them as well, because they may use the same account.
_BUCKET_VARIABLES: Final = frozenset({"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})


# Linux's limit for one variable, with its name, `=` and the NUL at its end.
_MAX_VARIABLE: Final = 128 * 1024


class SecretMissing(PodiumError):
    code = "SECRET_NOT_FOUND"


class VariableTooLarge(EvaluationError):
    code = "VARIABLE_TOO_LARGE"


class TaskHost(msgspec.Struct):
    directory: RunDirectory
    workspace: Path
    # Available values of the secrets that the workflow declares.
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    # The runner's own environment, without any secret and without settings of Podium.
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    # Masks every secret of the run, in every step: what one step wrote into a file another one may print.
    # None if there is nothing to mask.
    redactor: Redactor | None = None
    # Functions of this process that Python steps call by name.
    functions: Mapping[str, Callable[..., Any]] = msgspec.field(default_factory=dict)
    # Where the output of steps is copied to, if a bucket is configured.
    bucket: "RunArtifacts | None" = None
    # The nodes of this process; called by the first step that a node executes.
    nodes: "Callable[[], NodeRuntime] | None" = None
    # Those of the run; topics of contracts are filled in with them.
    environment_id: str = DEFAULT_ENVIRONMENT
    project_id: str = DEFAULT_PROJECT
    # Spans and metrics of this process.
    telemetry: Telemetry = SILENT
    # What children of a worker inherit of its environment besides the usual variables; None: all of it.
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
        """The part of the environment that workflows and steps other than agents may see."""
        return shown(self.environment, self.shown_variables)

    def environment_of(self, order: TaskOrder, work: Work) -> dict[str, str]:
        """The child's environment: the runner's without secrets, and what the workflow and step add."""
        is_agent = isinstance(order.step.body, Agent)
        environment = (
            minimal(self.environment, for_agent=is_agent)
            if work.env_policy == "minimal"
            else shown(self.environment, self.shown_variables, for_agent=is_agent)
        )
        return self._add_local(environment, order, work)

    def container_environment_of(self, order: TaskOrder, work: Work) -> dict[str, str]:
        """The environment passed into a container: nothing of the runner's own, except where the run is
        stored.
        """
        return self._add_local({}, order, work)

    def _add_local(self, environment: dict[str, str], order: TaskOrder, work: Work) -> dict[str, str]:
        self._add_given(environment, order, work)
        environment["PODIUM_RUN_DIR"] = directory = self.directory.absolute
        environment["PODIUM_ARTIFACTS"] = f"{directory}/{self.directory.artifacts.name}"
        environment["PODIUM_OUTPUT"] = self.directory.output_values(order.path, order.attempt)
        return environment

    def sent_environment_of(self, order: TaskOrder, work: Work) -> dict[str, str]:
        """The environment sent to another machine: nothing of this one's."""
        environment: dict[str, str] = {}
        self._add_given(environment, order, work)
        return environment

    def _add_given(self, environment: dict[str, str], order: TaskOrder, work: Work) -> None:
        """Add what does not depend on the machine: variables of the workflow and the step, and which attempt
        this is.
        """
        lookup = order.lookup
        if TRACEPARENT in order.run:
            from podium.runtime.run_telemetry import step_context  # of few runs

            # For programs that trace themselves: their spans are parts of this attempt.
            parent = step_context(order.run_id, order.run, order.path, order.attempt)
            environment[TRACEPARENT.upper()] = parent.header
        for name, text in (*order.workflow.env.items(), *work.env.items()):
            environment[name] = _checked(name, text, render(text, lookup))
        if work.secrets:
            secrets = self.secrets_of(work)
            # A secret input is only in the texts that name it.
            environment |= {name: value for name, value in secrets.items() if input_of_secret(name) is None}
        environment["PODIUM_RUN_ID"] = order.run_id
        environment["PODIUM_STEP"] = order.step.step_id
        environment["PODIUM_VISIT"] = order.visit
        environment["PODIUM_ATTEMPT"] = str(order.attempt)

    def secrets_of(self, work: Work) -> dict[str, str]:
        """The secrets a step may see. Raises `SecretMissing` for the first one without a value."""
        for name in work.secrets:
            if name not in self.secrets:
                given = input_of_secret(name)
                raise SecretMissing(
                    f"the secret {name!r} has no value; set the environment variable {name}, or check its source in "
                    "the configuration file"
                    if given is None
                    else f"the secret input {given!r} has no value; check what its run was given for it"
                )
        return {name: self.secrets[name] for name in work.secrets}

    def values_of_env(self, allowed: tuple[str, ...], secrets: tuple[str, ...]) -> dict[str, str]:
        """The values for `${env.X}` in a step's texts: only what was allowed."""
        known = self.readable
        found = {name: known[name] for name in allowed if name in known}
        if secrets:
            found |= {name: self.secrets[name] for name in secrets if name in self.secrets}
        return found


def _checked(name: str, text: Text, value: str) -> str:
    if not name or "=" in name or "\0" in name + value:
        raise EvaluationError(
            f"the environment variable {name!a} has a NUL character, or a name that is none"
        )
    # A character has at most four bytes: most values need not be encoded for this check.
    if len(value) > _MAX_VARIABLE // 8 and len(os.fsencode(value)) + len(name) + 2 > _MAX_VARIABLE:
        raise VariableTooLarge(
            f"{_written(name, text)} has {len(os.fsencode(value)):,} bytes, and a program is given at most 128 KiB in "
            "one variable; let the first step write a file with `output_file`, and read that"
        )
    return value


def _written(name: str, text: Text) -> str:
    """The name of a value in the workflow: the variables of a script have internal names."""
    if isinstance(text, Template) and len(text.parts) == 1 and isinstance(text.parts[0], Reference):
        return f"the value of {unparse_reference(text.parts[0])}"
    return f"the environment variable {name!a}"
