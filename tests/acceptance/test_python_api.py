"""Podium as a library: what a program that embeds it can rely on."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal
from weakref import ref

import pytest

import podium
from podium.ports.provider import AgentOutcome, AgentRequest, AgentSettings, Answered, Variable
from tests.acceptance.podium import Place, ended, until

HELLO = """
version: "2.0"
name: Hello
inputs: {city: {type: string, required: true}}
outputs: {greeting: "${steps.Greet.output}"}
steps:
  - {name: Greet, command: [echo, "Hello ${inputs.city}"]}
"""
SCORED = """
version: "2.0"
name: Scored
steps:
  - {name: Score, python: {function: score, args: {text: abc}}}
"""
SLEEPER = """
version: "2.0"
name: Sleeper
steps:
  - {name: Sleep, command: [sleep, "1000"]}
finally:
  - {name: Clean, command: [touch, cleaned]}
"""
APPROVAL = """
version: "2.0"
name: Release
steps:
  - name: Release
    approval: {message: "Release it?"}
  - {name: Publish, command: [echo, published]}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return Place(tmp_path)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def flow(text: str) -> podium.Workflow:
    return podium.Workflow.parse(text)


# --- running --------------------------------------------------------------------------------------


def test_run_blocks_and_gives_the_result(place: Place) -> None:
    place.write(HELLO, "hello.yaml")
    result = podium.run("hello.yaml", inputs={"city": "Oslo"}, run_id=place.run_id)
    assert (result.status, result.exit_code, result.ok) == ("completed", 0, True)
    assert result.outputs == {"greeting": "Hello Oslo"}
    assert result.steps["Greet"].output == "Hello Oslo"
    assert [event.type for event in result.events()] == [
        "RunQueued",
        "RunStarted",
        "StepStarted",
        "StepCompleted",
        "RunCompleted",
    ]
    assert (result.directory / "state.json").exists()
    assert place.run("runs", "show", place.run_id).stdout.startswith(f"{place.run_id}  COMPLETED")


def test_a_failed_run_is_a_result(place: Place) -> None:
    failing = podium.Workflow.from_dict(
        {
            "version": "2.0",
            "name": "f",
            "steps": [{"name": "Build", "command": ["sh", "-c", "echo é; exit 3"]}],
        }
    )
    result = podium.run(failing)
    assert (result.status, result.exit_code, result.ok) == ("failed", 1, False)
    assert (result.steps["Build"].status, result.steps["Build"].exit_code) == ("failed", 3)
    assert result.steps["Build"].output == "é"
    assert "exit code 3" in result.steps["Build"].error


def test_results_have_values_that_were_too_large_for_an_event(place: Place) -> None:
    large = "x" * 400_000

    def much() -> Any:
        return {"text": large}

    result = podium.run(
        flow('version: "2.0"\nname: w\nsteps: [{name: Much, python: much}]'), functions={"much": much}
    )
    assert result.steps["Much"].json == {"text": large}


@in_a_loop
async def test_run_works_inside_a_running_event_loop(place: Place) -> None:
    main = threading.get_ident()
    ran_in: list[int] = []

    async def score(text: str) -> int:
        ran_in.append(threading.get_ident())
        return len(text)

    assert podium.run(flow(SCORED), functions={"score": score}).steps["Score"].json == 3
    assert ran_in != [main]


# --- workflows that are wrong ---------------------------------------------------------------------


def test_an_invalid_workflow_raises_every_problem_with_its_position() -> None:
    with pytest.raises(podium.InvalidWorkflow) as raised:
        podium.Workflow.parse('version: "2.0"\nname: w\nsteps: [{name: a, comand: [x]}, {nam: b}]')
    assert raised.value.code == "INVALID_WORKFLOW"
    first = raised.value.diagnostics[0]
    assert (first.line, first.column, first.code) == (3, 19, "E402")
    assert len(raised.value.diagnostics) > 1
    assert "Did you mean 'command'?" in str(raised.value)


def test_a_workflow_of_data_has_positions_in_its_json() -> None:
    data = {"version": "2.0", "name": "a\x7f\u2028😀", "steps": [{"name": "a", "command": ["true"]}]}
    assert podium.Workflow.from_dict(data).name == data["name"]
    with pytest.raises(podium.InvalidWorkflow, match=r"<dict>:7:7: E402 'comand'"):
        podium.Workflow.from_dict(
            {"version": "2.0", "name": "w", "steps": [{"name": "a", "comand": ["true"]}]}
        )


def _nested(levels: int) -> list[Any]:
    data: list[Any] = []
    for _ in range(levels):
        data = [data]
    return data


@pytest.mark.parametrize("steps", [object(), b"x", {1, 2}, [float("nan")], _nested(5_000)], ids=type)
def test_a_workflow_that_is_not_plain_data_is_an_error_of_podium(steps: Any) -> None:
    with pytest.raises(podium.InvalidInput, match=r"the workflow is not plain data: .*; use dict"):
        podium.Workflow.from_dict({"version": "2.0", "name": "w", "steps": steps})


def test_half_of_a_surrogate_pair_in_a_workflow_is_reported_with_its_position() -> None:
    with pytest.raises(podium.InvalidWorkflow, match=r"<dict>:3:"):
        podium.Workflow.from_dict({"version": "2.0", "name": "\ud800", "steps": []})


def test_a_node_contract_is_read_as_one(place: Place) -> None:
    with pytest.raises(
        podium.InvalidWorkflow, match="'workflow_coordination' has no key 'workflow_definition'"
    ):
        podium.Workflow.parse("workflow_coordination: {}")


def test_an_unknown_or_missing_input_raises_before_anything_is_created(place: Place) -> None:
    with pytest.raises(podium.InvalidInput) as raised:
        podium.run(flow(HELLO))
    assert raised.value.code == "INVALID_INPUT"
    assert not list(place.runs.glob("*/plan.json"))


@pytest.mark.parametrize("value", [float("nan"), [1, {"two": float("inf")}]])
def test_a_number_that_json_does_not_have_is_not_recorded_as_null(place: Place, value: Any) -> None:
    text = 'version: "2.0"\nname: w\ninputs: {value: {type: %s}}\nsteps: [{name: Say, command: [echo]}]'
    type_ = "list" if isinstance(value, list) else "number"
    with pytest.raises(podium.InvalidInput, match="NaN or infinite"):
        podium.run(flow(text % type_), inputs={"value": value})
    assert not list(place.runs.glob("*/plan.json"))


def test_an_unreachable_store_raises_the_code_of_the_command_line() -> None:
    with pytest.raises(podium.StoreUnavailable) as raised:
        podium.run(flow(HELLO), inputs={"city": "x"}, store="postgresql://127.0.0.1:1/none?connect_timeout=1")
    assert raised.value.code == "STORE_UNAVAILABLE"


def test_a_run_id_that_is_in_use_raises(place: Place) -> None:
    podium.run(flow(HELLO), inputs={"city": "x"}, run_id="once")
    with pytest.raises(podium.RunExists):
        podium.run(flow(HELLO), inputs={"city": "x"}, run_id="once")


# --- functions ------------------------------------------------------------------------------------


@pytest.mark.rule("D69")
@in_a_loop
async def test_registered_functions_run_here_and_sync_ones_in_a_thread(place: Place) -> None:
    ran_in: dict[str, int] = {}

    def score(text: str) -> int:
        ran_in["score"] = threading.get_ident()
        return len(text)

    async def later(text: str) -> str:
        ran_in["later"] = threading.get_ident()
        return text.upper()

    text = SCORED + "  - {name: Later, python: {function: later, args: {text: '${steps.Score.json}b'}}}\n"
    async with podium.open(functions={"score": score, "later": later}) as p:
        result = await (await p.start(flow(text))).wait()
    assert (result.steps["Score"].json, result.steps["Later"].json) == (3, "3B")
    assert ran_in["later"] == threading.get_ident() != ran_in["score"]


@pytest.mark.rule("D69")
def test_a_function_that_raises_or_exits_fails_its_step_only(place: Place) -> None:
    def wrong() -> None:
        raise ValueError("no good")

    def leave() -> None:
        sys.exit(3)

    def stop() -> None:
        raise StopIteration

    text = """
version: "2.0"
name: w
steps:
  - {name: Wrong, python: wrong, on: {failure: {goto: Leave}}}
  - {name: Leave, python: leave, on: {failure: {goto: Stop}}}
  - {name: Stop, python: stop}
"""
    result = podium.run(flow(text), functions={"wrong": wrong, "leave": leave, "stop": stop})
    assert result.status == "failed"
    errors = {name: step.error for name, step in result.steps.items()}
    assert "no good" in errors["Wrong"]
    assert "SystemExit: 3" in errors["Leave"]
    assert "StopIteration" in errors["Stop"]


@pytest.mark.rule("D69")
def test_a_coroutine_function_that_is_cancelled_or_exits_fails_its_step_only(place: Place) -> None:
    text = """
version: "2.0"
name: Two
steps:
  - {name: Cancelled, python: cancelled, on: {failure: {goto: Left}}}
  - {name: Left, python: leave}
"""

    async def cancelled() -> None:
        work = asyncio.ensure_future(asyncio.sleep(1000))
        asyncio.get_running_loop().call_soon(work.cancel)
        await work

    async def leave() -> None:
        sys.exit(3)

    steps = podium.run(flow(text), functions={"cancelled": cancelled, "leave": leave}).steps
    assert (steps["Cancelled"].error, steps["Left"].error) == (
        "CancelledError",
        "RuntimeError: SystemExit: 3",
    )


@pytest.mark.rule("D69")
def test_a_function_that_hangs_is_given_up_at_its_timeout(place: Place) -> None:
    text = 'version: "2.0"\nname: w\nsteps: [{name: Hang, python: hang, timeout: 0.2}]'
    result = podium.run(flow(text), functions={"hang": threading.Event().wait})
    assert result.steps["Hang"].exit_code == 124


@pytest.mark.rule("D69")
def test_without_its_registration_a_run_is_neither_started_nor_resumed(place: Place) -> None:
    place.write(SCORED, "scored.yaml")
    with pytest.raises(podium.FunctionNotRegistered, match=r"step 'Score' calls the function 'score'"):
        podium.run("scored.yaml")
    told = place.run("run", "scored.yaml", code=78).stderr
    assert "FUNCTION_NOT_REGISTERED: step 'Score' calls the function 'score', which is not registered" in told

    def fail(text: str) -> None:
        raise ValueError

    assert podium.run("scored.yaml", run_id=place.run_id, functions={"score": fail}).status == "failed"
    before = len(place.events())
    with pytest.raises(podium.FunctionNotRegistered):
        podium.resume(place.run_id)
    assert "FUNCTION_NOT_REGISTERED" in place.run("resume", place.run_id, code=78).stderr
    assert len(place.events()) == before
    assert podium.resume(place.run_id, functions={"score": len_of}).steps["Score"].json == 3


@pytest.mark.rule("D30")
def test_a_cached_step_runs_again_when_its_function_has_changed(place: Place) -> None:
    text = SCORED.replace("args: {text: abc}}", "args: {text: abc}}, cache: true")

    def scored_by(score: Callable[[str], int]) -> tuple[Any, bool]:
        step = podium.run(flow(text), functions={"score": score}).steps["Score"]
        return step.json, "reusedFrom" in step.facts

    assert scored_by(lambda text: len(text)) == (3, False)
    assert scored_by(lambda text: len(text)) == (3, True)
    assert scored_by(lambda text: len(text) + 1) == (4, False)
    assert scored_by(lambda text: sum(map(len, text))) == (3, False)


def len_of(text: str) -> int:
    return len(text)


def test_what_cannot_be_a_function_is_refused() -> None:
    with pytest.raises(ValueError, match="'a:b' cannot be the name"):
        podium.open(functions={"a:b": len_of})
    with pytest.raises(TypeError, match="cannot be called"):
        podium.open(functions={"a": 3})  # type: ignore[dict-item]


# --- runs under way -------------------------------------------------------------------------------


@in_a_loop
async def test_a_run_can_be_paused_asked_about_and_approved(place: Place) -> None:
    async with podium.open("runs/podium.db") as p:
        run = await p.start(flow(APPROVAL), run_id="nightly-1")
        seen: list[str] = []
        async for event in run.events():
            seen.append(event.type)
            if event.type == "StepStarted":
                break
        explained = await run.why()
        assert any("Release" in reason.text for reason in explained.reasons)
        await run.pause("lunch")
        async for event in run.events():
            if event.type == "RunPaused":
                break
        assert await run.status() == "PAUSED"
        await run.resume()
        await run.approve("Release", by="release-team")
        result = await run.wait()
        assert (result.status, result.steps["Publish"].output) == ("completed", "published")
        assert (await run.why()).status == "COMPLETED"
        assert [event.type async for event in run.events()][-1] == "RunCompleted"
        claimed = [e.payload.get("claimedBy") for e in result.events() if e.step == "Release"]
        assert claimed[-1] == "release-team"


@in_a_loop
async def test_another_handle_follows_and_controls_a_run(place: Place) -> None:
    async with podium.open() as p, podium.open() as q:
        run = await p.start(flow(APPROVAL), run_id=place.run_id)
        other = await q.get(place.run_id)
        types = asyncio.create_task(collect(other))
        result = asyncio.create_task(other.wait())
        async for event in run.events():
            if event.type == "StepStarted":
                break
        await other.approve()
        assert (await result).status == (await run.wait()).status == "completed"
        assert (await types)[-1] == "RunCompleted"
        with pytest.raises(podium.RunNotFound):
            await q.get("none")


async def collect(run: podium.Run) -> list[str]:
    return [event.type async for event in run.events()]


@pytest.mark.rule("D28")
@in_a_loop
async def test_cancelling_a_task_that_waits_cancels_the_run(place: Place) -> None:
    async with podium.open() as p:
        run = await p.start(flow(SLEEPER), run_id=place.run_id)
        waiting = asyncio.create_task(run.wait())
        async for event in run.events():
            if event.type == "StepStarted":
                break
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await run.status() == "CANCELLED"
    assert (place.folder / "cleaned").exists()
    assert not place.processes()


@pytest.mark.rule("D28")
@in_a_loop
async def test_cancelling_run_async_cancels_the_run(place: Place) -> None:
    running = asyncio.create_task(podium.run_async(flow(SLEEPER), run_id=place.run_id))
    await until_it_sleeps(place)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert place.state()["status"] == "cancelled"
    assert (place.folder / "cleaned").exists()


@pytest.mark.rule("D28")
@in_a_loop
async def test_cancelled_twice_a_run_is_killed(place: Place) -> None:
    stubborn = SLEEPER.replace(
        '[sleep, "1000"]', "[sh, -c, 'trap \"\" TERM; touch asleep; while :; do sleep 1; done']"
    )
    async with podium.open() as p:
        run = await p.start(flow(stubborn), run_id=place.run_id)
        waiting = asyncio.create_task(run.wait())
        await until_true(lambda: (place.folder / "asleep").exists())
        waiting.cancel()
        async for event in run.events():
            if event.type == "SignalAccepted":
                break
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert place.state()["status"] == "cancelled"
    assert not (place.folder / "cleaned").exists()
    assert not place.processes()


@in_a_loop
async def test_leaving_the_events_of_a_run_cancels_nothing(place: Place) -> None:
    async with podium.open() as p:
        run = await p.start(flow(HELLO), inputs={"city": "x"})
        async for _event in run.events():
            break
        reading = asyncio.create_task(collect(run))
        await asyncio.sleep(0)
        reading.cancel()
        assert (await run.wait()).status == "completed"


@in_a_loop
async def test_leaving_the_store_waits_for_its_runs_and_an_exception_cancels_them(place: Place) -> None:
    async with podium.open() as p:
        await p.start(flow(HELLO), inputs={"city": "x"}, run_id=place.run_id)
    assert place.state()["status"] == "completed"
    with contextlib.suppress(ZeroDivisionError):
        async with podium.open() as p:
            await p.start(flow(SLEEPER), run_id=f"{place.run_id}-2")
            await until_it_sleeps(place, f"{place.run_id}-2")
            raise ZeroDivisionError
    assert place.state(f"{place.run_id}-2")["status"] == "cancelled"


async def until_it_sleeps(place: Place, run_id: str | None = None) -> None:
    await until_true(lambda: bool(place.processes(run_id)))


async def until_true(holds: Any) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come true")


@in_a_loop
async def test_cancel_ends_a_run(place: Place) -> None:
    async with podium.open() as p:
        run = await p.start(flow(SLEEPER), run_id=place.run_id)
        await until_it_sleeps(place)
        await run.cancel("enough")
        assert (await run.wait()).status == "cancelled"


@in_a_loop
async def test_cancel_ends_a_run_that_no_process_drives(place: Place) -> None:
    await podium.run_async(flow(APPROVAL), run_id=place.run_id, no_wait=True)
    async with podium.open() as p:
        run = await p.get(place.run_id)
        await run.cancel()
        assert (await run.wait()).status == "cancelled"
    assert place.state()["status"] == "cancelled"


@in_a_loop
async def test_a_run_that_is_driven_elsewhere_raises_the_code_of_the_command_line(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODIUM_LOCK_WAIT", "0.1")
    async with podium.open() as p, podium.open() as q:
        run = await p.start(flow(SLEEPER), run_id=place.run_id)
        await until_it_sleeps(place)
        with pytest.raises(podium.RunLocked) as raised:
            await q.resume(place.run_id)
        assert raised.value.code == "RUN_LOCKED"
        await run.cancel()


@in_a_loop
async def test_many_runs_at_the_same_time_from_one_process(place: Place) -> None:
    def double(number: int) -> int:
        return 2 * number

    text = """
version: "2.0"
name: Many
inputs: {number: {type: int, required: true}}
outputs: {doubled: "${steps.Double.json}"}
steps:
  - {name: Double, python: {function: double, args: {number: "${inputs.number}"}}}
  - {name: Say, command: [echo, "${steps.Double.json}"]}
"""
    async with podium.open(functions={"double": double}) as p:
        runs = [await p.start(flow(text), inputs={"number": number}) for number in range(100)]
        results = await asyncio.gather(*(run.wait() for run in runs))
    assert [result.outputs["doubled"] for result in results] == [2 * number for number in range(100)]
    assert [result.steps["Say"].output for result in results] == [str(2 * n) for n in range(100)]


@in_a_loop
async def test_a_program_that_keeps_the_store_open_keeps_no_ended_runs_in_memory(place: Place) -> None:
    async def run_one(p: podium.Podium) -> ref[Any]:
        run = await p.start(flow(SCORED.replace(", args: {text: abc}", "")))
        await run.wait()
        return ref(run._drive)

    async with podium.open(functions={"score": len}) as p:
        drives = [await run_one(p) for _ in range(3)]
        gc.collect()
        assert [drive() for drive in drives] == [None, None, None]


# --- continuing -----------------------------------------------------------------------------------


def test_a_failed_run_is_resumed_and_rerun(place: Place) -> None:
    text = 'version: "2.0"\nname: w\nsteps: [{name: A, command: [echo, a]}, {name: B, command: [test, -e, there]}]'
    assert podium.run(flow(text), run_id=place.run_id).status == "failed"
    (place.folder / "there").touch()
    result = podium.resume(place.run_id)
    assert (result.status, result.steps["A"].attempts, result.steps["B"].attempts) == ("completed", 1, 2)

    async def again() -> podium.Result:
        async with podium.open() as p:
            return await (await p.rerun(place.run_id, from_step="B")).wait()

    repeated = asyncio.run(again())
    assert (repeated.status, repeated.run_id != place.run_id) == ("completed", True)
    assert repeated.steps["A"].facts["reusedFrom"] == place.run_id


def test_a_run_is_left_when_only_a_person_can_make_progress(place: Place) -> None:
    result = podium.run(flow(APPROVAL), run_id=place.run_id, no_wait=True)
    assert (result.status, result.exit_code, result.ok) == ("waiting", 5, False)
    place.run("approve", place.run_id)
    assert podium.resume(place.run_id).status == "completed"


def test_if_exists_resume_gives_the_same_run_once_and_refuses_another_one(place: Place) -> None:
    first = podium.run(flow(HELLO), inputs={"city": "x"}, run_id="once", if_exists="resume")
    again = podium.run(flow(HELLO), inputs={"city": "x"}, run_id="once", if_exists="resume")
    assert (again.run_id, again.outputs, len(again.events())) == ("once", first.outputs, len(first.events()))
    with pytest.raises(podium.PodiumError) as raised:
        podium.run(flow(HELLO), inputs={"city": "y"}, run_id="once", if_exists="resume")
    assert raised.value.code == "RUN_REQUEST_CONFLICT"


EMBEDDING = """
import os, pathlib, sys, time
import podium

def first():
    with open("first", "a") as file:
        file.write("x")
    return os.getpid()

def second(pid):
    if not os.path.exists("go"):
        pathlib.Path("waiting").touch()
        time.sleep(1000)
    return [pid, os.getpid()]

flow = podium.Workflow.from_dict({
    "version": "2.0", "name": "embedded", "outputs": {"pids": "${steps.Second.json}"},
    "steps": [
        {"name": "First", "python": "first"},
        {"name": "Second", "python": {"function": "second", "args": {"pid": "${steps.First.json}"}}},
    ],
})
result = podium.run(
    flow, run_id=sys.argv[1], if_exists="resume", functions={"first": first, "second": second}
)
print(result.status, *result.outputs["pids"])
"""


@pytest.mark.rule("D31")
def test_a_program_that_is_killed_and_started_again_continues_its_run(place: Place) -> None:
    (place.folder / "program.py").write_text(EMBEDDING)

    def start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "program.py", place.run_id],
            cwd=place.folder,
            env=place.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    killed = start()
    until(lambda: (place.folder / "waiting").exists())
    killed.send_signal(signal.SIGKILL)
    ended(killed)
    (place.folder / "go").touch()
    again = start()
    code, out, err = ended(again)
    assert (code, err) == (0, "")
    assert out.split() == ["completed", str(killed.pid), str(again.pid)]
    assert (place.folder / "first").read_text() == "x"


INTERRUPTED = f"""
import asyncio, podium, sys

def main():
    podium.run(podium.Workflow.parse({SLEEPER!r}), run_id=sys.argv[1])

async def in_a_loop():
    main()

try:
    asyncio.run(in_a_loop()) if sys.argv[2] == "loop" else main()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.rule("D28")
@pytest.mark.parametrize("where", ["loop", "main"])
def test_ctrl_c_cancels_a_blocking_run(place: Place, where: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, place.run_id, where],
        cwd=place.folder,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(place.processes)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (0, "interrupted\n", "")
    assert place.state()["status"] == "cancelled"
    assert (place.folder / "cleaned").exists()


# --- providers ------------------------------------------------------------------------------------


class Parrot:
    """A `Provider` that answers by itself, without a program and without a network."""

    name = "parrot"
    program = None
    sessions: Literal["none"] = "none"
    needs_env: Sequence[Variable] = ()

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ()

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        return ()

    def prepare(self, request: AgentRequest) -> Answered:
        return Answered(AgentOutcome(f"parrot: {request.prompt}"), request.prompt)

    def observe(self, line: bytes) -> None:
        return None

    def interpret(self, request: AgentRequest, result: object) -> AgentOutcome:
        return self.prepare(request).outcome


def test_a_program_brings_its_own_provider_for_its_own_runs(place: Place) -> None:
    place.write("steps: [{name: Ask, provider: parrot, prompt: hello}]", "ask.yaml")
    result = podium.run("ask.yaml", providers={"parrot": Parrot()})
    assert result.steps["Ask"].output == "parrot: hello"
    with pytest.raises(podium.InvalidWorkflow, match="provider 'parrot' not found"):
        podium.run("ask.yaml")
    assert podium.Workflow.load("ask.yaml", providers=["parrot"]).name == "test"


def test_a_given_provider_takes_the_place_of_one_that_is_built_in(place: Place) -> None:
    text = 'version: "2.0"\nname: w\nsteps: [{name: Ask, provider: claude, prompt: hello}]'
    assert podium.run(flow(text), providers={"claude": Parrot()}).steps["Ask"].output == "parrot: hello"


# --- what it leaves alone -------------------------------------------------------------------------


def test_folders_are_private_and_the_umask_of_the_program_stays(place: Place) -> None:
    before = os.umask(0o022)
    try:
        podium.run(flow(HELLO), inputs={"city": "x"}, store="kept/here.db")
        assert os.umask(0o022) == 0o022
        assert (place.folder / "kept").stat().st_mode & 0o077 == 0
        assert len(list((place.folder / "kept").glob("*/plan.json"))) == 1
    finally:
        os.umask(before)


def test_the_package_exports_what_it_lists() -> None:
    for name in podium.__all__:
        assert getattr(podium, name) is not None
    program = "import sys, podium; print(*(name for name in sys.modules if name.startswith('podium.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["podium.version"]
    assert sorted(podium.__all__) == podium.__all__
