"""Python steps: a function that takes and returns JSON (D69).

Functions that were registered through the Python API run in this process: they are trusted, fast, and cannot
be killed. Everything else is called in a warm process beside this one, so that a timeout or a cancel really
ends it; what the function prints is the step's log, what it returns is the step's output.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import fill_in
from podium.plan.plan import Python
from podium.runtime.tasks import families, paths
from podium.runtime.tasks.caps import cap_of, exceeded
from podium.runtime.tasks.capturing import (
    check_files,
    check_schema,
    lines_of,
    most_shown,
    take_values,
    text_facts,
)
from podium.runtime.tasks.families import Family, process_name
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
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
from podium.runtime.tasks.workers import Worker, Workers
from podium.text import reason_of, typed_reason

if TYPE_CHECKING:
    from json import JSONEncoder


@cache
def _json_encoder() -> "JSONEncoder":
    """Cached: `json.dumps` would create another for every call."""
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False, allow_nan=False)


class PythonTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._workers = Workers(host)

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        if stopping.is_asked:
            return stopped(stopping.code)
        begun = self.begin(order, stopping)
        return begun if isinstance(begun, TaskResult) else await begun

    def begin(self, order: TaskOrder, stopping: CancelToken) -> TaskResult | Awaitable[TaskResult]:
        """The result of a function of this process, if it does not have to wait; otherwise an awaitable."""
        body = order.step.body
        assert isinstance(body, Python)
        function = self._host.functions.get(body.function)
        try:
            prepared = Prepared(order, body, self._host, inline=function is not None)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        if function is not None:
            return _call_here(function, prepared, stopping)
        return self._call_elsewhere(prepared, stopping)

    async def close(self) -> None:
        await self._workers.close()

    async def _call_elsewhere(self, prepared: "Prepared", stopping: CancelToken) -> TaskResult:
        order = prepared.order
        try:
            pipes = open_pipes(prepared.out, prepared.err)
        except OSError as error:
            return failed(FAILED_BEFORE_START, "PYTHON_NOT_STARTED", reason_of(error))
        try:
            worker = self._workers.take(order, prepared.work.limits)
            family = Family(order.run_id, order.visit, worker.child.pid)
            try:
                result = await self._call(worker, family, prepared, stopping, pipes)
            except asyncio.CancelledError:
                families.kill(family.members)
                raise
            if families.orphans():
                # Stop the processes that the function has left behind; the worker itself is kept for the next
                # call.
                await families.stop(Family(order.run_id, order.visit).members)
            return result
        except OSError as error:
            return failed(FAILED_BEFORE_START, "PYTHON_NOT_STARTED", reason_of(error))
        finally:
            for pipe in pipes:
                pipe.close()

    async def _call(
        self,
        worker: Worker,
        family: Family,
        prepared: "Prepared",
        stopping: CancelToken,
        pipes: tuple[Pipe, Pipe],
    ) -> TaskResult:
        """Until there is an answer, the process has ended, the time is over, or its end is requested."""
        order, child = prepared.order, worker.child
        answer = asyncio.ensure_future(worker.call(prepared.request(), pipes))
        # Also wait for the process: a child it has forked may hold the other end of the socket open.
        first = await stopping.wait(answer, child, prepared.out.exceeding, within=order.step.timeout)
        given = answer.result() if answer.done() else None
        if given is not None:
            for pipe in pipes:
                pipe.end()
            await self._workers.give_back(worker, prepared.work.limits)
            return await prepared.answered(given)
        answer.cancel()
        await families.stop(family.members, main=child, forced=lambda: stopping.is_forced)
        await asyncio.gather(answer, return_exceptions=True)
        worker.leave()
        code = await child.ended
        for pipe in pipes:
            pipe.end()
        facts = prepared.facts_without_answer()
        if first == "timed_out":
            return timed_out(order.step.timeout, **facts)
        if first == "cancelled":
            return stopped(stopping.code, **facts)
        if (error := prepared.out.exceeding.error) is not None:
            return failed(code or 1, error.code, str(error), **facts)
        how = f"killed by {child.killed_by.name}" if child.killed_by is not None else f"exit code {code}"
        message = f"the process of the function ended before it gave a result: {how}"
        return failed(code or 1, "PYTHON_ENDED", message, **facts)


def _call_here(
    function: Callable[..., Any], prepared: "Prepared", stopping: CancelToken
) -> TaskResult | Awaitable[TaskResult]:
    try:
        result = function(**prepared.arguments)
    except Exception as error:
        return failed(1, "PYTHON_ERROR", typed_reason(error))
    if inspect.isawaitable(result):
        return _wait_for(result, prepared, stopping)
    return _returned(result, prepared)


async def _wait_for(result: Awaitable[Any], prepared: "Prepared", stopping: CancelToken) -> TaskResult:
    running = asyncio.ensure_future(result)
    try:
        first = await stopping.wait(running, within=prepared.order.step.timeout)
    finally:
        if not running.done():
            running.cancel()
    if first == "timed_out":
        return timed_out(prepared.order.step.timeout)
    if first == "cancelled":
        return stopped(stopping.code)
    try:
        value = running.result()
    except (Exception, asyncio.CancelledError) as error:
        # The function was cancelled by its own code: a request or a timeout has been handled above.
        return failed(1, "PYTHON_ERROR", typed_reason(error))
    ended = _returned(value, prepared)
    return ended if isinstance(ended, TaskResult) else await ended


def _returned(value: Any, prepared: "Prepared") -> TaskResult | Awaitable[TaskResult]:
    try:
        text = _json_encoder().encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(
            1, "NOT_JSON", f"the function returned a value that is not JSON: {error}", retryable=False
        )
    return prepared.given(value, text)


class Prepared:
    """Everything about a call that can be wrong before it is made, and how its answer is handled."""

    def __init__(self, order: TaskOrder, body: Python, host: TaskHost, *, inline: bool) -> None:
        self.order = order
        self.work = body.work
        self._host = host
        self._function = body.function
        lookup, directory = order.lookup, host.directory
        self.arguments = {name: fill_in(data, lookup) for name, data in body.args.items()}
        self._files = paths.expected_files(body.work, lookup, directory)
        self._file = paths.output_file(body.work, lookup, directory)
        if inline:
            return
        self._env = host.environment_of(order, body.work)
        self._cwd = paths.workdir(body.work, lookup, host.workspace)
        Path(directory.output_values(order.path, order.attempt)).unlink(missing_ok=True)
        out, err = (directory.fresh_step_file(order.path, order.attempt, kind) for kind in ("out", "err"))
        limits = body.work.limits
        self.out = Output(out, keep=0, redactor=host.redactor, limits=limits)
        self.err = Output(
            err, keep=STDERR_TAIL, redactor=host.redactor, limits=limits, exceeding=self.out.exceeding
        )

    def request(self) -> dict[str, Any]:
        return {
            "function": self._function,
            "args": self.arguments,
            "env": self._env,
            "cwd": str(self._cwd),
            "name": process_name(self.order.visit),
        }

    def facts_without_answer(self) -> dict[str, Any]:
        if self._file is not None:
            self._file.new.discard()
        return {"stderrTail": self.err.tail_text()} if self.err.size else {}

    async def answered(self, answer: dict[str, Any]) -> TaskResult:
        kind, message = answer.get("failed"), answer.get("message", "")
        if kind is not None:
            facts = self.facts_without_answer()
            if kind == "not_there":
                return failed(NOT_FOUND, "FUNCTION_NOT_FOUND", message, retryable=False, **facts)
            if kind == "not_json":
                return failed(1, "NOT_JSON", message, retryable=False, **facts)
            return failed(1, "PYTHON_ERROR", message, **facts)
        facts = {"stderrTail": self.err.tail_text()} if self.err.size else {}
        try:
            values = take_values(self._host.directory.output_values(self.order.path, self.order.attempt))
        except PodiumError as error:
            return failed(1, error.code, str(error), **facts)
        if values:
            facts["outputs"] = values
        text = _json_encoder().encode(answer["result"])
        ended = self.given(answer["result"], text, facts)
        return ended if isinstance(ended, TaskResult) else await ended

    def given(
        self, value: Any, text: str, facts: dict[str, Any] | None = None
    ) -> TaskResult | Awaitable[TaskResult]:
        """The function has returned: a text becomes the output as it is, anything else as JSON."""
        text = value if isinstance(value, str) else text
        facts = {**(facts or {}), "json": value}
        redactor, most = self._host.redactor, most_shown(self.work, self.order.workflow)
        shown = redactor.redact(text) if redactor is not None else text
        facts |= text_facts(shown, most)
        if self.work.capture == "lines":
            facts["lines"] = lines_of(shown)
        if self._file is not None:
            return self._kept(self._file, text, facts, held_a_secret=shown != text)
        return self._as_expected(facts)

    async def _kept(
        self, file: paths.OutputFile, text: str, facts: dict[str, Any], *, held_a_secret: bool
    ) -> TaskResult:
        content, cap = text.encode(), cap_of("artifact", self.work.limits)
        try:
            if len(content) > cap:
                file.new.discard()
                raise exceeded("artifact", cap)
            file.new.write(content)
            facts |= await file.keep(held_a_secret=held_a_secret)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return self._as_expected(facts)

    def _as_expected(self, facts: dict[str, Any]) -> TaskResult:
        try:
            check_files(self._files, self._host.directory, self.work.limits)
            check_schema(self.work, facts)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)
