"""The contract of the registration on an engine: a node introduces itself, as on the local engine."""

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.nodes.registration.reading import CONTRACT
from podium.testing.engine_promises import canonical
from podium.testing.engine_promises.engine import EngineUnderTest
from podium.testing.engine_promises.local import LocalRuns
from podium.testing.engine_promises.promises import plan_of
from podium.testing.engine_promises.scenarios import Scenario

_CORRELATION_ID: Final = "0b7c1c1e-7f0c-4a5b-9a52-3f1f8a7f8d11"
_BODY: Final = {
    "node_id": "11111111-2222-4333-8444-555555555555",
    "node_type": "effect",
    "node_version": "1.0.0",
    "endpoints": {"health": "http://node:8080/health"},
    "correlation_id": _CORRELATION_ID,
    "epoch": 1,
    "timestamp": "2026-01-01T00:00:00Z",
}
_EVENT: Final = {"type": "NodeIntrospectionEvent", "correlation_id": _CORRELATION_ID, "body": _BODY}
# Steps put the time into their outputs, and so do fingerprints of those that follow.
_MASKS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|\+00:00)"), "TIME"),
    (re.compile(r'(total_execution_time_ms\\*": )[0-9.]+'), r"\g<1>0"),
    (re.compile(r'("fingerprint": )"\w+"'), r'\g<1>""'),
)


def registration_history(engine: EngineUnderTest, folder: Path) -> Any:
    """What happened to one node, without times."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    scenario = Scenario("registration", CONTRACT.read_text(), inputs={"event": _EVENT})
    plan = plan_of(scenario, workspace)
    log = engine.run(plan, scenario.workflow.encode(), scenario.inputs, (), workspace)
    text = json.dumps(msgspec.to_builtins(canonical(plan, log)))
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return json.loads(text)


def local_registration_history(folder: Path) -> Any:
    return registration_history(LocalRuns(str(folder / "local.db"), folder / "local"), folder)
