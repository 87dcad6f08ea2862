"""Secret inputs: a run is given where the value comes from, and steps see the value like that of a secret.

A step that names `${inputs.token}` has the secret `inputs.token`. No variable can have that name, so the value reaches
the step only in the texts that name it.
"""

from typing import Final

from podium.plan.plan import Workflow

_PREFIX: Final = "inputs."


def secret_of_input(name: str) -> str:
    """The name of the secret that a step has which names this input."""
    return _PREFIX + name


def input_of_secret(secret: str) -> str | None:
    """The input with this value; None for a secret of the environment or the configuration."""
    return secret.removeprefix(_PREFIX) if secret.startswith(_PREFIX) else None


def secret_inputs(workflow: Workflow) -> list[str]:
    return [name for name, declared in workflow.inputs.items() if declared.secret]


def named_secret(secret: str) -> str:
    """How messages call it."""
    name = input_of_secret(secret)
    return f"the secret {secret!r}" if name is None else f"the secret input {name!r}"
