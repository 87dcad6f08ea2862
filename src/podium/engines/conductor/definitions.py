"""The task and workflow definitions that a worker registers, with a version that belongs to this adapter.

Every setting was tested on a server; each has its reason below. A newer adapter raises `VERSION`; an older
one then refuses to start, because it would overwrite settings that it does not know.
"""

from typing import Any, Final

from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.names import Names
from podium.engines.errors import EngineRefused

VERSION: Final = 1
# The death of a worker is detected after this time; heartbeats extend it.
RESPONSE_TIMEOUT_SECONDS: Final = 10
# Required by the server. No mail is sent to it.
_OWNER: Final = "podium@localhost.local"
_TASK_SETTINGS: Final = {
    # Conductor's retries are engine attempts; those of the plan are the machine's. With 0, one worker that was killed
    # ends the execution as TIMED_OUT.
    "retryCount": 1_000_000,
    "retryDelaySeconds": 0,
    "retryLogic": "FIXED",
    "timeoutPolicy": "RETRY",
    "timeoutSeconds": 0,
    "ownerEmail": _OWNER,
}
_WORKFLOW_SETTINGS: Final = {
    "version": VERSION,
    "schemaVersion": 2,
    "ownerEmail": _OWNER,
    # No timeout: with one, the death of a worker is not always detected in time.
    "timeoutSeconds": 0,
    "timeoutPolicy": "ALERT_ONLY",
    # Otherwise a completed execution can be restarted on Conductor's page.
    "restartable": False,
}


async def register(
    client: ConductorClient, names: Names, *, response_timeout: int = RESPONSE_TIMEOUT_SECONDS
) -> None:
    """Raises `EngineRefused` if the server has definitions of a newer adapter; nothing is changed then."""
    await require_own_version(client, names)
    await client.define(task_definitions(names, response_timeout), workflow_definitions(names))


async def require_own_version(client: ConductorClient, names: Names) -> None:
    for name in (names.run, names.step_run):
        newest = await client.newest_version(name)
        if newest is not None and newest > VERSION:
            raise EngineRefused(
                f"{client.connection.place} has version {newest} of the definition {name!r}, and this Podium knows "
                f"version {VERSION}: a newer Podium works with this store; install that version here, too"
            )


def task_definitions(names: Names, response_timeout: int = RESPONSE_TIMEOUT_SECONDS) -> list[dict[str, Any]]:
    settings = {**_TASK_SETTINGS, "responseTimeoutSeconds": response_timeout}
    return [{"name": name, **settings} for name in (names.decider, names.step)]


def workflow_definitions(names: Names) -> list[dict[str, Any]]:
    return [
        _workflow(
            names.run, names.decider, "decider", "a run of Podium; `podium runs show RUN` has its steps"
        ),
        _workflow(names.step_run, names.step, "step", "a step of a run of Podium, for any worker"),
    ]


def _workflow(name: str, task: str, reference: str, description: str) -> dict[str, Any]:
    only_task = {
        "name": task,
        "taskReferenceName": reference,
        "type": "SIMPLE",
        "inputParameters": {"order": "${workflow.input}"},
    }
    return {"name": name, "description": description, **_WORKFLOW_SETTINGS, "tasks": [only_task]}
