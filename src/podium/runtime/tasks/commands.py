"""Command steps: a program, its arguments, and its output.

Exit codes have the meaning that the program gives them; an attempt that never ran has a code, too (D17).
"""

import asyncio
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import render_arguments
from podium.log.events import EventType
from podium.plan.plan import Command, Limits
from podium.runtime.tasks import families, paths
from podium.runtime.tasks.capturing import (
    captured_facts,
    check_files,
    check_schema,
    most_kept,
    most_shown,
    shown_facts,
    take_values,
)
from podium.runtime.tasks.families import Family, Strays
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    NOT_EXECUTABLE,
    NOT_FOUND,
    CancelToken,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
    timed_out,
)
from podium.runtime.tasks.output import STDERR_TAIL, Output, Pipe, open_pipes
from podium.runtime.tasks.paths import OutputNotKept
from podium.runtime.tasks.processes import Child, find_program, spawn
from podium.text import reason_with_file

if TYPE_CHECKING:
    from podium.runtime.tasks.places import CommandPlace, PlaceProblem

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
# Errors of the program itself, which are not temporary.
_NOT_EXECUTABLE: Final = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOEXEC,
        errno.E2BIG,
        errno.EISDIR,
        errno.ELOOP,
        errno.EINVAL,
        errno.ETXTBSY,
    }
)


class CommandTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._strays = Strays()
        # Pipes to which children that were kept still write.
        self._kept: list[Pipe] = []

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Command)
        if stopping.is_asked:
            return stopped(stopping.code)
        try:
            prepared = Prepared(order, body, self._host)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        except OSError as error:
            return failed(FAILED_BEFORE_START, "INPUT_UNREADABLE", reason_with_file(error), retryable=False)
        try:
            ended = await self.run(order, prepared, stopping)
            if isinstance(ended, TaskResult):
                return ended
            return await self._result(order, prepared, ended, stopping, ended.facts)
        finally:
            if prepared.place is not None:
                prepared.place.close()
            if prepared.file is not None:
                prepared.file.new.discard()

    async def run(self, order: TaskOrder, program: "Program", stopping: CancelToken) -> "Ended | TaskResult":
        """Run a program to its end, and end all processes that it started; a result if it could not be
        started.
        """
        try:
            out, err = open_pipes(program.out, program.err)
        except OSError as error:
            return _not_started(program.argv[0], error)
        try:
            return await self._run(order, program, stopping, (out, err))
        finally:
            if program.keeps_children and (out.is_open or err.is_open):
                # Closing them would kill a process that writes to them.
                self._kept = [pipe for pipe in (*self._kept, out, err) if pipe.is_open]
            for pipe in (out, err):
                if pipe not in self._kept:
                    pipe.close()

    async def _run(
        self, order: TaskOrder, prepared: "Program", stopping: CancelToken, pipes: tuple[Pipe, Pipe]
    ) -> "Ended | TaskResult":
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            child = _start(prepared, *pipes)
        except (OSError, ValueError) as error:
            return _not_started(prepared.argv[0], error)
        finally:
            for pipe in pipes:
                pipe.close_writer()
        family = Family(order.run_id, order.visit, child.pid)
        try:
            ended = await _until_end(child, family, order, stopping, prepared)
            for pipe in pipes:
                pipe.end()
            left = await self._stop_what_is_left(family, prepared)
        except asyncio.CancelledError:
            families.kill(family.members)
            raise
        ended.facts["durationMs"] = round((loop.time() - began) * 1000)
        if left:
            ended.facts["warnings"] = [f"{left} processes of the step cannot be ended"]
        return ended

    async def _stop_what_is_left(self, family: Family, prepared: "Program") -> int:
        """When a step's main process has ended, stop its descendants, unless the plan keeps them."""
        if not families.orphans():
            return 0
        left = [] if prepared.keeps_children else await families.stop(family.members)
        self._strays.reap()
        return len(left)

    async def _result(
        self,
        order: TaskOrder,
        prepared: "Prepared",
        ended: "Ended",
        stopping: CancelToken,
        facts: dict[str, Any],
    ) -> TaskResult:
        work, out, err = prepared.work, prepared.out, prepared.err
        facts |= shown_facts(out, most_shown(work, order.workflow))
        if err.size:
            facts["stderrTail"] = err.tail_text()
        unmet: PodiumError | None = None
        try:
            if values := take_values(prepared.values):
                facts["outputs"] = values
            if out.exceeding.error is not None:
                raise out.exceeding.error
            problem = out.problem or err.problem
            if problem is not None:
                raise OutputNotKept(f"the output could not be written: {problem}")
            if prepared.file is not None:
                kept = await prepared.file.keep(held_a_secret=out.held_a_secret)
                facts["warnings"] = [*facts.get("warnings", ()), *kept.pop("warnings", ())]
                facts |= kept
            if not ended.code:
                facts |= captured_facts(out, work)
                check_files(prepared.expected_files, self._host.directory, work.limits)
                check_schema(work, facts, out)
        except PodiumError as error:
            unmet = error
        if prepared.place is not None:
            facts["warnings"] = [*facts.get("warnings", ()), *prepared.place.warnings()]
        if not facts.get("warnings", True):
            del facts["warnings"]
        if ended.timed_out:
            return timed_out(order.step.timeout, **facts)
        if ended.was_stopped:
            return stopped(stopping.code, **facts)
        if out.exceeding.error is not None:
            return failed(ended.code or 1, out.exceeding.error.code, str(out.exceeding.error), **facts)
        if prepared.place is not None and (problem_there := prepared.place.problem(ended.code)) is not None:
            return _problem_there(order, ended.code, problem_there, facts)
        if ended.code:
            return failed(ended.code, "EXIT_CODE", ended.described, **facts)
        if unmet is not None:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)

    async def close(self) -> None:
        """At the end of the run: close the pipes of kept children. The run stops the children themselves."""
        for pipe in self._kept:
            pipe.close()
        self._kept.clear()
        self._strays.reap()


class Program(Protocol):
    """What is needed to start a program."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    stdin: Path | None
    limits: Limits | None
    keeps_children: bool
    # None: it is our child.
    place: "CommandPlace | None"
    out: Output
    err: Output


class Prepared:
    """Everything about a command that can be wrong before it runs."""

    def __init__(self, order: TaskOrder, body: Command, host: TaskHost) -> None:
        lookup, work, directory = order.lookup, body.work, host.directory
        self.work = work
        self.keeps_children = work.keep_children
        self.limits = work.limits
        self.argv = render_arguments(body.argv, lookup)
        if not self.argv or not self.argv[0]:
            raise EvaluationError("the command is empty once its values are put in")
        self.place = _place_of(order, body, host, self.argv)
        if self.place is not None:
            self.limits = None  # they apply to the command, not to its client
            self.argv, self.env, self.cwd = self.place.argv, self.place.env, self.place.cwd
        else:
            self.env = host.environment_of(order, work)
            self.cwd = paths.workdir(work, lookup, host.workspace)
        self.stdin = paths.input_file(work, lookup, host)
        self.expected_files = paths.expected_files(work, lookup, directory)
        self.file = paths.output_file(work, lookup, directory)
        log = directory.step_log(order.path, order.attempt, "out")
        error_log = directory.step_log(order.path, order.attempt, "err")
        self.values = directory.output_values(order.path, order.attempt)
        if order.engine_attempt > 1:
            for left in (log, error_log, self.values):
                Path(left).unlink(missing_ok=True)
        whole = self.file.new if self.file is not None else None
        keep, masks = most_kept(work, order.workflow), host.redactor
        self.out = Output(log, keep=keep, redactor=masks, whole=whole, limits=work.limits)
        self.err = Output(
            error_log, keep=STDERR_TAIL, redactor=masks, limits=work.limits, exceeding=self.out.exceeding
        )


class Ended:
    """How the main process ended: by itself, by its time limit, or by request."""

    def __init__(self, child: Child, code: int, *, timed_out: bool, was_stopped: bool) -> None:
        self.code = code
        self.timed_out = timed_out
        self.was_stopped = was_stopped
        # Facts for the event.
        self.facts: dict[str, Any] = {}
        self.described = f"exit code {code}"
        if child.killed_by is not None:
            self.described = f"killed by {child.killed_by.name} (exit code {code})"


def _place_of(order: TaskOrder, body: Command, host: TaskHost, words: list[str]) -> "CommandPlace | None":
    # Imported with the first such command: few runs have one.
    if body.ssh is not None:
        from podium.runtime.tasks.ssh import SshPlace

        return SshPlace(order, body.ssh, body.work, host, words)
    if body.container is not None:
        from podium.runtime.tasks.containers import ContainerPlace

        return ContainerPlace(order, body.container, body.work, host, words)
    return None


def _problem_there(order: TaskOrder, code: int, problem: "PlaceProblem", facts: dict[str, Any]) -> TaskResult:
    """A step that may not be repeated blindly is in doubt if its command may have taken effect (G13)."""
    result = failed(code, problem.code, str(problem), **facts)
    if problem.is_in_doubt and not order.step.idempotent:
        result.event_type = EventType.STEP_INTERRUPTED
    return result


async def _until_end(
    child: Child, family: Family, order: TaskOrder, stopping: CancelToken, program: Program
) -> Ended:
    first = await stopping.wait(child, program.out.exceeding, within=order.step.timeout)
    if not child.done():
        if program.place is not None:
            await program.place.stop(child, lambda: stopping.is_forced)
        await families.stop(family.members, main=child, forced=lambda: stopping.is_forced)
    code = await child.ended
    return Ended(child, code, timed_out=first == "timed_out", was_stopped=first == "cancelled")


def _start(prepared: Program, out: Pipe, err: Pipe) -> Child:
    argv = prepared.argv
    program = find_program(argv[0], prepared.env.get("PATH"), prepared.cwd)
    if needs_launcher(prepared.limits):
        argv = [*launched(prepared.limits), program, *argv]
        program = argv[0]
    if prepared.place is not None:
        source = prepared.place.open_stdin()
    else:
        source = os.open(prepared.stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return spawn(
            argv,
            prepared.env,
            program=program,
            cwd=prepared.cwd,
            stdin=source,
            stdout=out.writer,
            stderr=err.writer,
        )
    finally:
        os.close(source)


def needs_launcher(limits: Limits | None) -> bool:
    return limits is not None and (limits.max_memory is not None or limits.max_cpu is not None)


def launched(limits: Limits | None) -> list[str]:
    """The words before a program and its arguments that make it run with these limits."""
    assert limits is not None
    return [
        sys.executable,
        "-I",
        "-S",
        str(_LAUNCHER),
        str(limits.max_memory or 0),
        str(limits.max_cpu or 0),
    ]


def _not_started(program: str, error: OSError | ValueError) -> TaskResult:
    if isinstance(error, FileNotFoundError):
        message = f"program {program!r} not found"
        if error.errno is not None:
            message = f"{program!r} cannot be started: it, or the interpreter it names, is not there"
        return failed(NOT_FOUND, "COMMAND_NOT_FOUND", message, retryable=False)
    if isinstance(error, ValueError):
        message = f"{program!r} cannot be started: {error}"
        return failed(FAILED_BEFORE_START, "COMMAND_NOT_STARTED", message, retryable=False)
    message = f"{program!r} cannot be started: {error.strerror or 'it is not executable'}"
    if error.errno is None or error.errno in _NOT_EXECUTABLE:
        return failed(NOT_EXECUTABLE, "COMMAND_NOT_EXECUTABLE", message, retryable=False)
    # Too many open files or processes: a retry may succeed.
    return failed(FAILED_BEFORE_START, "COMMAND_NOT_STARTED", message)
