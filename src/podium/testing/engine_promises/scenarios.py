"""The workflows that every engine has to execute alike: `corpus.yaml`, parsed."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml

# Long enough for every step that ends by itself, even on a busy machine.
_SHORT: Final = 3.0
# The event of the runs of contracts.
_EVENT: Final = {"item": "tea", "correlation_id": "0b7c1c1e-7f0c-4a5b-9a52-3f1f8a7f8d11"}


class ScriptedSignal(msgspec.Struct, frozen=True):
    """Sent when an event is in the log: `RunPaused`, `StepStarted A`; after the event of the previous signal."""

    after: str
    send: str
    payload: dict[str, Any] = {}


class Scenario(msgspec.Struct, frozen=True):
    """The workflow, and what a person does while it runs."""

    name: str
    workflow: str
    signals: tuple[ScriptedSignal, ...] = ()
    inputs: dict[str, Any] = {}


class _Signalled(msgspec.Struct, frozen=True):
    workflow: str
    signals: tuple[ScriptedSignal, ...]


class _Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: list[dict[str, Any]]
    rules: dict[str, Any] = {}
    error_types: list[dict[str, Any]] = []

    @property
    def contract(self) -> str:
        """As a complete file."""
        version = {"version": "1.0.0"}
        definition = {
            **version,
            "workflow_metadata": {
                **version,
                "workflow_name": "test",
                "workflow_version": "1.0.0",
                "description": "",
            },
            "execution_graph": {**version, "nodes": self.nodes},
            "coordination_rules": {**version, **self.rules},
        }
        contract = {
            "workflow_coordination": {"workflow_definition": definition},
            "error_handling": {"error_types": self.error_types},
        }
        return yaml.safe_dump(contract, sort_keys=False)


class _Corpus(msgspec.Struct, frozen=True):
    in_order: dict[str, str]
    at_once: dict[str, str]
    signalled: dict[str, _Signalled]
    contracts: dict[str, _Graph]


_CORPUS: Final = msgspec.convert(
    yaml.safe_load(files(__package__).joinpath("corpus.yaml").read_text()), _Corpus
)
# Those in which steps never run concurrently, and no person takes part.
IN_ORDER: Final[Mapping[str, str]] = _CORPUS.in_order
AT_ONCE: Final[Mapping[str, str]] = _CORPUS.at_once


def text_of(workflow: str, *, short: float, header: str = "") -> str:
    """A workflow of the corpus as a complete file, with a duration for its short time limits."""
    return f'version: "2.0"\nname: test\n{header}{workflow.replace("SHORT", str(short))}'


def scenarios(programs: str) -> dict[str, Scenario]:
    """All of them, with real programs: those in the folder `programs` (see `programs.py`)."""
    header = f"env: {{PATH: {programs}:/usr/local/bin:/usr/bin:/bin}}\n"
    plain = {**IN_ORDER, **AT_ONCE}
    found = {name: Scenario(name, text_of(text, short=_SHORT, header=header)) for name, text in plain.items()}
    for name, one in _CORPUS.signalled.items():
        found[name] = Scenario(name, text_of(one.workflow, short=_SHORT, header=header), one.signals)
    for name, graph in _CORPUS.contracts.items():
        found[name] = Scenario(name, graph.contract, inputs={"event": _EVENT})
    return found


# Those that are node contracts.
CONTRACTS: Final = tuple(_CORPUS.contracts)
NAMES: Final = (*_CORPUS.in_order, *_CORPUS.at_once, *_CORPUS.signalled, *_CORPUS.contracts)
