"""Python steps: a function that takes JSON and gives JSON.

Functions that were registered through the Python API run in this process: they are trusted, quick, and cannot be
killed. Everything else runs in a process of its own, like a command, so that a timeout or a cancel really ends it.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from podium.core.expressions import EvaluationError
from podium.core.templates import fill_in
from podium.errors import PodiumError
from podium.model.plan import Command, Python
from podium.runtime.tasks.capturing import check_expected
from podium.runtime.tasks.commands import CommandTasks, Prepared
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    Stopping,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
)

_CALLER: Final = Path(__file__).with_name("call_function.py")


class PythonTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost, commands: CommandTasks, inline: dict[str, Callable[..., Any]]) -> None:
        self._host = host
        self._commands = commands
        self._inline = inline

    async def perform(self, order: TaskOrder, stopping: Stopping) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Python)
        try:
            arguments = {name: fill_in(data, order.lookup) for name, data in body.args.items()}
        except EvaluationError as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        function = self._inline.get(body.function)
        if function is not None:
            if stopping.asked.is_set():
                return stopped(stopping.code)
            return await self._call_here(function, arguments, order, body)
        return await self._call_elsewhere(arguments, order, body, stopping)

    async def _call_here(
        self, function: Callable[..., Any], arguments: dict[str, Any], order: TaskOrder, body: Python
    ) -> TaskResult:
        try:
            result = function(**arguments)
            if inspect.isawaitable(result):
                result = await asyncio.wait_for(result, order.step.timeout)
        except TimeoutError:
            return failed(
                124, "TIMEOUT", f"it took longer than {order.step.timeout:g} seconds", timedOut=True
            )
        except Exception as error:
            return failed(1, "PYTHON_ERROR", f"{type(error).__name__}: {error}")
        return self._given(result, order, body)

    async def _call_elsewhere(
        self, arguments: dict[str, Any], order: TaskOrder, body: Python, stopping: Stopping
    ) -> TaskResult:
        command = Command((sys.executable, str(_CALLER), body.function), body.work)
        given = self._host.directory.output_values(order.path, order.attempt).with_suffix(".args")
        given.write_text(json.dumps(arguments))
        try:
            prepared = Prepared(order, command, self._host)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        prepared.stdin = given
        prepared.env["PYTHONPATH"] = _with_workspace(prepared.env.get("PYTHONPATH"), prepared.cwd)
        result = await self._commands.run(order, prepared, stopping)
        given.unlink(missing_ok=True)
        answer = given.with_suffix(".result")
        if result.event_type == "StepCompleted":
            value = json.loads(answer.read_text())
            answer.unlink(missing_ok=True)
            return self._given(value, order, body, result.payload)
        return result

    def _given(
        self, value: Any, order: TaskOrder, body: Python, facts: dict[str, Any] | None = None
    ) -> TaskResult:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            return failed(
                1, "NOT_JSON", f"the function gave something that is no JSON: {error}", retryable=False
            )
        given = {**(facts or {}), "json": value, "output": text if not isinstance(value, str) else value}
        try:
            check_expected(body.work, given, [], self._host.directory)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **given)
        return completed(**given)


def _with_workspace(path: str | None, workspace: Path) -> str:
    return f"{workspace}:{path}" if path else str(workspace)
