"""The cells of the table: who sends what, to a run in which state, of which tenant."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.signal_table.expected import (
    ACCEPTED,
    NEEDS_REASON,
    OTHER,
    OTHER_BY_ID,
    OWN,
    PAYLOADS,
    ROLES,
    STATES,
    TENANTS,
    WHEN,
    WHO,
    answer_of_run,
    signal_of,
)


class Cell(NamedTuple):
    """`code`: ACCEPTED, or that of the refusal."""

    role: str
    row: str
    state: str
    tenant: str
    payload: Mapping[str, Any]
    code: str

    @property
    def signal(self) -> str:
        return signal_of(self.row)

    @property
    def is_accepted(self) -> bool:
        return self.code == ACCEPTED

    @property
    def audited(self) -> str:
        """The code in the audit log, which says what the sender does not learn."""
        is_outside = self.role == "none" or (self.tenant == OTHER and self.role != "owner")
        return "AUTHZ_TENANT_FORBIDDEN" if self.code == "RUN_NOT_FOUND" and is_outside else self.code

    @property
    def sees_run(self) -> bool:
        """Refusals of those who do not are not in the log of the run."""
        return self.role != "none" and (self.tenant == OWN or (self.tenant == OTHER and self.role == "owner"))

    def __str__(self) -> str:
        return f"{self.row} by {self.role} to a run that is {self.state}, tenant {self.tenant}: {self.code}"


def cells(state: str) -> Iterator[Cell]:
    for role in ROLES:
        for tenant in TENANTS:
            for row in WHEN:
                yield _cell(role, row, state, tenant, PAYLOADS[row], answer_of_run(row, state))
            for row in NEEDS_REASON:
                given = {name: value for name, value in PAYLOADS[row].items() if name != "reason"}
                yield _cell(role, f"{row}, no reason", state, tenant, given, "AUTHZ_REASON_REQUIRED")
                blank = {**given, "reason": " \t"}
                yield _cell(role, f"{row}, blank reason", state, tenant, blank, "AUTHZ_REASON_REQUIRED")
            yield from _two_faults(role, state, tenant)


def all_cells() -> list[Cell]:
    return [cell for state in STATES for cell in cells(state)]


def _cell(
    role: str,
    row: str,
    state: str,
    tenant: str,
    payload: Mapping[str, Any],
    answer: str,
    *,
    valid: bool = True,
) -> Cell:
    """The first of these that is wrong decides: payload, tenant, role and reason, state of the run."""
    cell = Cell(role, row, state, tenant, payload, answer)
    if not valid:
        return cell._replace(code="SIGNAL_INVALID_PAYLOAD")
    if role == "none" or tenant == OTHER_BY_ID or (tenant == OTHER and role != "owner"):
        return cell._replace(code="RUN_NOT_FOUND")
    if WHO[cell.signal][role] != "yes":
        return cell._replace(code="AUTHZ_DENIED")
    return cell


def _two_faults(role: str, state: str, tenant: str) -> Iterator[Cell]:
    """Each is wrong whatever else is: which fault is reported shows the order of the checks."""
    yield _cell(role, "PAUSE, misspelled", state, tenant, {"raeson": "x"}, "", valid=False)
    yield _cell(role, "SKIP_STEP, no step", state, tenant, {}, "", valid=False)
    yield _cell(role, "EMERGENCY_STOP, no reason", state, tenant, {}, "", valid=False)
    yield _cell(role, "RETRY_RUN, misspelled", state, tenant, {"forced": True}, "", valid=False)
    yield _cell(role, "APPROVE, too large", state, tenant, {"form": {"x": "y" * 70_000}}, "", valid=False)
    if WHEN["CANCEL"].get(state) is None:
        return
    # Only the plan of the run shows that there is no such step: role and tenant come first.
    unknown = {"stepId": "Nowhere"}
    yield _cell(role, "SKIP_STEP Nowhere", state, tenant, unknown, "SIGNAL_INVALID_PAYLOAD")
    yield _cell(role, "RETRY_STEP Nowhere", state, tenant, unknown, "SIGNAL_INVALID_PAYLOAD")
