"""Running tasks: which performer executes each, and how they are stopped."""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from podium.log.ids import RunId
from podium.machine.commands import Question, RunTask
from podium.plan.loading import plan_path, steps_of, walk
from podium.plan.plan import PLAIN_WORK, Agent, Call, Command, Http, Node, Plan, Python, Workflow
from podium.ports.log_fields import logging_about
from podium.runtime.own_files import write_new
from podium.runtime.rundir import PathRefused, inside
from podium.runtime.tasks import families
from podium.runtime.tasks.commands import CommandTasks
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.masking import masked
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    CancelToken,
    Performer,
    TaskOrder,
    TaskResult,
    failed,
    stopped,
    timed_out,
    visit_name,
)
from podium.runtime.tasks.truncate import fitted
from podium.text import typed_reason, without_credentials

if TYPE_CHECKING:
    from podium.ports.provider import Providers
    from podium.runtime.tasks.nodes import NodeTasks
    from podium.runtime.tasks.python import PythonTasks
    from podium.runtime.tasks.recordings import Recordings
    from podium.runtime.tasks.uploading import ResultUploads


class Reuse(Protocol):
    def has_no_inputs(self, order: TaskOrder) -> bool:
        """Whether the attempt has no files as inputs, and no earlier one may replace it."""
        ...

    def facts(self, order: TaskOrder) -> dict[str, Any]:
        """The facts that `look` would return for such an attempt, at any time."""
        ...

    async def look(self, order: TaskOrder) -> tuple[dict[str, Any], TaskResult | None]:
        """Facts to be recorded with the attempt's end; and its end, if an earlier run's can replace it."""
        ...


class RunTasks:
    """The tasks of one run on this host."""

    def __init__(
        self,
        run_id: RunId,
        plan: Plan,
        host: TaskHost,
        run: dict[str, Any],
        reuse: Reuse | None = None,
        providers: "Providers | None" = None,
        recordings: "Recordings | None" = None,
    ) -> None:
        self._run_id = run_id
        self._plan = plan
        self._host = host
        self._run = run
        self._reuse = reuse
        self._commands = CommandTasks(host)
        self._uploads = _uploads_to(host)
        self._python: PythonTasks | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._performers: dict[type, Performer] = {Command: self._commands}
        self._providers = providers
        self._recordings = recordings
        self._stopping: dict[tuple[str, int], CancelToken] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Whether the process that orders the tasks has its lease; for a worker, by attempt.
        self.lease_holds: Callable[[], bool] = _always
        self.attempt_leases: dict[tuple[str, int], Callable[[], bool]] = {}
        # Steps inside a call belong to the called workflow, with its environment and secrets.
        self._called = {
            path: step.body.workflow for path, step in walk(plan.workflow) if isinstance(step.body, Call)
        }

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        # The task that performs the attempt takes over the fields of its log lines.
        with logging_about(run=self._run_id, step=task.path):
            self._start(task, engine_attempt, done)

    def _start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        order = self._order(task, engine_attempt)
        stopping = CancelToken()
        if isinstance(task.step.body, Node) and self._start_effect(order, stopping, done):
            return
        started = self._begin(order, stopping)
        if isinstance(started, TaskResult):
            if self._uploads is None:
                done(self._for_the_log(started, order))
                return
            started = _as_awaitable(started)
        self._stopping[task.path, task.attempt] = stopping
        running = asyncio.create_task(self._perform(order, started, stopping, done))
        self._track(running)

    def _track(self, running: "asyncio.Task[Any]") -> None:
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    def _order(self, task: RunTask, engine_attempt: int) -> TaskOrder:
        workflow = self._workflow_of(task.path)
        work = getattr(task.step.body, "work", PLAIN_WORK)
        allowed = (*workflow.env_allow, *work.env_allow)
        return TaskOrder(
            self._run_id,
            task.path,
            task.attempt,
            engine_attempt,
            task.step,
            workflow,
            task.values or {},
            self._host.values_of_env(allowed, work.secrets),
            self._run,
            may_name_values=task.values is not None,
            is_changed=task.change is not None,
            lease_holds=self.attempt_leases.get((task.path, task.attempt), self.lease_holds),
        )

    def _begin(self, order: TaskOrder, stopping: CancelToken) -> TaskResult | Awaitable[TaskResult]:
        """The result of an attempt that does not have to wait, such as a function of this process; otherwise
        an awaitable.
        """
        body = order.step.body
        if isinstance(body, Node):
            return self._start_node(order, stopping)
        if not isinstance(body, Python) or body.function not in self._host.functions:
            return self._result(order, stopping)
        if self._reuse is not None and not self._reuse.has_no_inputs(order):
            return self._result(order, stopping)
        try:
            started = (self._python or self._load_python()).begin(order, stopping)
        except Exception as defect:
            return self._failed_by(defect, order)
        if isinstance(started, TaskResult):
            if self._reuse is not None:
                started.payload |= self._reuse.facts(order)
            return started
        return self._with_facts(order, started)

    def _start_effect(
        self, order: TaskOrder, stopping: CancelToken, done: Callable[[TaskResult], None]
    ) -> bool:
        """Start an effect as a single task; False if files belong to its attempt, or it is not an effect."""
        reuse, body = self._reuse, order.step.body
        if self._uploads is not None or not isinstance(body, Node) or body.type != "effect":
            return False
        if (reuse is not None and not reuse.has_no_inputs(order)) or self._performer(Node) is None:
            return False
        visit = (order.path, order.attempt)

        def over(result: TaskResult) -> None:
            self._stopping.pop(visit, None)
            if reuse is not None:
                result.payload |= reuse.facts(order)
            done(self._for_the_log(result, order))

        self._stopping[visit] = stopping
        try:
            running = cast("NodeTasks", self._performers[Node]).start(order, stopping, over)
        except Exception as defect:
            over(self._failed_by(defect, order))
            return True
        if running is not None:
            self._track(running)
        return True

    def _start_node(self, order: TaskOrder, stopping: CancelToken) -> TaskResult | Awaitable[TaskResult]:
        performer = self._performer(Node)
        if performer is None or (self._reuse is not None and not self._reuse.has_no_inputs(order)):
            return self._result(order, stopping)
        nodes = cast("NodeTasks", performer)
        try:
            result = nodes.result_of(order)
        except Exception as defect:
            return self._failed_by(defect, order)
        if result is None:
            return self._with_facts(order, nodes.perform(order, stopping))
        if self._reuse is not None:
            result.payload |= self._reuse.facts(order)
        return result

    async def _with_facts(self, order: TaskOrder, started: Awaitable[TaskResult]) -> TaskResult:
        reuse = self._reuse
        if reuse is None:
            return await started
        # Computed while the attempt is running; an attempt that ends immediately does not wait for it.
        known: list[dict[str, Any]] = []
        asyncio.get_running_loop().call_soon(lambda: known.append(reuse.facts(order)))
        result = await started
        result.payload |= known[0] if known else reuse.facts(order)
        return result

    async def _perform(
        self,
        order: TaskOrder,
        started: Awaitable[TaskResult],
        stopping: CancelToken,
        done: Callable[[TaskResult], None],
    ) -> None:
        try:
            result = self._for_the_log(await started, order)
            if self._uploads is not None:
                result = await self._uploads.of(result, stopping)
        except Exception as defect:
            result = self._for_the_log(self._failed_by(defect, order), order)
        finally:
            self._stopping.pop((order.path, order.attempt), None)
        done(result)

    def _for_the_log(self, result: TaskResult, order: TaskOrder) -> TaskResult:
        """The only path into the log: it masks all secrets, whatever the performer has done."""
        if self._host.redactor is not None:
            result.payload = masked(result.payload, self._host.redactor)
        work = getattr(order.step.body, "work", PLAIN_WORK)
        result = fitted(result, has_output_file=work.output_file is not None)
        result.engine_attempt = order.engine_attempt
        return result

    def _load_python(self) -> "PythonTasks":
        from podium.runtime.tasks.python import PythonTasks

        self._python = self._performers[Python] = python = PythonTasks(self._host)
        self._closing.append(python.close)
        return python

    def _performer(self, body: type) -> Performer | None:
        if body is Python and self._python is None:
            self._load_python()
        elif body is Http and Http not in self._performers:
            # Imported with the first of them: most runs have none, and the import takes a while.
            from podium.runtime.tasks.http import HttpTasks

            http = HttpTasks(self._host)
            self._performers[Http] = http
            self._closing.append(http.close)
        elif body is Agent and Agent not in self._performers:
            from podium.runtime.tasks.agents import AgentTasks

            self._performers[Agent] = AgentTasks(
                self._host, self._commands, self._providers, self._recordings
            )
        elif body is Node and Node not in self._performers and self._host.nodes is not None:
            from podium.runtime.tasks.nodes import NodeTasks

            self._performers[Node] = NodeTasks(self._host, self._host.nodes())
        return self._performers.get(body)

    async def _result(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        performer = self._performer(type(order.step.body))
        if performer is None:
            kind = order.step.body.__struct_config__.tag
            return failed(
                FAILED_BEFORE_START,
                "NOT_AVAILABLE",
                f"steps of kind {kind!r} cannot run here",
                retryable=False,
            )
        if self._reuse is None or self._reuse.has_no_inputs(order):
            return await self._with_facts(order, performer.perform(order, stopping))
        looking = asyncio.ensure_future(self._reuse.look(order))
        # Examining files may take long: it can be stopped like the task itself, and has the same time limit.
        first = await stopping.wait(looking, within=order.step.timeout)
        if first != "exited":
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            return timed_out(order.step.timeout) if first == "timed_out" else stopped(stopping.code)
        facts, earlier = looking.result()
        result = earlier if earlier is not None else await performer.perform(order, stopping)
        result.payload |= facts
        return result

    def _failed_by(self, defect: Exception, order: TaskOrder) -> TaskResult:
        """A defect in Podium must not leave the run waiting forever; the traceback is written to the log of
        the step.
        """
        trace = without_credentials("".join(traceback.format_exception(defect)))
        if self._host.redactor is not None:
            trace = self._host.redactor.redact(trace)
        with contextlib.suppress(OSError):  # a full disk may be the cause
            write_new(self._host.directory.step_file(order.path, order.attempt, "err"), trace.encode())
        return failed(FAILED_BEFORE_START, "INTERNAL_ERROR", typed_reason(defect), retryable=False)

    def _workflow_of(self, path: str) -> Workflow:
        if not self._called:
            return self._plan.workflow
        plain = plan_path(path)
        for place in range(len(plain), 0, -1):
            if plain[place - 1 : place] == "/" and plain[: place - 1] in self._called:
                return self._called[plain[: place - 1]]
        return self._plan.workflow

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        stopping = self._stopping.get((path, attempt))
        if stopping is None:
            return False
        stopping.ask(code, force=force)
        return True

    def stop_all(self, code: str, *, force: bool) -> None:
        for stopping in self._stopping.values():
            stopping.ask(code, force=force)

    async def finish(self) -> None:
        """Wait for the tasks that were asked to stop."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """The run has ended, or is given up here: nothing of it is left behind, including kept children."""
        self.stop_all("INTERRUPTED", force=True)
        await self.finish()
        for close in self._closing:
            await close()
        if families.orphans():
            await families.stop(families.Family(self._run_id, None).members)
        await self._commands.close()

    async def stop_orphans(self) -> None:
        directory = self._host.directory.path.absolute()
        await families.stop(lambda: families.of_run(self._run_id, directory))
        await self._remove_containers()
        await self._remove_worktrees()

    async def stop_orphans_of(self, path: str, attempt: int, *, forced: Callable[[], bool]) -> None:
        """Stop what is left of one attempt on this host, whichever process has started it."""
        directory, visit = self._host.directory.path.absolute(), visit_name(path, attempt)
        await families.stop(lambda: families.of_run(self._run_id, directory, visit), forced=forced)
        await self._remove_containers(visit)
        await self._remove_worktrees(visit)

    async def _remove_containers(self, visit: str | None = None) -> None:
        bodies = [step.body for step in steps_of(self._plan.workflow)]
        used = [body.container for body in bodies if isinstance(body, Command) and body.container is not None]
        if used:
            from podium.runtime.tasks.containers import remove_leftovers

            runtimes = frozenset(container.runtime for container in used)
            await remove_leftovers(self._host, self._run_id, visit, runtimes)

    async def _remove_worktrees(self, visit: str | None = None) -> None:
        if any(isinstance(step.body, Agent) for step in steps_of(self._plan.workflow)):
            from podium.runtime.tasks.worktrees import Worktrees

            await Worktrees(self._host).remove_leftovers(self._run_id, visit)

    def ask(self, question: Question) -> bool:
        if question.kind == "env":
            return bool(self._host.readable.get(question.name) or self._host.secrets.get(question.name))
        try:
            return inside(self._host.directory.artifacts, question.name, what="file_exists").exists()
        except PathRefused:
            return False


def _uploads_to(host: TaskHost) -> "ResultUploads | None":
    if host.bucket is None:
        return None
    from podium.runtime.tasks.uploading import ResultUploads

    return ResultUploads(host.bucket, host.directory)


def _always() -> bool:
    return True


async def _as_awaitable(result: TaskResult) -> TaskResult:
    return result
