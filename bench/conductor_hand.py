"""What Podium is compared with on a Conductor server: workflows of SIMPLE tasks, written by hand, and their worker.

    python -m bench.conductor_hand WAY ADDRESS SLOTS       the worker, a process of its own

There are two ways to end a task. `tasks`: `POST /tasks`, then a poll for the next one. `update-v2`: the answer of
`POST /tasks/update-v2` is the next task of the same type, as the official clients do it.
"""

import asyncio
import subprocess
import sys
import time
from typing import Any, Final

import httpx2

TASKS: Final = "tasks"
UPDATE_V2: Final = "update-v2"
WAYS: Final = (TASKS, UPDATE_V2)
STEPS: Final = 100
BRANCHES: Final = 1_000
# Its result is what a step of Podium records.
_RESULT: Final = {"exitCode": 0, "json": None, "output": "null"}
# Only a poll that asks for one task answers as soon as there is one.
_POLL: Final = {"workerid": "hand", "count": "1", "timeout": "1000"}
_LOOK_SECONDS: Final = 0.01
_OWNER: Final = "bench@localhost.local"
_READY: Final = "ready"


def open_client(address: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    return httpx2.AsyncClient(
        base_url=f"{address}/api", timeout=60.0, limits=limits, verify=False, trust_env=False
    )


# --- definitions ----------------------------------------------------------------------------------


async def define(client: httpx2.AsyncClient, way: str) -> None:
    """The workflows of this way, whose tasks only its own worker polls."""
    task = {"name": _task(way), "ownerEmail": _OWNER, "retryCount": 0, "responseTimeoutSeconds": 600}
    (await client.post("/metadata/taskdefs", json=[task])).raise_for_status()
    flows = [
        _workflow(_sequence(way), [_simple(way, number) for number in range(STEPS)]),
        _workflow(_fan_out(way), [_FORK, _JOIN]),
    ]
    (await client.put("/metadata/workflow", json=flows)).raise_for_status()


def _workflow(name: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": _OWNER,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        "tasks": tasks,
    }


def _simple(way: str, number: int) -> dict[str, Any]:
    return {"name": _task(way), "taskReferenceName": f"s{number}", "type": "SIMPLE"}


_FORK: Final = {
    "name": "fork",
    "taskReferenceName": "fork",
    "type": "FORK_JOIN_DYNAMIC",
    "inputParameters": {"branches": "${workflow.input.branches}", "inputs": "${workflow.input.inputs}"},
    "dynamicForkTasksParam": "branches",
    "dynamicForkTasksInputParamName": "inputs",
}
_JOIN: Final = {"name": "join", "taskReferenceName": "join", "type": "JOIN"}


def _task(way: str) -> str:
    return f"hand_{way}"


def _sequence(way: str) -> str:
    return f"hand_sequence_{way}"


def _fan_out(way: str) -> str:
    return f"hand_fan_out_{way}"


# --- runs -----------------------------------------------------------------------------------------


async def run_sequence(client: httpx2.AsyncClient, way: str) -> str:
    """100 tasks, one after the other; the id of the execution, which has completed."""
    return await _run(client, _sequence(way), {})


async def run_fan_out(client: httpx2.AsyncClient, way: str, branches: int = BRANCHES) -> str:
    """As many tasks as there are branches, and a join."""
    tasks = [_simple(way, number) for number in range(branches)]
    order = {"branches": tasks, "inputs": {task["taskReferenceName"]: {} for task in tasks}}
    return await _run(client, _fan_out(way), order)


async def _run(client: httpx2.AsyncClient, name: str, order: dict[str, Any]) -> str:
    started = await client.post("/workflow", json={"name": name, "version": 1, "input": order})
    execution = started.raise_for_status().text.strip('"')
    while (status := await status_of(client, execution)) == "RUNNING":
        await asyncio.sleep(_LOOK_SECONDS)
    if status != "COMPLETED":
        raise RuntimeError(f"the workflow {name} ended as {status}")
    return execution


async def status_of(client: httpx2.AsyncClient, execution: str) -> str:
    found: dict[str, str] = (await client.get(f"/workflow/{execution}/status")).raise_for_status().json()
    return found["status"]


# --- the worker -----------------------------------------------------------------------------------


def start_worker(way: str, address: str, slots: int = 1) -> "subprocess.Popen[str]":
    """It polls when this returns. A worker with one slot is enough for a sequence."""
    command = [sys.executable, "-m", "bench.conductor_hand", way, address, str(slots)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline().strip() != _READY:
        raise RuntimeError(f"the worker {way!r} did not start")
    return process


async def _serve(way: str, address: str, slots: int) -> None:
    async with open_client(address) as client:
        await define(client, way)
        print(_READY, flush=True)
        await asyncio.gather(*(_work(client, way) for _ in range(slots)))


async def _work(client: httpx2.AsyncClient, way: str) -> None:
    task: dict[str, Any] | None = None
    while True:
        task = task or await _poll(client, way)
        if task is not None:
            task = await _end(client, way, task)


async def _poll(client: httpx2.AsyncClient, way: str) -> dict[str, Any] | None:
    answer = await client.get(f"/tasks/poll/batch/{_task(way)}", params=_POLL)
    found: list[dict[str, Any]] = answer.raise_for_status().json()
    return found[0] if found else None


async def _end(client: httpx2.AsyncClient, way: str, task: dict[str, Any]) -> dict[str, Any] | None:
    """The next task, if the answer has one."""
    ids = {"taskId": task["taskId"], "workflowInstanceId": task["workflowInstanceId"], "workerId": "hand"}
    body = {**ids, "status": "COMPLETED", "outputData": _RESULT}
    answer = await client.post("/tasks" if way == TASKS else "/tasks/update-v2", json=body)
    answer.raise_for_status()
    if way == TASKS or not answer.content:
        return None
    following: dict[str, Any] | None = answer.json()
    return following


async def measure(client: httpx2.AsyncClient, way: str, *, fan_out: bool = False) -> float:
    """Seconds for one run; its worker is there."""
    began = time.perf_counter()
    await (run_fan_out(client, way) if fan_out else run_sequence(client, way))
    return time.perf_counter() - began


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
