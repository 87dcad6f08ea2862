"""Command steps: a program, its arguments, and what it writes.

The child writes straight into the visit's log files; only the output of a step that can see secrets goes through us, to
be masked on its way into the log. Exit codes mean what the program says; an attempt that never ran has a code, too.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from podium.core.expressions import EvaluationError
from podium.core.redaction import Redactor
from podium.core.templates import render, render_arguments
from podium.errors import PodiumError
from podium.model.plan import Command, Limits, Work
from podium.runtime.rundir import copy_atomically, inside
from podium.runtime.tasks import processes
from podium.runtime.tasks.capturing import NotAsExpected, capture, check_expected, tail_of, values_left
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    NOT_EXECUTABLE,
    NOT_FOUND,
    TIMED_OUT,
    Stopping,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
)

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")


class CommandTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        # The main processes of steps that run now.
        self._mains: set[int] = set()

    async def perform(self, order: TaskOrder, stopping: Stopping) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Command)
        try:
            prepared = Prepared(order, body, self._host)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        except OSError as error:
            return failed(FAILED_BEFORE_START, "INPUT_UNREADABLE", str(error), retryable=False)
        return await self.run(order, prepared, stopping)

    async def run(self, order: TaskOrder, prepared: "Prepared", stopping: Stopping) -> TaskResult:
        began = asyncio.get_running_loop().time()
        try:
            running = _Running(prepared, self._host)
        except FileNotFoundError:
            program = prepared.argv[0]
            return failed(NOT_FOUND, "COMMAND_NOT_FOUND", f"there is no program {program!r}", retryable=False)
        except (PermissionError, OSError) as error:
            message = f"{prepared.argv[0]!r} cannot be started: {error.strerror or error}"
            return failed(NOT_EXECUTABLE, "COMMAND_NOT_EXECUTABLE", message, retryable=False)
        self._mains.add(running.child.pid)
        try:
            ended = await running.until_end(order, stopping)
            await self._stop_what_is_left(order, prepared.work)
        finally:
            self._mains.discard(running.child.pid)
        took = {"durationMs": round((asyncio.get_running_loop().time() - began) * 1000)}
        return self._result(order, prepared, ended, stopping, took)

    async def _stop_what_is_left(self, order: TaskOrder, work: Work) -> None:
        """When a step's main process has ended, so have its descendants, unless the plan keeps them."""
        if work.keep_children or not processes.has_children_besides(self._mains):
            return
        left = processes.marked(order.run_id, f"{order.path}#{order.attempt}") - self._mains
        if left:
            await processes.stop_all(left)

    def _result(
        self,
        order: TaskOrder,
        prepared: "Prepared",
        ended: "_Ended",
        stopping: Stopping,
        took: dict[str, Any],
    ) -> TaskResult:
        work = prepared.work
        try:
            facts = capture(prepared.log, work, order.workflow.max_output_size) | took
            problem: NotAsExpected | None = None
        except NotAsExpected as found:
            facts, problem = dict(took), found
        stderr = tail_of(prepared.error_log)
        if stderr:
            facts["stderrTail"] = stderr
        if prepared.output_file is not None:
            digest = copy_atomically(prepared.raw or prepared.log, prepared.output_file)
            facts["artifacts"] = [{"path": prepared.output_name, "sha256": digest}]
        if ended.timed_out:
            message = (
                f"it took longer than {order.step.timeout:g} seconds" if order.step.timeout else "timed out"
            )
            return failed(TIMED_OUT, "TIMEOUT", message, **{**facts, "timedOut": True})
        if stopping.asked.is_set():
            return stopped(stopping.code, **facts)
        if ended.code:
            return failed(ended.code, "EXIT_CODE", f"exit code {ended.code}", **facts)
        left = values_left(self._host.directory.output_values(order.path, order.attempt))
        if left:
            facts["outputs"] = left
        try:
            if problem is not None:
                raise problem
            check_expected(work, facts, prepared.expected_files, self._host.directory)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)


class Prepared:
    """Everything about a command that can be wrong before it runs."""

    def __init__(self, order: TaskOrder, body: Command, host: TaskHost) -> None:
        lookup = order.lookup
        self.work = body.work
        self.argv = render_arguments(body.argv, lookup)
        if not self.argv or not self.argv[0]:
            raise EvaluationError("the command is empty once its values are put in")
        self.env = host.environment_of(order, body.work)
        self.cwd = host.workspace
        if body.work.workdir is not None:
            self.cwd = inside(host.workspace, render(body.work.workdir, lookup), what="workdir")
        self.stdin = find_input(body.work, order, host)
        self.log = host.directory.step_file(order.path, order.attempt, "out")
        self.error_log = host.directory.step_file(order.path, order.attempt, "err")
        self.output_name = (
            render(body.work.output_file, lookup) if body.work.output_file is not None else None
        )
        self.output_file: Path | None = None
        if self.output_name is not None:
            self.output_file = inside(host.directory.artifacts, self.output_name, what="output_file")
        self.expected_files = (
            [render(text, lookup) for text in body.work.expect.files] if body.work.expect is not None else []
        )
        self.redactor = host.redactor(body.work)
        # The output as it is, when the log gets a masked one and a file the whole.
        self.raw = self.log.with_suffix(".raw") if self.redactor and self.output_file is not None else None


def find_input(work: Work, order: TaskOrder, host: TaskHost) -> Path | None:
    """The file for standard input: among the artifacts, then in the workspace."""
    if not work.input_files:
        return None
    name = render(work.input_files[0], order.lookup)
    for root in (host.directory.artifacts, host.workspace):
        path = inside(root, name, what="input_file")
        if path.is_file():
            return path
    raise NotAsExpected(f"there is no input file {name!r}, neither among the artifacts nor in the workspace")


class _Ended:
    def __init__(self, code: int, *, timed_out: bool) -> None:
        self.code = code
        self.timed_out = timed_out


class _Running:
    """A child and, if its output has to be masked, the pipes it writes to."""

    def __init__(self, prepared: Prepared, host: TaskHost) -> None:
        self._masking: list[asyncio.Task[None]] = []
        ends: list[int] = []
        stdout: Path | int = prepared.log
        stderr: Path | int = prepared.error_log
        readers: list[tuple[int, Path, Path | None]] = []
        if prepared.redactor is not None:
            for_out, stdout = os.pipe()
            for_err, stderr = os.pipe()
            ends = [stdout, stderr]
            readers = [(for_out, prepared.log, prepared.raw), (for_err, prepared.error_log, None)]
        try:
            self.child = _start(prepared, stdout, stderr)
        except BaseException:
            for reader, _, _ in readers:
                os.close(reader)
            raise
        finally:
            for end in ends:
                os.close(end)
        for reader, log, raw in readers:
            assert prepared.redactor is not None
            self._masking.append(asyncio.create_task(_mask(reader, log, raw, prepared.redactor)))

    async def until_end(self, order: TaskOrder, stopping: Stopping) -> _Ended:
        """The end of the main process: by itself, by its time limit, or because somebody asked for it."""
        asked = asyncio.ensure_future(stopping.asked.wait())
        try:
            done, _ = await asyncio.wait(
                (self.child.ended, asked), timeout=order.step.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            timed_out = not done
            if self.child.ended not in done:
                await self.child.stop(order.run_id, f"{order.path}#{order.attempt}", forced=stopping.forced)
            code = await self.child.ended
        finally:
            asked.cancel()
        if self._masking:
            # The output ends with the main process; a grandchild that keeps the pipe open is not waited for.
            await asyncio.wait(self._masking, timeout=0.2)
            for task in self._masking:
                task.cancel()
            await asyncio.gather(*self._masking, return_exceptions=True)
        return _Ended(code, timed_out=timed_out)


def _start(prepared: Prepared, stdout: Path | int, stderr: Path | int) -> processes.Child:
    argv = prepared.argv
    limits = prepared.work.limits
    if limits is not None and (limits.max_memory is not None or limits.max_cpu is not None):
        program = processes.find_program(argv[0], prepared.env.get("PATH"), prepared.cwd)
        argv = [sys.executable, "-I", "-S", str(_LAUNCHER), *_limit_arguments(limits), program, *argv]
    if prepared.cwd == Path.cwd():
        return processes.spawn(
            argv, prepared.env, cwd=prepared.cwd, stdin=prepared.stdin, stdout=stdout, stderr=stderr
        )
    return _start_elsewhere(argv, prepared, stdout, stderr)


def _limit_arguments(limits: Limits) -> list[str]:
    return [str(limits.max_memory or 0), str(limits.max_cpu or 0)]


def _start_elsewhere(
    argv: list[str], prepared: Prepared, stdout: Path | int, stderr: Path | int
) -> processes.Child:
    """`posix_spawn` cannot change the directory; `subprocess` can, and is a little slower."""
    program = processes.find_program(argv[0], prepared.env.get("PATH"), prepared.cwd)
    opened: list[int] = []

    def handle(target: Path | int) -> int:
        if isinstance(target, int):
            return target
        opened.append(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        return opened[-1]

    try:
        source = os.open(prepared.stdin if prepared.stdin is not None else os.devnull, os.O_RDONLY)
        opened.append(source)
        popen = subprocess.Popen(
            argv,
            executable=program,
            env=prepared.env,
            cwd=prepared.cwd,
            stdin=source,
            stdout=handle(stdout),
            stderr=handle(stderr),
            start_new_session=True,
        )
    finally:
        for file in opened:
            os.close(file)
    child = processes.Child(popen.pid)
    # The child waits for itself; `subprocess` must not complain that nobody did.
    popen.returncode = 0
    return child


async def _mask(reader: int, log: Path, raw: Path | None, redactor: Redactor) -> None:
    """From the pipe into the log, masked; and as it is into `raw`, if there is one."""
    loop = asyncio.get_running_loop()
    os.set_blocking(reader, False)
    readable = asyncio.Event()
    loop.add_reader(reader, readable.set)
    stream = redactor.stream()
    whole = raw.open("wb") if raw is not None else None
    try:
        with log.open("wb") as masked:
            try:
                while True:
                    try:
                        chunk = os.read(reader, 1 << 16)
                    except BlockingIOError:
                        readable.clear()
                        await readable.wait()
                        continue
                    if not chunk:
                        break
                    masked.write(stream.feed(chunk))
                    if whole is not None:
                        whole.write(chunk)
            finally:
                masked.write(stream.finish())
    finally:
        loop.remove_reader(reader)
        os.close(reader)
        if whole is not None:
            whole.close()
