"""What an agent step costs beyond the program it asks: a whole run, against calling the same program directly.

The stand-in is the smallest program that answers as claude does; calling it directly means its prompt on standard input
and its answer read to the end, and nothing else. The real claude is measured too if the tests have installed it,
against a model server on loopback that answers at once.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from bench.report import Report, milliseconds
from podium.engines.local import LocalEngine
from podium.language.workflow import read_workflow
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.ports.provider import AgentRequest, AgentSettings
from podium.providers.claude import Claude
from podium.stores.sqlite import SqliteStore
from podium.wiring.agents import all_providers
from podium.wiring.stores import system_clock
from services import agents
from services.missing import ServiceMissing
from tests.agents.servers import ModelServer, Says

_MOST = 30.0
_PROMPT = "Say something.\n" * 100
_ANSWER = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "something",
    "session_id": "11111111-2222-4333-8444-555555555555",
    "total_cost_usd": 0.01,
    "usage": {"input_tokens": 10, "output_tokens": 10},
}


def run(report: Report) -> None:
    folder = Path(tempfile.mkdtemp(prefix="podium-bench-"))
    before, here = dict(os.environ), Path.cwd()
    try:
        _stand_in(report, folder / "small")
        _real(report, folder / "real")
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)


def _stand_in(report: Report, folder: Path) -> None:
    steps, rounds = 50, 5
    report.section(f"An agent step, {steps} in a row, the smallest program there is; median of {rounds}")
    words = f"#!/bin/sh\ncat > /dev/null\nprintf '%s\\n' '{json.dumps(_ANSWER)}'\n"
    _measure(report, _program(folder, words), steps, rounds, decides=True)


def _real(report: Report, folder: Path) -> None:
    try:
        agents.version()
        words = agents.find("claude")
    except ServiceMissing as missing:
        print(f"\nNo figures of the real claude: {missing}")
        return
    steps, rounds = 4, 3
    report.section(f"An agent step, {steps} in a row, the real claude; median of {rounds}")
    with ModelServer([Says("something")]) as server:
        os.environ.update(
            HOME=str(folder),
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="scripted",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )
        # Its own start takes half a second, give or take more than what is measured here.
        _measure(
            report, _program(folder, f"#!/bin/sh\nexec '{words[0]}' \"$@\"\n"), steps, rounds, decides=False
        )


def _program(folder: Path, words: str) -> Path:
    program = folder / "bin" / "claude"
    program.parent.mkdir(parents=True)
    program.write_text(words)
    program.chmod(0o755)
    return program


def _measure(report: Report, program: Path, steps: int, rounds: int, *, decides: bool) -> None:
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    # As `podium run` has it: the folder one is in is the workspace.
    os.chdir(program.parents[1])
    plan = _plan(steps)
    folder = program.parents[1]
    _directly(program, folder, 1)
    times: dict[str, list[float]] = {"called directly": [], "as a step": []}
    processor = 0.0
    for number in range(rounds):
        times["called directly"].append(_directly(program, folder, steps) / steps)
        before = time.process_time()
        times["as a step"].append(_driven(plan, folder / f"run{number}", folder) / steps)
        processor += time.process_time() - before
    for name, durations in times.items():
        report.figure(name, milliseconds(statistics.median(durations)))
    # What a busy machine does not change much.
    report.figure("processor time of Podium, per step", milliseconds(processor / rounds / steps))
    pairs = list(zip(times["as a step"], times["called directly"], strict=True))
    report.figure(
        "as a step / called directly", f"{statistics.median(ours / bare for ours, bare in pairs):.2f} x"
    )
    overhead = statistics.median(ours - bare for ours, bare in pairs) * 1000
    report.goal("what a step adds", overhead, at_most=_MOST, unit="ms", decides=decides)


def _plan(steps: int) -> Plan:
    prompt = json.dumps(_PROMPT)
    listed = "".join(
        f"  - {{name: s{n}, provider: claude, model: sonnet, access: read, args: [--bare], prompt: {prompt}}}\n"
        for n in range(steps)
    )
    plan = read_workflow(f'version: "2.0"\nname: bench\nsteps:\n{listed}'.encode(), "bench.yaml").plan
    assert plan is not None
    return plan


def _directly(program: Path, folder: Path, times: int) -> float:
    """With the same arguments, and a session of its own each time."""
    settings = AgentSettings(model="sonnet", access="read", args=("--bare",))
    began = time.perf_counter()
    for _ in range(times):
        call = Claude().prepare(AgentRequest(_PROMPT, folder, folder, str(uuid4()), settings))
        command = [str(program), *call.argv[1:]]
        subprocess.run(command, input=call.stdin, capture_output=True, check=True, cwd=folder)
    return time.perf_counter() - began


def _driven(plan: Plan, folder: Path, workspace: Path) -> float:
    async def drive() -> float:
        store = await SqliteStore.open(folder / "podium.db")
        engine = LocalEngine(store, system_clock(), folder, providers=all_providers)
        run_id = await engine.create(RunRequest(plan, workspace=workspace))
        began = time.perf_counter()
        ended = await engine.drive(run_id)
        took = time.perf_counter() - began
        assert ended.exit_code == 0, ended
        await store.close()
        return took

    return asyncio.run(drive())
