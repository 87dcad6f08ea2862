"""The workflows of the parity suite, by name, for tasks that are scripted."""

from podium.plan.plan import Plan
from podium.testing.engine_promises.scenarios import AT_ONCE, IN_ORDER
from tests.unit.machine.hosting import plan_of

# As long as anything here takes: nothing real is started.
_SHORT = "0.05"
CORPUS: dict[str, str] = {
    name: text.replace("SHORT", _SHORT) for name, text in {**IN_ORDER, **AT_ONCE}.items()
}


def plan_named(name: str) -> Plan:
    return plan_of(CORPUS[name])
