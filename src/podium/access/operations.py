"""Everything that can be asked for, and the role that it needs. What is not listed is allowed to no one."""

from typing import Final, Literal, TypeAlias

import msgspec

from podium.access.roles import Role


class Operation(msgspec.Struct, frozen=True):
    """`name` is what audit records and messages call it."""

    name: str
    role: Role
    needs_reason: bool = False
    # Recorded when it is allowed, too; looking is recorded only if it is refused.
    changes: bool = True


VIEW: Final = Operation("run.view", Role.VIEWER, changes=False)
START: Final = Operation("run.start", Role.OPERATOR)
RESUME: Final = Operation("run.resume", Role.OPERATOR)
RERUN: Final = Operation("run.rerun", Role.ENGINEER)
REPLACE_WORKFLOW: Final = Operation("run.replace-workflow", Role.ENGINEER)
IMPORT: Final = Operation("run.import", Role.ADMIN)
PRUNE: Final = Operation("run.prune", Role.ADMIN)
READ_AUDIT: Final = Operation("audit.read", Role.AUDITOR, changes=False)
# In all tenants: backup, rebuild, vacuum.
MAINTAIN: Final = Operation("store.maintain", Role.ADMIN)
# In all tenants: what a service does that is not a person.
RELAY: Final = Operation("store.relay", Role.SYSTEM)
SERVE: Final = Operation("worker.serve", Role.SYSTEM)

OperationName: TypeAlias = Literal[
    "run.view",
    "run.start",
    "run.resume",
    "run.rerun",
    "run.replace-workflow",
    "run.import",
    "run.prune",
    "audit.read",
    "store.maintain",
    "store.relay",
    "worker.serve",
]
# All that are not signals.
NAMED: Final[dict[OperationName, Operation]] = {
    "run.view": VIEW,
    "run.start": START,
    "run.resume": RESUME,
    "run.rerun": RERUN,
    "run.replace-workflow": REPLACE_WORKFLOW,
    "run.import": IMPORT,
    "run.prune": PRUNE,
    "audit.read": READ_AUDIT,
    "store.maintain": MAINTAIN,
    "store.relay": RELAY,
    "worker.serve": SERVE,
}

SIGNALS: Final = {
    name: Operation(f"signal.{name}", role, needs_reason)
    for name, role, needs_reason in (
        ("PAUSE", Role.OPERATOR, False),
        ("RESUME", Role.OPERATOR, False),
        ("CANCEL", Role.OPERATOR, False),
        ("RETRY_STEP", Role.ENGINEER, False),
        ("RETRY_RUN", Role.ENGINEER, False),
        ("SKIP_STEP", Role.ENGINEER, False),
        ("APPROVE", Role.APPROVER, False),
        ("REJECT", Role.APPROVER, False),
        ("UPDATE_PARAMS", Role.ADMIN, True),
        ("INJECT_OVERRIDE", Role.ADMIN, True),
        ("UPDATE_TARGET", Role.ADMIN, True),
        ("EMERGENCY_STOP", Role.ADMIN, True),
        ("ESCALATE_ALERT", Role.SYSTEM, False),
    )
}
