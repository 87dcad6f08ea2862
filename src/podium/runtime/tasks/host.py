"""The machine and the run that tasks are carried out on: folders, environment, secrets."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from podium.core.redaction import Redactor
from podium.core.templates import render
from podium.errors import PodiumError
from podium.model.plan import Work
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.order import TaskOrder

# What a child gets under `env_policy: minimal`.
_MINIMAL: Final = frozenset({"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"})


class SecretMissing(PodiumError):
    code = "SECRET_NOT_FOUND"


@dataclass(slots=True)
class TaskHost:
    directory: RunDirectory
    workspace: Path
    # Values of the secrets that the workflow declares, as far as they are there.
    secrets: dict[str, str] = field(default_factory=dict)
    # The runner's own environment, without any secret.
    environment: dict[str, str] = field(default_factory=dict)
    # The variables each provider needs, such as its API key: other steps do not get them.
    provider_variables: frozenset[str] = frozenset()
    # Called with each piece of output as it comes: step, bytes.
    on_output: object = None

    @classmethod
    def of(
        cls,
        directory: RunDirectory,
        workspace: Path,
        secret_names: frozenset[str],
        secrets: dict[str, str],
        provider_variables: frozenset[str] = frozenset(),
    ) -> "TaskHost":
        hidden = secret_names | provider_variables
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        return cls(directory, workspace, secrets, environment, provider_variables)

    def redactor(self, work: Work) -> Redactor | None:
        """Masks the secrets this step can see; None if it can see none, and so print none."""
        values = [self.secrets[name] for name in work.secrets if name in self.secrets]
        return Redactor(values) if values else None

    def environment_of(self, order: TaskOrder, work: Work) -> dict[str, str]:
        """What the child sees: the runner's environment without secrets, and what the workflow and step add."""
        environment = (
            {n: v for n, v in self.environment.items() if n in _MINIMAL or n.startswith("LC_")}
            if work.env_policy == "minimal"
            else dict(self.environment)
        )
        lookup = order.lookup
        for name, text in (*order.workflow.env.items(), *work.env.items()):
            environment[name] = render(text, lookup)
        for name in work.secrets:
            if name not in self.secrets:
                raise SecretMissing(f"the secret {name!r} is not there; set the environment variable {name}")
            environment[name] = self.secrets[name]
        environment |= {
            "PODIUM_RUN_ID": order.run_id,
            "PODIUM_RUN_DIR": str(self.directory.path.absolute()),
            "PODIUM_ARTIFACTS": str(self.directory.artifacts.absolute()),
            "PODIUM_STEP": order.step.step_id,
            "PODIUM_VISIT": f"{order.path}#{order.attempt}",
            "PODIUM_ATTEMPT": str(order.attempt),
            "PODIUM_OUTPUT": str(self.directory.output_values(order.path, order.attempt).absolute()),
        }
        return environment

    def values_of_env(self, names: tuple[str, ...]) -> dict[str, str]:
        """What `${env.X}` stands for in a step's texts: only what was allowed."""
        found = {**self.environment, **self.secrets}
        return {name: found[name] for name in names if name in found}
