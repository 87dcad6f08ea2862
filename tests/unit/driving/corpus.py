"""The workflows of `corpus.yaml`, by name."""

from pathlib import Path

import yaml

from podium.plan.plan import Plan
from tests.unit.machine.hosting import plan_of

_READ: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("corpus.yaml").read_text())
AT_ONCE = frozenset(_READ["at_once"])
CORPUS: dict[str, str] = {**_READ["in_order"], **_READ["at_once"]}


def plan_named(name: str) -> Plan:
    return plan_of(CORPUS[name])
