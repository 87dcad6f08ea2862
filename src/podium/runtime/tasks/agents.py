"""Agent steps: a prompt for somebody who answers in text.

Today one provider answers: `echo`, which gives the prompt back. It is for trying workflows out without a model.
"""

from pathlib import Path
from typing import Any, Final

from podium.core.expressions import EvaluationError
from podium.core.templates import render
from podium.errors import PodiumError
from podium.model.plan import Agent
from podium.runtime.rundir import first_inside, inside
from podium.runtime.tasks import placing
from podium.runtime.tasks.capturing import NotAsExpected, check_files, check_schema, lines_of, parse_json
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import FAILED_BEFORE_START, Stopping, TaskOrder, TaskResult, completed, failed

ANSWERING: Final = frozenset({"echo"})
_MOST_INPUT: Final = 256 * 1024


class AgentTasks:
    """A `Performer`."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host

    async def perform(self, order: TaskOrder, _stopping: Stopping) -> TaskResult:
        body = order.step.body
        assert isinstance(body, Agent)
        if body.provider not in ANSWERING:
            message = (
                f"the provider {body.provider!r} cannot be asked yet; use 'echo' to try the workflow out"
            )
            return failed(FAILED_BEFORE_START, "PROVIDER_NOT_AVAILABLE", message, retryable=False)
        try:
            return await self._answer(order, body)
        except (EvaluationError, PodiumError) as error:
            return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
        except OSError as error:
            return failed(FAILED_BEFORE_START, "INPUT_UNREADABLE", str(error), retryable=False)

    async def _answer(self, order: TaskOrder, body: Agent) -> TaskResult:
        prompt = self.prompt_of(order, body)
        redactor = self._host.redactor
        shown = redactor.redact(prompt) if redactor is not None else prompt
        self._host.directory.step_file(order.path, order.attempt, "prompt").write_text(shown)
        self._host.directory.step_file(order.path, order.attempt, "out").write_text(shown)
        facts: dict[str, Any] = {"output": shown[: order.workflow.max_output_size], "durationMs": 0}
        file = placing.output_file(body.work, order.lookup, self._host.directory)
        if file is not None:
            file.new.write(prompt.encode())
            facts |= await file.keep(held_a_secret=shown != prompt)
        files = placing.expected_files(body.work, order.lookup, self._host.directory)
        try:
            if body.work.capture == "lines":
                facts["lines"] = lines_of(shown)
            elif body.work.capture == "json":
                facts["json"] = parse_json(shown)
            check_files(files, self._host.directory)
            check_schema(body.work, facts)
        except NotAsExpected as unmet:
            return failed(1, unmet.code, str(unmet), **facts)
        return completed(**facts)

    def prompt_of(self, order: TaskOrder, body: Agent) -> str:
        """The prompt, then the inputs in their order, each under its name."""
        lookup = order.lookup
        if body.prompt.text is not None:
            parts = [render(body.prompt.text, lookup)]
        else:
            assert body.prompt.file is not None
            name = render(body.prompt.file, lookup)
            parts = [inside(self._host.workspace, name, what="prompt_file").read_text()]
        for text in body.work.input_files:
            name = render(text, lookup)
            parts.append(f"## {name}\n{self._input(name, body.work.inject)}")
        return "\n\n".join(parts)

    def _input(self, name: str, inject: str) -> str:
        roots = (self._host.directory.artifacts, self._host.workspace)
        path = first_inside(roots, name, what="input_file")
        if path is None:
            raise NotAsExpected(
                f"there is no input file {name!r}, neither among the artifacts nor in the workspace"
            )
        return _listing(path, contents=inject == "content") if path.is_dir() else _content(path)


def _content(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_INPUT + 1)
    cut = "\n[... cut here]" if len(content) > _MOST_INPUT else ""
    return content[:_MOST_INPUT].decode("utf-8", "replace") + cut


def _listing(folder: Path, *, contents: bool) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not contents:
        return "\n".join(str(path.relative_to(folder)) for path in files)
    return "\n\n".join(f"### {path.relative_to(folder)}\n{_content(path)}" for path in files)
