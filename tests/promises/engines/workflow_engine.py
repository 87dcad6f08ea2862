"""What every `WorkflowEngine` does, for programs that start runs and do not wait: a program of its own, so that it is
the same on every engine (`python -m tests.promises.engines.workflow_engine OPTIONS REFERENCE`)."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

import podium
from podium import PlanRef, RunContext, SignalRequest
from podium.log.engines import ConductorRunRef, EngineRunRef
from podium.ports.engine import WorkflowEngine

WORKFLOW = """version: "2.0"
name: w
inputs: {word: {type: string, required: true}}
steps:
  - {name: Ask, approval: {message: "${inputs.word}?"}}
  - {name: Say, command: [echo, "${inputs.word}"]}
"""


class WorkflowEnginePromises:
    """Subclasses give a fixture `options`: those of `podium.open`."""

    def test_a_run_is_started_once_and_ends_after_its_signal(
        self, options: Mapping[str, Any], tmp_path: Path
    ) -> None:
        keeps("started_once", options, tmp_path)

    def test_a_run_is_cancelled_by_its_reference(self, options: Mapping[str, Any], tmp_path: Path) -> None:
        keeps("cancelled", options, tmp_path)

    def test_what_cannot_be_started_is_refused(self, options: Mapping[str, Any], tmp_path: Path) -> None:
        keeps("refused", options, tmp_path)

    def test_a_signal_id_is_one_signal(self, options: Mapping[str, Any], tmp_path: Path) -> None:
        keeps("one_signal", options, tmp_path)


def keeps(promise: str, options: Mapping[str, Any], tmp_path: Path) -> None:
    """In a process of its own, with a plan that was published there."""
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    configure(tmp_path)
    config = str(tmp_path / "config.yaml")
    environment = {**os.environ, "PODIUM_CONFIG": config, "PYTHONPATH": os.pathsep.join(sys.path)}
    publish = ["-m", "podium", "publish", "w.yaml", "--to", f"file://{tmp_path}/plans/w.json", "--json"]
    arguments = (publish, ["-m", __name__, promise, json.dumps(dict(options)), "ref.json"])
    for words, output in zip(arguments, ("ref.json", "output"), strict=True):
        with (tmp_path / output).open("wb") as file:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=tmp_path,
                env=environment,
                stdout=file,
                stderr=subprocess.PIPE,
            )
        assert done.returncode == 0, done.stderr.decode()


def configure(folder: Path) -> None:
    """Plans may be published there."""
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(f"plans: {{file_root: {folder}/plans}}\n")


class Caller:
    """Of an engine, with a published plan."""

    def __init__(self, engine: WorkflowEngine, provider: str, plan: PlanRef) -> None:
        self.engine = engine
        self.provider = provider
        self.plan = plan

    def context(self, **changes: Any) -> RunContext:
        facts: dict[str, Any] = {
            "tenant_id": "default",
            "project_id": "web",
            "environment_id": "test",
            "run_id": f"r-{uuid4().hex[:12]}",
            "target_adapter": self.provider,
            "inputs": {"word": "hi"},
        }
        return RunContext(**facts | changes)

    async def until(self, ref: Any, status: str) -> Any:
        end = time.monotonic() + 60
        while (found := await self.engine.get_run_status(ref)).status != status:
            assert time.monotonic() < end, found
            await asyncio.sleep(0.05)
        return found


def approval(signal_id: str | None = None, **payload: Any) -> SignalRequest:
    return SignalRequest(signal_id=signal_id or str(uuid4()), signal_type="APPROVE", payload=payload)


async def started_once(caller: Caller) -> None:
    context = caller.context()
    ref = await caller.engine.start_run(caller.plan, context)
    assert ref.run_id == context.run_id
    assert ref.provider == caller.provider
    assert as_started(await caller.engine.start_run(caller.plan, context)) == ref
    running = await caller.until(ref, "RUNNING")
    assert (running.project_id, running.environment_id, running.plan_id) == ("web", "test", "w")
    assert as_started(running.engine_run_ref) == ref
    await answered(caller, ref)
    await caller.until(ref, "COMPLETED")
    assert as_started(await caller.engine.start_run(caller.plan, context)) == ref


def as_started(ref: EngineRunRef | None) -> EngineRunRef | None:
    """Without the execution that a Conductor server has assigned since."""
    return msgspec.structs.replace(ref, provider_run_id="") if isinstance(ref, ConductorRunRef) else ref


async def cancelled(caller: Caller) -> None:
    ref = await caller.engine.start_run(caller.plan, caller.context())
    await caller.until(ref, "RUNNING")
    await caller.engine.cancel_run(ref)
    await caller.until(ref, "CANCELLED")
    await caller.engine.cancel_run(ref)


async def refused(caller: Caller) -> None:
    context = caller.context(target_adapter="temporal" if caller.provider == "conductor" else "conductor")
    with pytest.raises(podium.PodiumError) as error:
        await caller.engine.start_run(caller.plan, context)
    assert error.value.code == "CAPABILITY_NOT_SUPPORTED"
    with pytest.raises(podium.InvalidInput):
        await caller.engine.start_run(caller.plan, caller.context(inputs={}))
    ref = await caller.engine.start_run(caller.plan, caller.context())
    with pytest.raises(podium.RunNotFound):
        await caller.engine.get_run_status(msgspec.structs.replace(ref, run_id="r-unknown"))
    await caller.engine.cancel_run(ref)
    await caller.until(ref, "CANCELLED")


async def one_signal(caller: Caller) -> None:
    ref = await caller.engine.start_run(caller.plan, caller.context())
    request = await answered(caller, ref)
    await caller.engine.signal(ref, request)
    with pytest.raises(podium.PodiumError) as error:
        await caller.engine.signal(ref, approval(request.signal_id, stepId="Ask"))
    assert error.value.code == "SIGNAL_DUPLICATE"
    await caller.until(ref, "COMPLETED")
    await caller.engine.signal(ref, request)


async def answered(caller: Caller, ref: Any) -> SignalRequest:
    """As soon as the run asks. Each try is a signal of its own: a refusal is final for its id."""
    end = time.monotonic() + 60
    while True:
        request = approval()
        try:
            await caller.engine.signal(ref, request)
            return request
        except podium.PodiumError as error:
            if error.code != "SIGNAL_IGNORED" or time.monotonic() > end:
                raise
        await asyncio.sleep(0.05)


PROMISES = {one.__name__: one for one in (started_once, cancelled, refused, one_signal)}


async def main(promise: str, options: str, reference: str) -> None:
    given = json.loads(options)
    plan = msgspec.json.decode(Path(reference).read_bytes(), type=PlanRef)
    async with podium.open(**given) as opened:
        await PROMISES[promise](Caller(opened.engine, given.get("engine", "local"), plan))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)
