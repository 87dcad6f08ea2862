"""All planted faults, and the rows for which none can be planted."""

import os
from datetime import UTC, datetime
from typing import Final

from tests.planted import (
    buses,
    catalogs,
    changing,
    conductor,
    contracts,
    engines,
    language,
    language_flow,
    language_steps,
    log,
    machine,
    nodes,
    nodes_acceptance,
    nodes_decisions,
    nodes_rules,
    nodes_tables,
    operating,
    plans,
    registration,
    runs,
    signals,
    signing,
    telemetry,
)
from tests.planted.cannot import CANNOT
from tests.planted.faults import Fault

# By the file of tests/planted that has them.
GROUPS: Final[dict[str, list[Fault]]] = {
    "log": log.FAULTS,
    "language": language.FAULTS,
    "runs": runs.FAULTS,
    "language_flow": language_flow.FAULTS,
    "language_steps": language_steps.FAULTS,
    "nodes": nodes.FAULTS,
    "nodes_rules": nodes_rules.FAULTS,
    "nodes_tables": nodes_tables.FAULTS,
    "nodes_acceptance": nodes_acceptance.FAULTS,
    "nodes_decisions": nodes_decisions.FAULTS,
    "machine": machine.FAULTS,
    "operating": operating.FAULTS,
    "plans": plans.FAULTS,
    "engines": engines.FAULTS,
    "conductor": conductor.FAULTS,
    "signals": signals.FAULTS,
    "changing": changing.FAULTS,
    "signing": signing.FAULTS,
    "buses": buses.FAULTS,
    "catalogs": catalogs.FAULTS,
    "contracts": contracts.FAULTS,
    "registration": registration.FAULTS,
    "telemetry": telemetry.FAULTS,
}
FAULTS: Final = [fault for group in GROUPS.values() for fault in group]
SAMPLE_SIZE: Final = 24


def by_rule() -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        if fault.rule:
            found.setdefault(fault.rule, []).append(fault)
    return found


def missing(rows: set[str]) -> set[str]:
    """Rows with neither a fault nor a reason."""
    return rows - set(by_rule()) - set(CANNOT)


def day() -> int:
    """The day whose sample is taken; PODIUM_PLANT_DAY repeats the sample of another one."""
    return int(os.environ.get("PODIUM_PLANT_DAY") or datetime.now(UTC).date().toordinal())


def sample(of_day: int) -> list[Fault]:
    """A few faults, other ones every day: each has its turn before the first comes again."""
    # Neighbours take equally long, so the faults of a day are spread over the whole list.
    rounds = -(-len(FAULTS) // SAMPLE_SIZE)
    return FAULTS[of_day % rounds :: rounds]
