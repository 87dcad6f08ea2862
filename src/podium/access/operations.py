"""All operations, and the role that each requires. What is not listed is never allowed."""

from typing import Final, Literal, TypeAlias

import msgspec

from podium.access.roles import Role


class Operation(msgspec.Struct, frozen=True):
    """`name` is its name in audit records and messages."""

    name: str
    role: Role
    needs_reason: bool = False
    # Permissions are recorded, too; reading is recorded only if it is refused.
    changes: bool = True
    # Of a tenant: refused to a token that is for some of them only, which could reach the others by it.
    concerns_all_projects: bool = False


VIEW: Final = Operation("run.view", Role.VIEWER, changes=False)
START: Final = Operation("run.start", Role.OPERATOR)
RESUME: Final = Operation("run.resume", Role.OPERATOR)
RERUN: Final = Operation("run.rerun", Role.ENGINEER)
REPLACE_WORKFLOW: Final = Operation("run.replace-workflow", Role.ENGINEER)
IMPORT: Final = Operation("run.import", Role.ADMIN)
# Workers execute published plans: publishing means executing code there.
VALIDATE_PLAN: Final = Operation("plan.validate", Role.AUTHOR, changes=False)
PUBLISH_PLAN: Final = Operation("plan.publish", Role.AUTHOR)
VIEW_PLAN: Final = Operation("plan.view", Role.VIEWER, changes=False)
APPROVE_PLAN: Final = Operation("plan.approve", Role.APPROVER)
VIEW_SERVER: Final = Operation("server.view", Role.VIEWER, changes=False)
PRUNE: Final = Operation("run.prune", Role.ADMIN)
VIEW_SCHEDULES: Final = Operation("schedule.view", Role.VIEWER, changes=False)
# Pause, resume and trigger.
OPERATE_SCHEDULES: Final = Operation("schedule.operate", Role.OPERATOR)
# Add, replace, backfill and remove.
CHANGE_SCHEDULES: Final = Operation("schedule.change", Role.ENGINEER)
VIEW_HOOKS: Final = Operation("hook.view", Role.VIEWER, changes=False)
# Add and remove hooks, which give other systems access.
CHANGE_HOOKS: Final = Operation("hook.change", Role.ADMIN, concerns_all_projects=True)
READ_AUDIT: Final = Operation("audit.read", Role.AUDITOR, changes=False, concerns_all_projects=True)
# In all tenants: backup, rebuild, vacuum.
MAINTAIN: Final = Operation("store.maintain", Role.ADMIN)
# In all tenants: operations of a service that is not a person.
RELAY: Final = Operation("store.relay", Role.SYSTEM)
SERVE: Final = Operation("worker.serve", Role.SYSTEM)
LIST_TOKENS: Final = Operation("token.list", Role.OWNER, changes=False, concerns_all_projects=True)
ADD_TOKEN: Final = Operation("token.add", Role.OWNER, concerns_all_projects=True)
REMOVE_TOKEN: Final = Operation("token.remove", Role.OWNER, concerns_all_projects=True)
LIST_TENANTS: Final = Operation("tenant.list", Role.OWNER, changes=False, concerns_all_projects=True)
OPEN_TENANT: Final = Operation("tenant.open", Role.OWNER, concerns_all_projects=True)
CLOSE_TENANT: Final = Operation("tenant.close", Role.OWNER, concerns_all_projects=True)
VIEW_FLEET: Final = Operation("fleet.view", Role.VIEWER, changes=False)
DRAIN: Final = Operation("worker.drain", Role.OWNER, concerns_all_projects=True)
SET_LIMIT: Final = Operation("limit.set", Role.ADMIN, concerns_all_projects=True)

OperationName: TypeAlias = Literal[
    "run.view",
    "run.start",
    "run.resume",
    "run.rerun",
    "run.replace-workflow",
    "run.import",
    "run.prune",
    "schedule.view",
    "schedule.operate",
    "schedule.change",
    "hook.view",
    "hook.change",
    "plan.validate",
    "plan.publish",
    "plan.view",
    "plan.approve",
    "server.view",
    "audit.read",
    "store.maintain",
    "store.relay",
    "worker.serve",
    "token.list",
    "token.add",
    "token.remove",
    "tenant.list",
    "tenant.open",
    "tenant.close",
    "fleet.view",
    "worker.drain",
    "limit.set",
]
# All except signals.
NAMED: Final[dict[OperationName, Operation]] = {
    "run.view": VIEW,
    "run.start": START,
    "run.resume": RESUME,
    "run.rerun": RERUN,
    "run.replace-workflow": REPLACE_WORKFLOW,
    "run.import": IMPORT,
    "run.prune": PRUNE,
    "schedule.view": VIEW_SCHEDULES,
    "schedule.operate": OPERATE_SCHEDULES,
    "schedule.change": CHANGE_SCHEDULES,
    "hook.view": VIEW_HOOKS,
    "hook.change": CHANGE_HOOKS,
    "plan.validate": VALIDATE_PLAN,
    "plan.publish": PUBLISH_PLAN,
    "plan.view": VIEW_PLAN,
    "plan.approve": APPROVE_PLAN,
    "server.view": VIEW_SERVER,
    "audit.read": READ_AUDIT,
    "store.maintain": MAINTAIN,
    "store.relay": RELAY,
    "worker.serve": SERVE,
    "token.list": LIST_TOKENS,
    "token.add": ADD_TOKEN,
    "token.remove": REMOVE_TOKEN,
    "tenant.list": LIST_TENANTS,
    "tenant.open": OPEN_TENANT,
    "tenant.close": CLOSE_TENANT,
    "fleet.view": VIEW_FLEET,
    "worker.drain": DRAIN,
    "limit.set": SET_LIMIT,
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
