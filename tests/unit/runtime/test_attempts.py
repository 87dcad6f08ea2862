"""Attempts on a worker that serves many runs: one worker at a time carries out an attempt, and records its end once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.errors import StaleFence, StoreUnavailable
from podium.log.drafts import EventDraft
from podium.log.leases import AttemptClaim, Fence
from podium.machine.commands import Question
from podium.plan.changes import StepChange
from podium.runtime import holders
from podium.runtime.attempt_lease import AttemptTakenOver
from podium.runtime.attempts import AttemptNotStarted
from podium.runtime.engine_attempt import StopRequest, WorkerStopped
from podium.runtime.tasks import families
from tests.unit.runtime.working import Worked, started_run
from tests.unit.tasks.engine import sh

PATIENCE = 60.0
# Hangs the first time, and ends the second time.
HANGS_ONCE = "echo x >> starts; test -e hung && exit 0; touch hung; echo $$ > pid; exec sleep 300"


def scenario(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class CountedStore:
    """A store that counts its transactions and can be away."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes: list[str] = []
        self.is_away = False
        # Does what it is asked for, and does not answer.
        self.loses_answers_of: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("append", "start_attempt", "claim", "renew", "release", "keep", "read", "get_run"):
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            if self.is_away:
                raise StoreUnavailable("away")
            if name not in ("read", "get_run"):
                self.writes.append(name)
            answer = await method(*arguments, **options)
            if name in self.loses_answers_of:
                self.loses_answers_of.discard(name)
                raise StoreUnavailable("the answer was lost")
            return answer

        return call


@contextmanager
def worker_process(run: Worked, *paths: str, ttl: float = 5.0) -> Iterator[subprocess.Popen[str]]:
    arguments = [str(run.folder), run.run_id, str(run.lease.fence.generation), str(ttl), *paths]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.runtime.working_process", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


# --- an attempt -----------------------------------------------------------------------------------


@pytest.mark.rule("SS07")
def test_a_worker_carries_out_the_step_as_a_signal_has_changed_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo $N", env={"N": "plan"})) as run:
            worker = run.worker()
            change = msgspec.to_builtins(StepChange(("s1",), {"env": {"N": "${context.x}"}}))
            order = msgspec.structs.replace(run.order("A"), change=change)
            ended = await worker.perform(order, run.lease.fence)
            assert ended.end is not None
            assert ended.end.payload["output"] == "${context.x}\n"
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN06")
def test_an_attempt_is_recorded_with_what_precedes_it_and_its_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            worker = run.worker()
            ended = await worker.perform(run.order("A"), run.lease.fence)
            assert ended.before.run_seqs == [3]
            assert ended.end is not None
            assert (ended.end.run_seq, ended.end.event_type) == (4, "StepCompleted")
            assert ended.end.payload["output"] == "hello\n"
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 1)]
            record = (await run.log())[3]
            assert (ended.end.at, ended.end.engine_attempt) == (record.emitted_at, record.engine_attempt_id)
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN06")
def test_a_step_costs_two_transactions(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true"), sh("true", "B")) as run:
            store: Any = CountedStore(run.store)
            worker = run.worker(store=store)
            for path in ("A", "B"):
                await worker.perform(run.order(path), run.lease.fence)
            assert store.writes == ["start_attempt", "append"] * 2
            await worker.close()

    scenario(test)


@pytest.mark.rule("G13")
def test_an_attempt_whose_end_is_in_the_log_is_not_carried_out(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo x >> starts")) as run:
            one, other = run.worker(), run.worker()
            first = await one.perform(run.order("A"), run.lease.fence)
            await one.write(run.run_id, run.lease.fence, [EventDraft("RunCompleted")])
            second = await other.perform(run.order("A"), run.lease.fence)
            assert second == first
            assert run.file("starts").read_text() == "x\n"
            await one.close()
            await other.close()

    scenario(test)


@pytest.mark.rule("EN06")
def test_an_attempt_of_a_run_that_belongs_to_another_engine_is_not_started(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo x >> starts")) as run:
            worker = run.worker()
            with pytest.raises(StaleFence):
                await worker.perform(run.order("A"), Fence(99))
            assert not run.file("starts").exists()
            assert await run.of_step("A") == []
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN06")
def test_a_run_that_cannot_be_prepared_starts_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            worker = run.worker()
            workspace = tmp_path / "workspace"
            workspace.rename(tmp_path / "away")
            with pytest.raises(AttemptNotStarted, match="workspace"):
                await worker.perform(run.order("A"), run.lease.fence)
            assert await run.of_step("A") == []
            (tmp_path / "away").rename(workspace)
            await worker.perform(run.order("A"), run.lease.fence)
            await worker.close()

    scenario(test)


# --- two engine attempts --------------------------------------------------------------------------


@pytest.mark.rule("G45")
def test_a_second_engine_attempt_in_one_process_stops_the_first_and_waits_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh(HANGS_ONCE)) as run:
            worker = run.worker()
            first = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await until(run.file("pid").exists)
            second = await worker.perform(run.order("A"), run.lease.fence)
            with pytest.raises(AttemptTakenOver):
                await first
            assert second.end is not None
            assert not is_alive(int(run.file("pid").read_text()))
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 2)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_of_three_engine_attempts_in_one_process_the_last_one_works(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh(HANGS_ONCE)) as run:
            worker = run.worker()
            first = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await until(run.file("pid").exists)
            others = [asyncio.create_task(worker.perform(run.order("A"), run.lease.fence)) for _ in range(2)]
            answers = await asyncio.gather(first, *others, return_exceptions=True)
            assert [type(answer).__name__ for answer in answers] == [
                *("AttemptTakenOver", "AttemptTakenOver", "AttemptEnd")
            ]
            assert run.file("starts").read_text() == "x\nx\n"
            await worker.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_an_attempt_that_another_worker_carries_out_is_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(
            tmp_path, sh("echo x >> starts; until test -e go; do sleep 0.05; done")
        ) as run:
            one, other = run.worker(), run.worker()
            first = asyncio.create_task(one.perform(run.order("A"), run.lease.fence))
            await until(run.file("starts").exists)
            second = asyncio.create_task(other.perform(run.order("A"), run.lease.fence))
            await asyncio.sleep(1)
            run.file("go").touch()
            assert await second == await first
            assert run.file("starts").read_text() == "x\n"
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 1)]
            await one.close()
            await other.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_the_lease_of_an_attempt_does_not_lapse_while_its_worker_works(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(
            tmp_path, sh("echo x >> starts; until test -e go; do sleep 0.05; done")
        ) as run:
            ttl = timedelta(seconds=1.5)
            one, other = run.worker(lease=ttl), run.worker(lease=ttl)
            first = asyncio.create_task(one.perform(run.order("A"), run.lease.fence))
            await until(run.file("starts").exists)
            second = asyncio.create_task(other.perform(run.order("A"), run.lease.fence))
            await asyncio.sleep(4)
            run.file("go").touch()
            assert (await first).end is not None
            assert await second == await first
            assert run.file("starts").read_text() == "x\n"
            await one.close()
            await other.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_a_worker_whose_attempt_was_taken_over_stops_its_work_and_records_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh(HANGS_ONCE)) as run:
            worker = run.worker(lease=timedelta(seconds=1))
            first = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await until(run.file("pid").exists)
            claim = AttemptClaim(
                step_id="A", logical_attempt_id=1, owner="another", ttl=timedelta(seconds=60)
            )
            held = await run.store.start_attempt(run.run_id, [], fence=run.lease.fence, claim=claim)
            assert held.holder is not None
            await run.store.release(held.holder)
            taken = await run.store.start_attempt(run.run_id, [], fence=run.lease.fence, claim=claim)
            assert taken.lease is not None
            with pytest.raises(AttemptTakenOver):
                await first
            assert not is_alive(int(run.file("pid").read_text()))
            assert await run.of_step("A") == [("StepStarted", 1)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_an_end_that_comes_after_a_takeover_is_not_recorded(tmp_path: Path) -> None:
    """The first worker finds out only when it records the end."""

    async def test() -> None:
        async with started_run(tmp_path, sh("touch up; until test -e go; do sleep 0.05; done")) as run:
            worker = run.worker(lease=timedelta(seconds=300))
            first = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await until(run.file("up").exists)
            claim = AttemptClaim(step_id="A", logical_attempt_id=1, owner="b", ttl=timedelta(seconds=60))
            held = await run.store.start_attempt(run.run_id, [], fence=run.lease.fence, claim=claim)
            assert held.holder is not None
            await run.store.release(held.holder)
            await run.store.start_attempt(run.run_id, [], fence=run.lease.fence, claim=claim)
            run.file("go").touch()
            with pytest.raises(AttemptTakenOver):
                await first
            assert await run.of_step("A") == [("StepStarted", 1)]
            await worker.close()

    scenario(test)


# --- workers that die -----------------------------------------------------------------------------


def hanging(name: str) -> dict[str, Any]:
    return sh(
        f"echo x >> starts{name}; test -e hung{name} && exit 0; touch hung{name}; echo $$ > pid{name}; exec sleep 300",
        name,
    )


@pytest.mark.rule("G13", "G45")
def test_what_a_killed_worker_left_of_an_attempt_is_stopped_and_nothing_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A"), hanging("B")) as run:
            with worker_process(run, "A+B", ttl=300) as process:
                await until(lambda: run.file("pidA").exists() and run.file("pidB").exists())
                pids = [int(run.file(f"pid{name}").read_text()) for name in "AB"]
                process.kill()
                process.wait()
            assert [is_alive(pid) for pid in pids] == [True, True]
            worker = run.worker()
            # Its lease would be live for minutes: a process of this host that is gone is not waited for.
            ended = await worker.perform(run.order("A"), run.lease.fence)
            assert ended.end is not None
            assert [is_alive(pid) for pid in pids] == [False, True]
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 2)]
            await worker.perform(run.order("B"), run.lease.fence)
            assert not is_alive(pids[1])
            await worker.close()

    scenario(test)


@pytest.mark.rule("G13")
def test_a_python_function_that_a_killed_worker_left_running_is_stopped(tmp_path: Path) -> None:
    """Its process was started for an earlier step."""
    code = """
import os, pathlib, time
def first(): pass
def hang(name):
    if not pathlib.Path("hung" + name).exists():
        pathlib.Path("hung" + name).touch()
        pathlib.Path("pid" + name).write_text(str(os.getpid()))
        time.sleep(300)
"""
    steps: list[dict[str, Any]] = [
        {"name": "F", "python": "work:first"},
        {"name": "A", "python": {"function": "work:hang", "args": {"name": "A"}}},
        {"name": "B", "python": {"function": "work:hang", "args": {"name": "B"}}},
    ]

    async def test() -> None:
        (tmp_path / "workspace").mkdir()
        (tmp_path / "workspace" / "work.py").write_text(code)
        async with started_run(tmp_path, *steps) as run:
            with worker_process(run, "F", "A+B", ttl=300) as process:
                await until(lambda: run.file("pidA").exists() and run.file("pidB").exists())
                await until(lambda: all(run.file(f"pid{name}").read_text() for name in "AB"))
                pids = [int(run.file(f"pid{name}").read_text()) for name in "AB"]
                process.kill()
                process.wait()
            worker = run.worker()
            ended = await worker.perform(run.order("A"), run.lease.fence)
            assert ended.end is not None
            assert ended.end.event_type == "StepCompleted"
            assert [is_alive(pid) for pid in pids] == [False, True]
            await worker.perform(run.order("B"), run.lease.fence)
            assert not is_alive(pids[1])
            await worker.close()

    scenario(test)


def test_the_worktree_of_an_attempt_that_a_killed_worker_left_is_removed_and_no_other(tmp_path: Path) -> None:
    def agent(name: str) -> dict[str, Any]:
        script = f"test -e ../hung{name} && exit 0; touch ../hung{name}; sleep 300"
        script = script.replace("..", str(tmp_path / "workspace"))
        return {"name": name, "provider": "mine", "prompt": script, "workspace": "worktree"}

    async def test() -> None:
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        author = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run(["git", *author, *words], cwd=workspace, check=True)
        providers = {"mine": {"argv": ["sh", "-c", "sh -e && echo done"]}}
        async with started_run(tmp_path, agent("A"), agent("B"), providers=providers) as run:
            with worker_process(run, "A+B", ttl=300) as process:
                await until(lambda: run.file("hungA").exists() and run.file("hungB").exists())
                process.kill()
                process.wait()
            worktrees = tmp_path / "runs" / run.run_id / "worktrees"
            left = {path.name for path in worktrees.iterdir() if path.is_dir()}
            assert len(left) == 2
            worker = run.worker()
            for path, still in (("A", 1), ("B", 0)):
                ended = await worker.perform(run.order(path), run.lease.fence)
                assert ended.end is not None
                assert ended.end.event_type == "StepCompleted", ended.end.payload
                assert len({path.name for path in worktrees.iterdir() if path.is_dir()}) == still
            await worker.close()

    scenario(test)


@pytest.mark.rule("G45")
def test_a_worker_that_was_frozen_and_thaws_records_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            with worker_process(run, "A", ttl=1) as process:
                await until(run.file("pidA").exists)
                process.send_signal(signal.SIGSTOP)
                worker = run.worker()
                ended = await worker.perform(run.order("A"), run.lease.fence)
                assert ended.end is not None
                process.send_signal(signal.SIGCONT)
                output, _ = await asyncio.to_thread(process.communicate)
            # It may also find the end of the other: then it returns that.
            assert output in ("ATTEMPT_TAKEN_OVER\n", "StepCompleted\n")
            assert run.file("startsA").read_text() == "x\nx\n"
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 2)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("G13", "G43")
def test_a_step_that_must_not_be_repeated_is_interrupted_instead_of_run_again(tmp_path: Path) -> None:
    async def test() -> None:
        step = {**hanging("A"), "idempotent": False}
        async with started_run(tmp_path, step) as run:
            with worker_process(run, "A", ttl=300) as process:
                await until(run.file("pidA").exists)
                process.kill()
                process.wait()
            worker = run.worker()
            ended = await worker.perform(run.order("A"), run.lease.fence)
            assert ended.end is not None
            assert ended.end.event_type == "StepInterrupted"
            assert run.file("startsA").read_text() == "x\n"
            assert not is_alive(int(run.file("pidA").read_text()))
            assert await run.of_step("A") == [("StepStarted", 1), ("StepInterrupted", 2)]
            await worker.close()

    scenario(test)


# --- a store that is away -------------------------------------------------------------------------


@pytest.mark.rule("G17")
def test_the_end_of_an_attempt_is_kept_while_the_store_is_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(
            tmp_path, sh("echo x >> starts; until test -e go; do sleep 0.05; done")
        ) as run:
            store: Any = CountedStore(run.store)
            outages: list[str] = []
            worker = run.worker(
                store=store, lease=timedelta(seconds=1), on_outage=lambda e: outages.append(str(e))
            )
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await until(run.file("starts").exists)
            store.is_away = True
            run.file("go").touch()
            await asyncio.sleep(3)
            assert not performing.done()
            store.is_away = False
            ended = await performing
            assert ended.end is not None
            assert len(outages) > 2
            assert run.file("starts").read_text() == "x\n"
            assert [kind for kind, _ in await run.of_step("A")] == ["StepStarted", "StepCompleted"]
            await worker.close()

    scenario(test)


@pytest.mark.rule("G43")
def test_no_work_starts_before_its_start_is_in_the_log(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo x >> starts", idempotent=False)) as run:
            store: Any = CountedStore(run.store)
            worker = run.worker(store=store)
            await worker.ask(run.run_id, [])  # it is prepared already
            store.is_away = True
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence))
            await asyncio.sleep(1)
            assert not run.file("starts").exists()
            store.is_away = False
            store.loses_answers_of = {"start_attempt", "append"}
            ended = await performing
            # The answer that says that it may start was lost: it has not started, so there is no doubt.
            assert ended.end is not None
            assert ended.end.event_type == "StepCompleted"
            assert run.file("starts").read_text() == "x\n"
            await worker.close()

    scenario(test)


# --- stopping -------------------------------------------------------------------------------------


@pytest.mark.rule("EN07")
def test_a_stopped_attempt_ends_its_processes_and_leaves_its_end_to_the_caller(tmp_path: Path) -> None:
    async def test() -> None:
        script = "echo partial; trap ': > asked; exit 3' TERM; echo $$ > pid; while :; do sleep 0.05; done"
        async with started_run(tmp_path, sh(script)) as run:
            worker, stop = run.worker(), StopRequest()
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence, stop))
            await until(run.file("pid").exists)
            stop.ask()
            ended = await performing
            assert ended.end is None
            assert ended.stopped is not None
            assert "error" not in ended.stopped
            assert run.file("asked").exists()
            assert not is_alive(int(run.file("pid").read_text()))
            assert await run.of_step("A") == [("StepStarted", 1)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
@pytest.mark.parametrize("before_it_started", [False, True])
def test_the_caller_can_end_an_attempt_as_soon_as_it_is_stopped_and_not_before(
    tmp_path: Path, before_it_started: bool
) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            # It does not lapse in this test.
            worker, stop = run.worker(lease=timedelta(seconds=300)), StopRequest()
            if before_it_started:
                stop.ask()
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence, stop))
            end = EventDraft("StepFailed", "A", 1)
            if not before_it_started:
                await until(run.file("pidA").exists)
                with pytest.raises(StaleFence, match="under the lease of that attempt"):
                    await worker.write(run.run_id, run.lease.fence, [end])
                stop.ask()
            assert (await performing).stopped is not None
            await worker.write(run.run_id, run.lease.fence, [end])
            assert await run.of_step("A") == [("StepStarted", 1), ("StepFailed", 1)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
def test_a_forced_stop_kills_immediately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than any test may take: it ends only if force does not wait for it.
    monkeypatch.setattr(families, "GRACE_SECONDS", 1000.0)

    async def test() -> None:
        script = "trap '' TERM; sleep 300 & echo $! > child; echo $$ > pid; while :; do sleep 0.05; done"
        async with started_run(tmp_path, sh(script)) as run:
            worker, stop = run.worker(), StopRequest()
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence, stop))
            await until(run.file("pid").exists)
            stop.ask()
            await asyncio.sleep(0.3)
            assert not performing.done()
            stop.ask(force=True)
            ended = await performing
            assert ended.stopped is not None
            assert not is_alive(int(run.file("pid").read_text()))
            assert not is_alive(int(run.file("child").read_text()))
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
def test_an_attempt_that_was_stopped_before_it_started_does_no_work(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("touch up")) as run:
            worker, stop = run.worker(), StopRequest()
            stop.ask()
            ended = await worker.perform(run.order("A"), run.lease.fence, stop)
            assert ended.stopped == {}
            assert not run.file("up").exists()
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
def test_a_stop_reaches_an_attempt_that_another_worker_carries_out(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            with worker_process(run, "A", ttl=3) as process:
                await until(run.file("pidA").exists)
                worker, stop = run.worker(), StopRequest()
                performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence, stop))
                await asyncio.sleep(0.5)
                stop.ask()
                ended = await performing
                assert ended.stopped == {}
                assert not is_alive(int(run.file("pidA").read_text()))
                output, _ = await asyncio.to_thread(process.communicate)
            assert output == "ATTEMPT_TAKEN_OVER\n"
            assert await run.of_step("A") == [("StepStarted", 1)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
def test_an_abandoned_attempt_is_stopped_and_can_be_recorded_as_interrupted(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            with worker_process(run, "A", ttl=3) as process:
                await until(run.file("pidA").exists)
                worker = run.worker()
                stop = StopRequest()
                stop.ask(force=True)
                left = await worker.perform(run.order("A"), run.lease.fence, stop)
                assert (left.end, left.stopped) == (None, {})
                assert not is_alive(int(run.file("pidA").read_text()))
                end = EventDraft("StepInterrupted", "A", 1)
                await worker.write(run.run_id, run.lease.fence, [end])
                output, _ = await asyncio.to_thread(process.communicate)
            assert output in ("ATTEMPT_TAKEN_OVER\n", "StepInterrupted\n")
            assert [kind for kind, _ in await run.of_step("A")] == ["StepStarted", "StepInterrupted"]
            again = await worker.perform(run.order("A"), run.lease.fence, stop)
            assert again.end is not None
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
@pytest.mark.parametrize("before_it_started", [False, True])
def test_a_stop_with_a_code_is_recorded_by_the_worker_itself(tmp_path: Path, before_it_started: bool) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            worker, stop = run.worker(), StopRequest()
            if before_it_started:
                stop.ask(code="JOIN_DECIDED")
            performing = asyncio.create_task(worker.perform(run.order("A"), run.lease.fence, stop))
            if not before_it_started:
                await until(run.file("pidA").exists)
                stop.ask(code="JOIN_DECIDED")
                stop.ask(code="CANCELLED")  # the first reason counts
            ended = await performing
            assert ended.end is not None
            assert ended.end.payload["error"]["code"] == "JOIN_DECIDED"
            assert await run.of_step("A") == [("StepStarted", 1), ("StepFailed", 1)]
            await worker.close()

    scenario(test)


@pytest.mark.rule("EN07")
def test_a_stop_that_waits_for_the_holder_takes_nothing_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            one, other = run.worker(lease=timedelta(seconds=300)), run.worker()
            held, waiting = StopRequest(), StopRequest(waits_for_holder=True)
            performing = asyncio.create_task(one.perform(run.order("A"), run.lease.fence, held))
            await until(run.file("pidA").exists)
            waiting.ask(code="CANCELLED")
            asking = asyncio.create_task(other.perform(run.order("A"), run.lease.fence, waiting))
            await asyncio.sleep(0.6)  # it has looked at least twice
            assert not asking.done()
            assert is_alive(int(run.file("pidA").read_text()))
            held.ask(code="CANCELLED")  # the holder has learnt of it
            await performing
            ended = await asking
            assert ended.end is not None
            assert await run.of_step("A") == [("StepStarted", 1), ("StepFailed", 1)]
            await one.close()
            await other.close()

    scenario(test)


@pytest.mark.rule("EN08")
def test_a_worker_that_closes_stops_its_attempts_and_another_starts_them_immediately(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            one, other = run.worker(lease=timedelta(seconds=300)), run.worker()
            first = asyncio.create_task(one.perform(run.order("A"), run.lease.fence))
            await until(run.file("pidA").exists)
            await one.close()
            with pytest.raises(WorkerStopped):
                await first
            assert not is_alive(int(run.file("pidA").read_text()))
            assert await run.of_step("A") == [("StepStarted", 1)]
            with pytest.raises(WorkerStopped):
                await one.perform(run.order("A"), run.lease.fence)
            ended = await other.perform(run.order("A"), run.lease.fence)
            assert ended.end is not None
            await other.close()

    scenario(test)


@pytest.mark.rule("EN08")
def test_a_caller_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, hanging("A")) as run:
            one, other = run.worker(lease=timedelta(seconds=300)), run.worker()
            first = asyncio.create_task(one.perform(run.order("A"), run.lease.fence))
            await until(run.file("pidA").exists)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert not is_alive(int(run.file("pidA").read_text()))
            await other.perform(run.order("A"), run.lease.fence)
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 2)]
            await one.close()
            await other.close()

    scenario(test)


# --- the log --------------------------------------------------------------------------------------


@pytest.mark.rule("G48")
def test_large_values_are_kept_apart_and_come_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            worker = run.worker()
            draft = EventDraft("RunCompleted", payload={"outputs": {"text": "x" * 300_000}})
            put = await worker.write(run.run_id, run.lease.fence, [draft])
            (logged,) = await worker.read(run.run_id, after=2)
            assert put.events([draft]) == [logged]
            assert len((await run.log())[-1].payload) < 1000
            await worker.close()

    scenario(test)


def test_a_timer_is_not_recorded_with_a_time_before_it_was_due(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            worker, due = run.worker(), "2090-01-01T00:00:00.000000Z"
            draft = EventDraft("TimerFired", None, 1, {"key": "t"}, "t", due)
            put = await worker.write(run.run_id, run.lease.fence, [draft])
            assert put.at == [due]
            assert (await run.log())[-1].emitted_at == due
            await worker.close()

    scenario(test)


def test_a_draft_that_the_log_has_otherwise_is_to_be_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            worker = run.worker()
            first = EventDraft("ProbeAnswered", None, 1, {"key": "p", "answers": [True]}, "p")
            other = EventDraft("ProbeAnswered", None, 1, {"key": "p", "answers": [False]}, "p")
            assert (await worker.write(run.run_id, run.lease.fence, [first])).run_seqs == [3]
            again = await worker.write(run.run_id, run.lease.fence, [first])
            assert again.run_seqs == [3]
            assert again.at == [(await run.log())[-1].emitted_at]
            assert (await worker.write(run.run_id, run.lease.fence, [other])).run_seqs == [0]
            await worker.close()

    scenario(test)


def test_questions_are_answered_where_the_files_of_the_run_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            worker = run.worker()
            questions = [Question("file", "there"), Question("file", "not-there")]
            (tmp_path / "runs" / run.run_id / "artifacts" / "there").touch()
            assert await worker.ask(run.run_id, questions) == [True, False]
            await worker.close()

    scenario(test)


def test_owners_of_attempts_name_their_process() -> None:
    assert holders.is_alive_here(holders.new_owner())
    assert os.getpid() == getattr(holders.holder_of(holders.new_owner()), "pid", None)


@pytest.mark.rule("CN21")
def test_a_repeated_order_waits_for_the_attempt_that_is_under_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        step = {"name": "A", "command": ["sh", "-c", "echo begun >> begun; sleep 0.5"]}
        async with started_run(tmp_path, step) as run:
            worker = run.worker(replaces=False)
            orders = [worker.perform(run.order("A"), run.lease.fence) for _ in range(3)]
            ends = await asyncio.gather(*orders)
            assert {one.end.event_type for one in ends if one.end is not None} == {"StepCompleted"}
            assert run.file("begun").read_text() == "begun\n"
            assert await run.of_step("A") == [("StepStarted", 1), ("StepCompleted", 1)]
            await worker.close()

    asyncio.run(scenario())
