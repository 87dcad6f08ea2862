"""Processes, and all that they start."""

import asyncio
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import msgspec
import pytest

from podium.runtime.tasks import families, proc, processes
from podium.runtime.tasks.families import Family, Strays
from podium.runtime.tasks.proc import Seen
from podium.runtime.tasks.processes import STATUS_LOST, Child, find_program, spawn
from tests.unit.tasks.engine import appears, is_alive, is_there, same_descriptors, zombies


def start(script: str, cwd: Path | None = None, **env: str) -> Child:
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        return spawn(
            ["sh", "-c", script],
            {**os.environ, **env},
            program="/bin/sh",
            cwd=cwd or Path.cwd(),
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
        )
    finally:
        os.close(nowhere)


@pytest.fixture(autouse=True)
def subreaper() -> None:
    processes.become_subreaper()


@pytest.mark.rule("D17")
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -15 $$", 143)])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_how_a_child_ended(tmp_path: Path, script: str, code: int, elsewhere: bool) -> None:
    async def wait() -> int:
        return await start(script, tmp_path if elsewhere else None).ended

    with same_descriptors():
        assert asyncio.run(wait()) == code


def test_a_child_that_has_ended_before_anybody_looked(tmp_path: Path) -> None:
    async def wait() -> int:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 9"], os.environ)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return await Child(pid).ended

    assert asyncio.run(wait()) == 9


def test_a_status_that_somebody_else_has_taken_is_a_failure() -> None:
    async def wait() -> int:
        child = start("exit 0")
        # Without the loop running: nobody of us has looked yet.
        os.waitpid(child.pid, 0)
        return await child.ended

    assert asyncio.run(wait()) == STATUS_LOST


def test_a_child_nobody_can_watch_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def full(pid: int) -> int:
        asked.append(pid)
        raise OSError(24, "Too many open files")

    async def try_it() -> None:
        monkeypatch.setattr(os, "pidfd_open", full)
        with pytest.raises(OSError, match="Too many"):
            start("sleep 1000")

    asyncio.run(try_it())
    assert [is_there(pid) for pid in asked] == [False]


def test_a_signal_never_hits_another_process_with_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda handle, number: sent.append(number))
    seen = proc.look(os.getpid())
    assert seen is not None
    with same_descriptors():
        proc.send(msgspec.structs.replace(seen, began=seen.began - 1), signal.SIGKILL)
        assert sent == []
        proc.send(seen, signal.SIGTERM)
        assert sent == [signal.SIGTERM]
        # One that is not there any more.
        proc.send(msgspec.structs.replace(seen, pid=2**22 + 1), signal.SIGKILL)
        assert sent == [signal.SIGTERM]


def test_a_name_with_brackets_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a) R (b"
    program.symlink_to("/bin/sleep")
    sleeper = subprocess.Popen([str(program), "1000"])
    try:
        seen = proc.look(sleeper.pid)
        assert seen is not None
        assert seen.parent == os.getpid()
    finally:
        sleeper.kill()
        sleeper.wait()


# A chain of processes, the last of which is in its own session, has lost its parent, and tells its number.
DAEMON = "setsid sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 1000\" & ' & wait; "


@pytest.mark.rule("D40")
@pytest.mark.parametrize("mark", ["session", "environment"])
def test_an_orphan_is_known_by_session_or_environment(tmp_path: Path, mark: str) -> None:
    script = DAEMON if mark == "environment" else "env -i sh -c 'echo $$ > pid; exec sleep 1000' & "

    async def stop() -> tuple[list[int], list[int]]:
        child = start(script, tmp_path, PODIUM_RUN_ID="r", PODIUM_VISIT="A#1")
        pid = int(await appears(tmp_path / "pid"))
        await child.ended
        family = Family("r", "A#1", child.pid)
        # Whose child one is that is about to end cannot be told: another test may have left it.
        found = [process.pid for process in family.members() if not process.is_ending]
        others = [process.pid for process in Family("r", "B#1", 1).members() if not process.is_ending]
        assert others == []
        assert await families.stop(family.members) == []
        return found, [pid]

    found, expected = asyncio.run(stop())
    assert found == expected
    assert not is_there(expected[0])


@pytest.mark.rule("D40")
def test_one_that_ignores_term_and_one_that_sleeps_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "GRACE_SECONDS", 0.2)

    async def stop() -> list[int]:
        script = (
            "trap '' TERM; (kill -STOP $(sh -c 'echo $PPID')) & echo $! $$ > pids; while :; do sleep 1; done"
        )
        child = start(script, tmp_path)
        pids = [int(pid) for pid in (await appears(tmp_path / "pids")).split()]
        assert await families.stop(Family("r", "A#1", child.pid).members, main=child) == []
        return pids

    assert not any(is_there(pid) for pid in asyncio.run(stop()))


@pytest.mark.rule("D40")
def test_a_family_that_grows_while_it_is_ended_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "GRACE_SECONDS", 0.1)
    grower = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for n in range(5000):\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    os.setsid()\n"
        "    time.sleep(0.002)\n"
        "    if n == 20: print('going', file=open('ready', 'w'))\n"
        "open('survived', 'w')\n"
    )
    (tmp_path / "grower.py").write_text(grower)

    async def stop() -> None:
        child = start(f"exec {sys.executable} grower.py", tmp_path, PODIUM_RUN_ID="r", PODIUM_VISIT="A#1")
        family = Family("r", "A#1", child.pid)
        await appears(tmp_path / "ready")
        assert await families.stop(family.members, main=child) == []
        assert family.members() == []

    asyncio.run(stop())
    assert not (tmp_path / "survived").exists()


def test_one_that_is_never_caught_is_not_taken_for_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever we look, there is one more that has just ended: it must have had a child."""
    numbers = count(10_000)
    ended: list[int] = []

    def children(_pid: int) -> list[int]:
        ended.append(next(numbers))
        return list(ended)

    monkeypatch.setattr(proc, "children", children)
    monkeypatch.setattr(proc, "look", lambda pid: Seen(pid, os.getpid(), pid, pid, "Z", is_ending=True))
    monkeypatch.setattr(families, "awaited", {1})
    assert [process.pid for process in Family("r", "A#1").members()] == [ended[-1]]


@pytest.mark.rule("D28")
def test_a_forced_stop_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "GRACE_SECONDS", 600)

    async def stop() -> None:
        child = start("trap '' TERM; echo > ready; while :; do sleep 0.01; done", tmp_path)
        await appears(tmp_path / "ready")
        async with asyncio.timeout(60):
            await families.stop(Family("r", "A", child.pid).members, main=child, forced=lambda: True)

    asyncio.run(stop())


@pytest.mark.parametrize("first", [True, False], ids=["first of its session", "further one"])
def test_orphans_that_ended_are_reaped_and_the_children_of_others_are_not(
    tmp_path: Path, first: bool
) -> None:
    orphan = "echo $$ > pid; exit 0"
    orphan = orphan if first else f'sh -c "{orphan}" & exit 0'.replace("$", "\\$")

    async def leave() -> int:
        child = start(f"setsid sh -c '{orphan}' & exit 0", tmp_path)
        await child.ended
        return int(await appears(tmp_path / "pid"))

    pid = asyncio.run(leave())
    others = [subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=new) for new in (True, False)]
    for other in others:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    while is_alive(pid) or (look := proc.look(pid)) is None or look.parent != os.getpid():
        os.sched_yield()
    strays = Strays()
    strays.reap()
    # Whose the first one of a session is will show: nobody waits for it.
    assert (pid in zombies()) == first
    assert [other.wait() for other in others] == [7, 7]
    strays.reap(older_than=0)
    assert pid not in zombies()


@pytest.mark.rule("D60")
def test_the_processes_of_a_run_are_found_wherever_they_are() -> None:
    def sleeping(run_id: str, directory: str) -> "subprocess.Popen[bytes]":
        marks = {"PODIUM_RUN_ID": run_id, "PODIUM_RUN_DIR": directory}
        return subprocess.Popen(["sleep", "1000"], env={**os.environ, **marks}, start_new_session=True)

    ours = sleeping("some-run", "/here/runs/some-run")
    others = [sleeping("some-run-2", "/here/runs/some-run-2"), sleeping("some-run", "/there/runs/some-run")]
    try:
        found = families.of_run("some-run", Path("/here/runs/some-run"))
        assert [process.pid for process in found] == [ours.pid]
    finally:
        for process in (ours, *others):
            process.kill()
            process.wait()


def test_a_program_is_looked_for_as_a_shell_would(tmp_path: Path) -> None:
    for folder in ("one", "two", "here"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one/tool").write_text("not executable")
    for file in ("two/tool", "here/tool"):
        (tmp_path / file).write_text("#!/bin/sh\n")
        (tmp_path / file).chmod(0o755)
    path = f"{tmp_path}/one:{tmp_path}/two"
    assert find_program("tool", path, tmp_path) == f"{tmp_path}/two/tool"
    # A relative folder is below where the program will run, not below where we do.
    assert find_program("tool", "here", tmp_path) == f"{tmp_path}/here/tool"
    assert find_program("here/tool", None, tmp_path) == f"{tmp_path}/here/tool"
    with pytest.raises(PermissionError):
        find_program("tool", f"{tmp_path}/one", tmp_path)
    with pytest.raises(FileNotFoundError):
        find_program("tool", "/nowhere", tmp_path)
