"""Agent steps: a provider is asked, and its answer is validated.

A provider says how to ask and what an answer means; asking, time limits, stopping, masking and recording are
done here. If a result does not fit its schema, it is requested once more, in the same session where there is
one. The files of a visit are deleted with it, because they contain unmasked prompts and answers.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from podium.errors import PodiumError
from podium.expressions.evaluate import EvaluationError
from podium.expressions.json_schema import schema_problem
from podium.expressions.templates import render, render_arguments
from podium.plan.plan import PLAIN_WORK, Agent, Limits
from podium.ports.provider import (
    AgentError,
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Answered,
    HttpCall,
    ProcessCall,
    ProcessResult,
    Provider,
    Providers,
    Usage,
)
from podium.runtime.own_files import write_new
from podium.runtime.rundir import NewFile, inside
from podium.runtime.tasks import long_prompts, paths
from podium.runtime.tasks.caps import cap_of, exceeded
from podium.runtime.tasks.capturing import (
    NotAsExpected,
    check_files,
    lines_of,
    most_shown,
    parse_json,
    take_values,
    text_facts,
)
from podium.runtime.tasks.commands import CommandTasks
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    CancelToken,
    TaskOrder,
    TaskResult,
    completed,
    failed,
    stopped,
    timed_out,
)
from podium.runtime.tasks.output import STDERR_TAIL, Output
from podium.runtime.tasks.prompting import keep_prompt, prompt_of, read_prompt
from podium.runtime.tasks.watching import Watch, in_session, interrupted_session, is_lost
from podium.runtime.tasks.worktrees import OF_A_REPOSITORY, Worktrees
from podium.text import reason_of, reason_with_file

if TYPE_CHECKING:
    from podium.runtime.tasks.places import CommandPlace
    from podium.runtime.tasks.recordings import Recordings, Turn

_MAX_KEPT: Final = 64 * 1024
# Small enough to be read without a thread, which would take longer to start.
_SOON_READ: Final = 256 * 1024
# claude and gemini do not wait for their reader: what does not fit into the pipe when they end is lost. A
# megabyte is more than any model writes at a time, and the maximum for unprivileged users.
_ROOM: Final = 1 << 20


class AgentTasks:
    """A `Performer`."""

    def __init__(
        self,
        host: TaskHost,
        commands: CommandTasks,
        providers: Providers | None,
        recordings: "Recordings | None" = None,
    ) -> None:
        self._host = host
        self._commands = commands
        self._providers = providers
        # Records answers, or replays them.
        self._recordings = recordings
        self._worktrees = Worktrees(host)

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Agent)
        if body.workspace == "worktree":
            return await self._worktrees.inside(
                order, stopping, partial(self._perform, order, body, stopping)
            )
        return await self._perform(order, body, stopping, self._host.workspace)

    async def _perform(
        self, order: TaskOrder, body: Agent, stopping: CancelToken, workspace: Path
    ) -> TaskResult:
        # Absolute, because it is passed to programs that run elsewhere.
        folder = (self._host.directory.outputs / uuid4().hex).absolute()
        try:
            provider = self._provider(order, body)
            request = self._request(order, body, provider, workspace, folder)
            warnings = list(provider.unsupported(request.settings))
            if warnings and body.strict_provider:
                return failed(FAILED_BEFORE_START, "PROVIDER_MISCONFIGURED", warnings[0], retryable=False)
            self._host.directory.fresh_step_file(order.path, order.attempt, "prompt")
            return await self._ask(order, body, provider, request, warnings, stopping)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        except OSError as error:
            return failed(FAILED_BEFORE_START, "INPUT_UNREADABLE", reason_with_file(error), retryable=False)
        finally:
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=True)

    # --- asking -----------------------------------------------------------------------------------

    def _provider(self, order: TaskOrder, body: Agent) -> Provider:
        if self._providers is None:
            raise NoProviders("no provider is available: this run was started without providers")
        template = order.workflow.providers.get(body.provider)
        if template is None:
            return self._providers.find(body.provider)
        lookup = order.lookup
        argv = tuple(render_arguments(template.argv, lookup))
        env = {name: render(text, lookup) for name, text in template.env.items()}
        return self._providers.of_template(body.provider, template, argv, env)

    def _request(
        self, order: TaskOrder, body: Agent, provider: Provider, workspace: Path, folder: Path
    ) -> AgentRequest:
        lookup = order.lookup
        env = self._host.environment_of(order, body.work)
        for variable in provider.needs_env:
            value = os.environ.get(variable.name)
            if value is not None:
                env.setdefault(variable.name, value)
        if body.workspace == "worktree":
            env = {name: value for name, value in env.items() if name not in OF_A_REPOSITORY}
        session = order.values.get(("steps", body.resume, "session")) if body.resume is not None else None
        usage = order.values.get(("steps", body.resume, "sessionUsage")) if body.resume is not None else None
        schema = body.work.expect.schema if body.work.expect is not None else None
        return AgentRequest(
            prompt_of(order, body, self._host),
            paths.workdir(body.work, lookup, workspace),
            folder,
            str(uuid4()),
            _within_budget(self._settings(order, body), body, provider),
            schema=schema,
            resume=session,
            resumed_usage=Usage(**usage) if isinstance(usage, dict) else None,
            env=env,
        )

    def _settings(self, order: TaskOrder, body: Agent) -> AgentSettings:
        lookup = order.lookup
        system = body.system_prompt
        text: str | None = None
        if system is not None and system.text is not None:
            text = render(system.text, lookup)
        elif system is not None and system.file is not None:
            name = render(system.file, lookup)
            text = read_prompt(inside(self._host.workspace, name, what="system_prompt_file"))
        return AgentSettings(
            model=render(body.model, lookup) if body.model is not None else None,
            fallback_models=tuple(render_arguments(body.fallback_models, lookup)),
            effort=render(body.effort, lookup) if body.effort is not None else None,
            system_prompt=text,
            max_turns=body.max_turns,
            max_cost=body.max_cost,
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            add_dirs=tuple(render_arguments(body.add_dirs, lookup)),
            allowed_tools=tuple(render_arguments(body.allowed_tools, lookup)),
            disallowed_tools=tuple(render_arguments(body.disallowed_tools, lookup)),
            args=tuple(render_arguments(body.args, lookup)),
            access=body.access,
            allow_denials=body.allow_denials,
        )

    async def _ask(
        self,
        order: TaskOrder,
        body: Agent,
        provider: Provider,
        request: AgentRequest,
        warnings: list[str],
        stopping: CancelToken,
    ) -> TaskResult:
        """At most two answers: the second for a result that did not fit. The time limit is for both."""
        until = _deadline(order)
        watch = Watch(order, provider, self._host)
        if body.provider not in order.workflow.providers:
            # Output of a program that the workflow itself describes is shown while it prints.
            watch.begin()
        ask = partial(self._first_turn, order, provider, request, watch, stopping, until)
        answer = await self._answer(order, request, "first", ask, stopping)
        if isinstance(answer, TaskResult):
            return answer
        outcome, problem = answer, _problem(answer, request)
        if problem is not None and self._providers is not None and request.schema is not None:
            again = _again(request, outcome, provider, self._providers.repair_prompt(problem, request.schema))
            ask = partial(self._turn, order, provider, again, watch, stopping, until)
            answer = await self._answer(order, again, "repair", ask, stopping)
            if isinstance(answer, TaskResult):
                return answer
            outcome = _added(answer, outcome)
            problem = _problem(outcome, request)
        return await self._result(order, body, outcome, problem, warnings)

    async def _answer(
        self,
        order: TaskOrder,
        request: AgentRequest,
        turn: "Turn",
        ask: Callable[[], Awaitable[AgentOutcome | TaskResult]],
        stopping: CancelToken,
    ) -> AgentOutcome | TaskResult:
        if self._recordings is None:
            return await ask()
        return await self._recordings.answer(self._host, order, request, turn, ask, stopping)

    async def _first_turn(
        self,
        order: TaskOrder,
        provider: Provider,
        request: AgentRequest,
        watch: Watch,
        stopping: CancelToken,
        until: float | None,
    ) -> AgentOutcome | TaskResult:
        """An interrupted attempt continues its conversation, if that still exists."""
        session = interrupted_session(order, provider, self._host)
        if session is not None:
            watch.show("continues where it was interrupted")
            answer = await self._turn(order, provider, in_session(request, session), watch, stopping, until)
            if isinstance(answer, TaskResult) or not is_lost(answer):
                return answer
            watch.show("starts again: the interrupted session no longer exists")
        return await self._turn(order, provider, request, watch, stopping, until)

    async def _turn(
        self,
        order: TaskOrder,
        provider: Provider,
        request: AgentRequest,
        watch: Watch,
        stopping: CancelToken,
        until: float | None,
    ) -> AgentOutcome | TaskResult:
        call = provider.prepare(request)
        keep_prompt(self._host, order, call.prompt)
        if provider.sessions == "chosen":
            watch.keep_session(request.resume or request.session_id)
        match call:
            case Answered():
                return call.outcome
            case HttpCall():
                return await self._send(order, provider, request, call, watch, stopping, until)
            case ProcessCall():
                pass
        if not (call.reads_files and long_prompts.would_spoil_its_session(request)):
            outcome = await self._run(order, provider, request, call, watch, stopping, until)
            if isinstance(outcome, TaskResult) or not call.reads_files:
                return outcome
            if not long_prompts.is_too_long(request, outcome):
                return outcome
        outcome = await self._turn(order, provider, long_prompts.in_a_file(request), watch, stopping, until)
        if isinstance(outcome, TaskResult):
            return outcome
        return long_prompts.with_warning(outcome, len(request.prompt))

    async def _run(
        self,
        order: TaskOrder,
        provider: Provider,
        request: AgentRequest,
        call: ProcessCall,
        watch: Watch,
        stopping: CancelToken,
        until: float | None,
    ) -> AgentOutcome | TaskResult:
        if call.files or call.outputs:
            request.folder.mkdir(mode=0o700, exist_ok=True)
        unmasked = self._unmasked(order, request)
        for path, content in call.files.items():
            write_new(path, content)
        values = self._host.directory.output_values(order.path, order.attempt)
        Path(values).unlink(missing_ok=True)
        prompt = os.memfd_create("prompt")
        try:
            # In memory: a prompt may contain what must not be in a file, and a pipe would have to be fed.
            os.write(prompt, call.stdin)
            stdin = Path(f"/proc/self/fd/{prompt}")
            program = _AgentProgram(order, call, request, self._host, stdin, watch, unmasked)
            ended = await self._commands.run(_with_time_left(order, until), program, stopping)
        finally:
            os.close(prompt)
            if unmasked is not None:
                unmasked.commit(durable=False)
        if isinstance(ended, TaskResult):
            return ended
        stdout = program.log if program.log.exists() else b""
        stderr = program.error_log if program.error_log.exists() else b""
        interpret = partial(_interpreted, provider, request, is_large=program.out.size > _SOON_READ)
        outcome = await interpret(ProcessResult(ended.code, stdout, stderr))
        if unmasked is not None and program.out.held_a_secret:
            # Only the text: that is what the file gets; other places mask it.
            as_it_is = await interpret(ProcessResult(ended.code, unmasked.target, stderr))
            outcome = replace(outcome, text=as_it_is.text)
        outcome = _with_values(outcome, values)
        # Our own time limit and stop take precedence over whatever the program says about itself.
        if ended.timed_out:
            return timed_out(order.step.timeout, **ended.facts, **_so_far(outcome))
        if ended.was_stopped:
            return stopped(stopping.code, **ended.facts, **_so_far(outcome))
        if (error := program.out.exceeding.error) is not None:
            return failed(ended.code or 1, error.code, str(error), **ended.facts, **_so_far(outcome))
        problem = program.out.problem or program.err.problem
        if problem is not None:
            notes = f"what the program wrote could not be kept: {problem}"
            return failed(1, paths.OutputNotKept.code, notes, **ended.facts, **_so_far(outcome))
        return outcome

    def _unmasked(self, order: TaskOrder, request: AgentRequest) -> NewFile | None:
        """The program's unmasked output, in a file of the visit, if its answer has to be stored as it is
        (D35).
        """
        body = order.step.body
        assert isinstance(body, Agent)
        if body.work.output_file is None or self._host.redactor is None:
            return None
        request.folder.mkdir(mode=0o700, exist_ok=True)
        return NewFile(request.folder / "unmasked")

    async def _send(
        self,
        order: TaskOrder,
        provider: Provider,
        request: AgentRequest,
        call: HttpCall,
        watch: Watch,
        stopping: CancelToken,
        until: float | None,
    ) -> AgentOutcome | TaskResult:
        assert self._providers is not None
        request.folder.mkdir(mode=0o700, exist_ok=True)
        body = request.folder / "body"
        max_body = cap_of("body", getattr(order.step.body, "work", PLAIN_WORK).limits)
        sending = asyncio.ensure_future(self._providers.send(call, body, watch.hear_raw, max_body=max_body))
        first = await stopping.wait(sending, within=_left(until))
        if first != "exited":
            sending.cancel()
            await asyncio.wait((sending,))
            return stopped(stopping.code) if first == "cancelled" else timed_out(order.step.timeout)
        answer = sending.result()
        if answer.is_too_large:
            error = exceeded("body", max_body)
            return failed(1, error.code, str(error))
        return await asyncio.to_thread(provider.interpret, request, answer)

    # --- the result -------------------------------------------------------------------------------

    async def _result(
        self, order: TaskOrder, body: Agent, outcome: AgentOutcome, problem: str | None, warnings: list[str]
    ) -> TaskResult:
        redactor = self._host.redactor
        text = redactor.redact(outcome.text) if redactor is not None else outcome.text
        facts = text_facts(text, most_shown(body.work, order.workflow))
        facts["usage"] = _usage(outcome.usage)
        if outcome.structured is not None:
            facts["json"] = outcome.structured
        if outcome.session_id is not None:
            facts["session"] = outcome.session_id
        if outcome.session_usage is not None:
            facts["sessionUsage"] = _plain(outcome.session_usage)
        if outcome.outputs:
            facts["outputs"] = dict(outcome.outputs)
        if outcome.denials:
            facts["denials"] = [f"{one.tool} {one.detail}".strip() for one in outcome.denials]
        notes = [*warnings, *outcome.warnings]
        if notes:
            facts["warnings"] = notes
        try:
            write_new(self._host.directory.step_file(order.path, order.attempt, "txt"), text.encode())
        except OSError as refused:
            # A copy for people: the answer itself is recorded in the log.
            facts["warnings"] = notes = [*notes, f"the answer is not among the logs: {reason_of(refused)}"]
        if outcome.error is not None:
            error = outcome.error
            result = failed(1, error.code, error.message, retryable=error.retryable, **facts)
            if error.retry_after is not None:
                result.payload["error"]["retryAfterMs"] = round(error.retry_after * 1000)
            return result
        if problem is not None:
            return failed(1, "AGENT_SCHEMA", f"the result does not fit its schema: {problem}", **facts)
        try:
            file = paths.output_file(body.work, order.lookup, self._host.directory)
            if file is not None:
                content = outcome.text.encode()
                if len(content) > (cap := cap_of("artifact", body.work.limits)):
                    file.new.discard()
                    raise exceeded("artifact", cap)
                file.new.write(content)
                kept = await file.keep(held_a_secret=text != outcome.text)
                if notes := [*notes, *kept.pop("warnings", ())]:
                    facts["warnings"] = notes
                facts |= kept
            if body.work.capture == "lines":
                facts["lines"] = lines_of(text)
            elif body.work.capture == "json" and "json" not in facts:
                facts["json"] = parse_json(text)
            expected = paths.expected_files(body.work, order.lookup, self._host.directory)
            check_files(expected, self._host.directory, body.work.limits)
        except PodiumError as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)


class NoProviders(PodiumError):
    code = "PROVIDER_NOT_AVAILABLE"


class _AgentProgram:
    """A `Program` for what a provider wants to run."""

    def __init__(
        self,
        order: TaskOrder,
        call: ProcessCall,
        request: AgentRequest,
        host: TaskHost,
        stdin: Path,
        watch: Watch,
        unmasked: NewFile | None,
    ) -> None:
        self.argv = list(call.argv)
        self.env = {**request.env, **call.env}
        self.cwd = request.workspace
        self.stdin: Path | None = stdin
        self.limits: Limits | None = None
        self.keeps_children = False
        self.place: CommandPlace | None = None
        self.log = host.directory.fresh_step_file(order.path, order.attempt, "out")
        self.error_log = host.directory.fresh_step_file(order.path, order.attempt, "err")
        self.out = Output(
            self.log,
            keep=_MAX_KEPT,
            redactor=host.redactor,
            whole=unmasked,
            on_line=watch.hear,
            room=_ROOM,
            limits=_limits(order),
        )
        self.err = Output(
            self.error_log,
            keep=STDERR_TAIL,
            redactor=host.redactor,
            limits=_limits(order),
            exceeding=self.out.exceeding,
        )


def _limits(order: TaskOrder) -> Limits | None:
    body = order.step.body
    assert isinstance(body, Agent)
    return body.work.limits


async def _interpreted(
    provider: Provider, request: AgentRequest, result: ProcessResult, *, is_large: bool
) -> AgentOutcome:
    if is_large:
        return await asyncio.to_thread(provider.interpret, request, result)
    return provider.interpret(request, result)


def _within_budget(settings: AgentSettings, body: Agent, provider: Provider) -> AgentSettings:
    """A provider that can limit its cost gets the step's own budget; others do not cause a warning."""
    own = body.work.budget.usd if body.work.budget is not None else None
    if own is None:
        return settings
    limited = replace(settings, max_cost=own if settings.max_cost is None else min(own, settings.max_cost))
    cannot = len(provider.unsupported(limited)) > len(provider.unsupported(settings))
    return settings if cannot else limited


def _deadline(order: TaskOrder) -> float | None:
    timeout = order.step.timeout
    return None if timeout is None else asyncio.get_running_loop().time() + timeout


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - asyncio.get_running_loop().time(), 0.0)


def _with_time_left(order: TaskOrder, until: float | None) -> TaskOrder:
    return msgspec.structs.replace(order, step=msgspec.structs.replace(order.step, timeout=_left(until)))


def _problem(outcome: AgentOutcome, request: AgentRequest) -> str | None:
    """Why a result has to be requested again; None if it fits, or if something else went wrong."""
    if request.schema is None:
        return None
    if outcome.error is not None:
        return outcome.error.message if outcome.error.code == "AGENT_SCHEMA" else None
    return schema_problem(outcome.structured, request.schema)


def _again(request: AgentRequest, outcome: AgentOutcome, provider: Provider, repair: str) -> AgentRequest:
    has_session = provider.sessions != "none" and outcome.session_id is not None
    return AgentRequest(
        repair if has_session else f"{request.prompt}\n\n{repair}",
        request.workspace,
        request.folder,
        str(uuid4()),
        request.settings,
        schema=request.schema,
        resume=outcome.session_id if has_session else None,
        resumed_usage=outcome.session_usage if has_session else None,
        env=request.env,
    )


def _with_values(outcome: AgentOutcome, file: str) -> AgentOutcome:
    """Adds what was written to $PODIUM_OUTPUT, and removes the file."""
    try:
        return replace(outcome, outputs=take_values(file))
    except NotAsExpected as problem:
        return replace(outcome, error=outcome.error or AgentError("AGENT_ERROR", str(problem)))


def _added(outcome: AgentOutcome, earlier: AgentOutcome) -> AgentOutcome:
    """Combines two turns: both were paid for, and the values of both are kept."""
    one, other = outcome.usage, earlier.usage
    cost = None if one.cost_usd is None or other.cost_usd is None else one.cost_usd + other.cost_usd
    usage = Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        cost,
    )
    return AgentOutcome(
        outcome.text,
        outcome.structured,
        outcome.session_id,
        usage,
        outcome.session_usage,
        outcome.denials,
        outcome.error,
        outcome.warnings,
        {**earlier.outputs, **outcome.outputs},
    )


def _so_far(outcome: AgentOutcome) -> dict[str, Any]:
    """For an agent that was stopped: the session to continue with, its values, and the known cost."""
    facts: dict[str, Any] = {}
    if outcome.outputs:
        facts["outputs"] = dict(outcome.outputs)
    if outcome.session_id is not None:
        facts["session"] = outcome.session_id
    if outcome.session_usage is not None:
        facts["sessionUsage"] = _plain(outcome.session_usage)
    if outcome.usage.input_tokens or outcome.usage.output_tokens:
        facts["usage"] = _usage(outcome.usage)
    return facts


def _usage(usage: Usage) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cost_usd is not None:
        notes["costUsd"] = usage.cost_usd
    return notes


def _plain(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
    }
