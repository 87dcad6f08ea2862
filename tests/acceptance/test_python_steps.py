"""Python steps: functions in a warm process beside the runner, and trusted ones inside it."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from podium.ports.engine import Driving
from podium.runtime.tasks import families
from tests.unit.tasks.engine import Ended, appears, drive, is_alive, is_there, same_descriptors, sh, zombies

FUNCTIONS = '''
import asyncio, http, os, subprocess, sys, threading, time

calls = 0

def add(a, b=1):
    return {"sum": a + b, "pid": os.getpid()}

def count():
    global calls
    calls += 1
    return calls

def speak():
    print("to", "out")
    print("to err", file=sys.stderr)
    os.system("echo from a child")
    sys.stdout.write("no newline at the end")
    return "said"

def fail(text):
    def inner():
        raise ValueError(text)
    inner()

async def later(x):
    await asyncio.sleep(0)
    return [x]

async def later_fail():
    await asyncio.sleep(0)
    raise KeyError("gone")

def note_and_sleep(file):
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; exec setsid sleep 1000"])
    with open(file, "w") as opened:
        print(os.getpid(), child.pid, file=opened)
    time.sleep(1000)

def stubborn(file):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note_and_sleep(file)

def give(what):
    return {
        "set": {1}, "nan": float("nan"), "object": object(), "bytes": b"x", "surrogate": "\\ud800", "big": 10**300,
        "long": "x" * 2_000_000, "none": None, "int keys": {1: 2}, "text": "plain\\nlines\\n", "tuple": (1, "é"),
        "much": "x" * 100_000,
    }[what]

def endless():
    a = []
    a.append(a)
    return a

def leave(how):
    if how == "exit": sys.exit(3)
    if how == "os._exit": os._exit(5)
    if how == "kill": os.kill(os.getpid(), 9)
    if how == "interrupt": raise KeyboardInterrupt

def who():
    return [os.getcwd(), os.environ.get("COLOUR"), os.environ["PODIUM_STEP"], sys.path[0]]

def hog():
    return len(bytearray(400_000_000))

def daemon(file):
    subprocess.Popen(["sh", "-c", "setsid sleep 1000 & echo $! > " + file])
    while not os.path.exists(file) or not open(file).read():
        time.sleep(0.01)

def meet(n):
    """Two calls that each wait for the other."""
    open(f"here{n}", "w").close()
    while not os.path.exists(f"here{1 - n}"):
        time.sleep(0.01)
    return os.getpid()

def values():
    with open(os.environ["PODIUM_OUTPUT"], "w") as file:
        print("a=b", file=file)

def noisy_later():
    threading.Timer(0.2, lambda: os.write(1, b"late")).start()

def library():
    return http.HTTPStatus.OK.phrase

class Tools:
    @staticmethod
    def double(x): return 2 * x

value = 5
'''


def run(folder: Path, *steps: Any, **options: Any) -> Ended:
    write(folder)
    return asyncio.run(drive(folder, *steps, **options))


def write(folder: Path) -> None:
    (folder / "workspace").mkdir(exist_ok=True)
    (folder / "workspace/functions.py").write_text(FUNCTIONS)
    (folder / "workspace/broken.py").write_text("import no_such_library\n")
    (folder / "workspace/wrong.py").write_text("def f(:\n")


def call(function: str, name: str = "A", keys: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    return {"name": name, "python": {"function": f"functions:{function}", "args": args}, **(keys or {})}


# --- results --------------------------------------------------------------------------------------


@pytest.mark.rule("D69")
def test_the_result_is_data_for_other_steps(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        call("add", a="${context.n}"),
        {"name": "B", "command": ["echo", "${steps.A.json.sum}", "${steps.A.output}"]},
        {"name": "C", "python": "functions:count"},
        call("Tools.double", "D", x="${steps.A.json}"[:0] + "${steps.C.json}"),
        context={"n": 41},
    )
    pid = ended.step("A")["json"]["pid"]
    assert ended.step("B")["output"] == f'42 {{"sum": 42, "pid": {pid}}}\n'
    assert ended.step("D")["json"] == 2
    assert pid != os.getpid()


@pytest.mark.rule("D69")
def test_a_function_finds_what_the_calls_before_it_left(tmp_path: Path) -> None:
    ended = run(tmp_path, *({"name": name, "python": "functions:count"} for name in "ABC"))
    assert [ended.step(name)["json"] for name in "ABC"] == [1, 2, 3]


@pytest.mark.rule("D69")
def test_what_a_function_prints_is_the_log_of_its_step(tmp_path: Path) -> None:
    ended = run(tmp_path, call("speak"), call("add", "B", a=1), call("speak", "C"))
    for log in ("A", "C"):
        assert ended.log(f"{log}.1.out") == b"to out\nfrom a child\nno newline at the end"
        assert ended.log(f"{log}.1.err") == b"to err\n"
    assert ended.step("A")["output"] == "said"
    assert ended.step("A")["stderrTail"] == "to err\n"
    assert ended.log("B.1.out") == b""


def test_what_is_printed_after_the_call_is_nobodys(tmp_path: Path) -> None:
    ended = run(
        tmp_path, call("noisy_later"), call("add", "B", a=1), sh("sleep 0.4", "C"), call("add", "D", a=1)
    )
    assert [ended.log(f"{name}.1.out") for name in "ABCD"] == [b"", b"", b"", b""]


@pytest.mark.rule("D69")
@pytest.mark.parametrize(
    ("what", "result"),
    [("none", None), ("int keys", {"1": 2}), ("text", "plain\nlines\n"), ("tuple", [1, "é"])],
)
def test_results_that_are_json(tmp_path: Path, what: str, result: Any) -> None:
    ended = run(tmp_path, call("give", keys={"capture": "lines", "output_file": "out"}, what=what))
    payload = ended.step("A")
    assert payload["json"] == result
    written = (ended.directory / "artifacts/out").read_text()
    assert written == payload["output"]
    assert written == result if isinstance(result, str) else json.loads(written) == result
    if what == "text":
        assert payload["lines"] == ["plain", "lines"]


@pytest.mark.rule("D69")
@pytest.mark.parametrize("what", ["set", "nan", "object", "bytes", "surrogate", "long"])
def test_results_that_are_none(tmp_path: Path, what: str) -> None:
    ended = run(
        tmp_path, call("give", what=what, keys={"retry": {"attempts": 3, "delay": 0}}), call("count", "B")
    )
    code, error, message = ended.error("A")
    assert (code, error) == (1, "NOT_JSON")
    assert message.startswith("the function returned ")
    # Nothing would change by trying again.
    assert ended.step("A")["error"]["retryable"] is False


def test_a_result_without_an_end_is_no_json(tmp_path: Path) -> None:
    assert run(tmp_path, call("endless")).error("A")[1] == "NOT_JSON"


def test_a_large_result_is_handed_on(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        call("give", what="much"),
        {"name": "B", "command": ["true"], "when": {"expr": "len(${steps.A.json}) == 100000"}},
    )
    assert ended.step("B")["exitCode"] == 0


@pytest.mark.rule("D69")
def test_async_functions_are_awaited(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        call("later", x=1),
        call("later_fail", "B", {"allow_failure": True}),
        call("later", "C", x=2),
    )
    assert [ended.step(name)["json"] for name in "AC"] == [[1], [2]]
    assert ended.error("B") == (1, "PYTHON_ERROR", "KeyError: 'gone'")


@pytest.mark.rule("D64")
def test_what_was_expected_is_checked(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["other"]}
    ended = run(tmp_path, call("add", keys={"expect": {"schema": schema}}, a=1))
    assert ended.error("A")[1] == "EXPECTATION_FAILED"


def test_a_function_leaves_values_as_a_command_does(tmp_path: Path) -> None:
    assert run(tmp_path, call("values")).step("A")["outputs"] == {"a": "b"}


def test_a_function_sees_the_environment_and_folder_of_its_step(tmp_path: Path) -> None:
    (tmp_path / "workspace/sub").mkdir(parents=True)
    ended = run(
        tmp_path,
        call("who", keys={"env": {"COLOUR": "red"}}),
        call("who", "B", {"workdir": "sub"}),
        call("who", "C"),
    )
    workspace = str(tmp_path / "workspace")
    assert ended.step("A")["json"] == [workspace, "red", "A", workspace]
    assert ended.step("B")["json"] == [f"{workspace}/sub", None, "B", f"{workspace}/sub"]
    assert ended.step("C")["json"] == [workspace, None, "C", workspace]


def test_our_own_modules_are_not_in_the_way(tmp_path: Path) -> None:
    # runtime/tasks has an http.py, and it is where the worker's file lies.
    assert run(tmp_path, call("library")).step("A")["json"] == "OK"


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.rule("D69")
def test_an_exception_is_told_with_its_traceback_in_the_log(tmp_path: Path) -> None:
    ended = run(tmp_path, call("fail", text="not today"))
    assert ended.error("A") == (1, "PYTHON_ERROR", "ValueError: not today")
    log = ended.log("A.1.err").decode()
    assert log.startswith("Traceback (most recent call last):\n")
    assert "in inner\n" in log
    assert log.endswith("ValueError: not today\n")
    assert "worker.py" not in log
    assert ended.step("A")["stderrTail"] == log


@pytest.mark.rule("D69")
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("nowhere:f", (127, "FUNCTION_NOT_FOUND", "module 'nowhere' not found")),
        ("functions.sub:f", (1, "PYTHON_ERROR", "ModuleNotFoundError: No module named 'functions.sub'")),
        ("functions:missing", (127, "FUNCTION_NOT_FOUND", "the module 'functions' has no 'missing'")),
        (
            "functions:value",
            (127, "FUNCTION_NOT_FOUND", "'value' of the module 'functions' is not a function"),
        ),
        ("broken:f", (1, "PYTHON_ERROR", "ModuleNotFoundError: No module named 'no_such_library'")),
        ("wrong:f", (1, "PYTHON_ERROR", "SyntaxError: invalid syntax (wrong.py, line 1)")),
        (
            "functions:add",
            (1, "PYTHON_ERROR", "TypeError: add() missing 1 required positional argument: 'a'"),
        ),
    ],
)
def test_what_cannot_be_imported_or_called(
    tmp_path: Path, function: str, expected: tuple[int, str, str]
) -> None:
    ended = run(tmp_path, {"name": "A", "python": function})
    code, error, message = ended.error("A")
    if function == "functions.sub:f":
        # A module without modules: told as either, depending on the version of Python.
        assert message.startswith(("module ", "ModuleNotFoundError"))
        return
    assert (code, error) == expected[:2]
    assert message.startswith(expected[2])


@pytest.mark.rule("D69", "D17")
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("exit", (1, "PYTHON_ERROR", "SystemExit: 3")),
        ("interrupt", (1, "PYTHON_ERROR", "KeyboardInterrupt")),
        (
            "os._exit",
            (5, "PYTHON_ENDED", "the process of the function ended before it gave a result: exit code 5"),
        ),
        (
            "kill",
            (
                137,
                "PYTHON_ENDED",
                "the process of the function ended before it gave a result: killed by SIGKILL",
            ),
        ),
    ],
)
def test_a_function_that_leaves_fails_and_the_next_call_works(
    tmp_path: Path, how: str, expected: tuple[int, str, str]
) -> None:
    with same_descriptors():
        ended = run(tmp_path, call("leave", keys={"allow_failure": True}, how=how), call("add", "B", a=1))
    assert ended.error("A") == expected
    assert ended.step("B")["json"]["sum"] == 2


# --- ending ---------------------------------------------------------------------------------------


@pytest.mark.rule("D69", "D40")
@pytest.mark.parametrize("function", ["note_and_sleep", "stubborn"])
def test_a_timeout_ends_the_function_and_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setattr(families, "GRACE_SECONDS", 0.3)
    ended = run(
        tmp_path,
        call("count"),
        call(function, "B", {"timeout": 3, "allow_failure": True}, file="pids"),
        # A new process: what the first one knew is gone with it.
        call("count", "C"),
    )
    assert ended.error("B") == (124, "TIMEOUT", "it took longer than 3 seconds")
    for pid in map(int, (tmp_path / "workspace/pids").read_text().split()):
        assert not is_there(pid)
    assert ended.step("C")["json"] == 1


@pytest.mark.rule("D69", "D28")
def test_a_cancel_ends_the_function(tmp_path: Path) -> None:
    async def cancel(driving: Driving) -> None:
        await appears(tmp_path / "workspace/pids")
        driving.cancel("test")

    ended = run(tmp_path, call("note_and_sleep", file="pids"), meanwhile=cancel)
    assert ended.exit_code == 2
    assert not any(is_there(int(pid)) for pid in (tmp_path / "workspace/pids").read_text().split())


def test_what_a_function_leaves_behind_is_ended(tmp_path: Path) -> None:
    ended = run(tmp_path, call("daemon", file="pid"), sh("kill -0 $(cat pid)", "B", allow_failure=True))
    assert ended.step("A")["exitCode"] == 0
    assert ended.step("B")["exitCode"] != 0
    assert not is_alive(int((tmp_path / "workspace/pid").read_text()))


def test_the_processes_end_with_the_run(tmp_path: Path) -> None:
    # Other tests of this process may have left some.
    before = set(zombies())
    with same_descriptors():
        ended = run(tmp_path, call("add", a=1))
    assert not is_there(ended.step("A")["json"]["pid"])
    assert set(zombies()) <= before


@pytest.mark.rule("D69")
def test_calls_at_the_same_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        {"name": "Both", "parallel": [call("meet", "L", n=0), call("meet", "R", n=1)]},
    )
    assert ended.exit_code == 0
    assert ended.step("Both/L")["json"] != ended.step("Both/R")["json"]


@pytest.mark.rule("D45")
def test_a_function_has_the_limits_of_its_step(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        call("hog", keys={"limits": {"max_memory": "200M"}, "allow_failure": True}),
        call("hog", "B"),
    )
    assert ended.error("A") == (1, "PYTHON_ERROR", "MemoryError")
    assert ended.step("B")["json"] == 400_000_000


# --- in the runner itself -------------------------------------------------------------------------


@pytest.mark.rule("D69")
def test_registered_functions_run_in_this_process(tmp_path: Path) -> None:
    async def slow() -> None:
        await asyncio.sleep(1000)

    async def soon(x: int) -> int:
        return x

    def here(a: int) -> list[int]:
        return [a, os.getpid()]

    def bad() -> None:
        raise ValueError("no")

    inline = {"app:here": here, "app:soon": soon, "app:slow": slow, "app:bad": bad, "app:set": lambda: {1}}
    may_fail = {"allow_failure": True}
    ended = run(
        tmp_path,
        {"name": "A", "python": {"function": "app:here", "args": {"a": 1}}},
        {"name": "B", "python": {"function": "app:soon", "args": {"x": "${steps.A.json[0]}"}}},
        {"name": "C", "python": "app:slow", "timeout": 0.2, **may_fail},
        {"name": "D", "python": "app:bad", **may_fail},
        {"name": "E", "python": "app:set", **may_fail},
        inline=inline,
    )
    assert ended.step("A")["json"] == [1, os.getpid()]
    assert ended.step("B")["json"] == 1
    assert ended.error("C") == (124, "TIMEOUT", "it took longer than 0.2 seconds")
    assert ended.error("D") == (1, "PYTHON_ERROR", "ValueError: no")
    assert ended.error("E")[1] == "NOT_JSON"


@pytest.mark.rule("D69")
def test_a_registered_function_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    begun = asyncio.Event()
    ended_by = []

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended_by.append("cancel")
            raise

    async def cancel(driving: Driving) -> None:
        await begun.wait()
        driving.cancel("test")

    ended = run(tmp_path, {"name": "A", "python": "app:slow"}, inline={"app:slow": slow}, meanwhile=cancel)
    assert ended.exit_code == 2
    assert ended_by == ["cancel"]
