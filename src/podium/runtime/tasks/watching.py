"""What a working agent reports: its progress, for people, and its session, to continue it.

Both are small files beside the prompt. `<step>.<attempt>.progress` gets a line for each action of the agent;
its last line is the current progress. `<step>.<attempt>.session` names the conversation as soon as it is
known, or before the program starts if we choose it: an interrupted attempt can then continue in it. Neither
is authoritative, and whatever an agent prints, or a full disk refuses, the run continues without them.
"""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from podium.plan.plan import Agent
from podium.ports.provider import AgentOutcome, AgentRequest, Progress, Provider
from podium.runtime.own_files import open_new, open_to_append
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder

_MAX_LINE: Final = 160
_MAX_PROGRESS: Final = 1 << 20
_MAX_SESSION: Final = 200
# An agent that writes more lines would keep the run busy with nothing but reading.
_MAX_LINES: Final = 100_000


class Watch:
    """Follows one visit of an agent. None of its methods raises."""

    def __init__(self, order: TaskOrder, provider: Provider, host: TaskHost) -> None:
        self._provider = provider.name
        self._observe: Callable[[bytes], Progress | None] | None = provider.observe
        self._redactor = host.redactor
        self._progress_file = host.directory.step_file(order.path, order.attempt, "progress")
        self._session_file = host.directory.step_file(order.path, order.attempt, "session")
        self._session: str | None = None
        self._turns = 0
        # What follows is the model's: a new turn.
        self._is_models_turn = True
        self._does = ""
        # Tokens of earlier turns and of this one, whose reported number grows while it lasts.
        self._tokens_before = 0
        self._tokens = 0
        self._last = ""
        self._is_shown = False
        self._left = _MAX_PROGRESS
        self._lines_left = _MAX_LINES

    def begin(self) -> None:
        """Create an empty file to show that there is an agent to watch. Without it nothing is shown, only
        parsed.
        """
        self._is_shown = True
        self._put(b"", new=True)

    def keep_session(self, session: str) -> None:
        if session == self._session or not _can_be_named(session):
            return
        self._session = session
        known = {"provider": self._provider, "session": session}
        # If it is incomplete or missing, an interrupted attempt starts again.
        with contextlib.suppress(OSError), open_new(self._session_file) as opened:
            opened.write(json.dumps(known).encode())
            os.fsync(opened.fileno())

    def hear(self, line: bytes) -> None:
        """A complete line of the answer, masked."""
        if self._observe is None:
            return
        self._lines_left -= 1
        if self._lines_left < 0:
            self._observe = None
            self.show("it writes too much to be followed")
            return
        try:
            progress = self._observe(line)
            if progress is not None:
                self._follow(progress)
        except Exception as defect:
            # Providers may come from other packages. Only their final interpretation matters.
            self._observe = None
            self.show(f"it cannot be followed any more: {type(defect).__name__}")

    def hear_raw(self, line: bytes) -> None:
        """The same for a line that is not masked yet."""
        self.hear(self._redactor.redact_bytes(line) if self._redactor is not None else line)

    def _follow(self, progress: Progress) -> None:
        if progress.session_id:
            self.keep_session(progress.session_id)
        if progress.tool or progress.text:
            if self._is_models_turn:
                self._is_models_turn = False
                self._turns += 1
                self._tokens_before += self._tokens
                self._tokens = 0
            self._does = f"{progress.tool} {progress.detail or ''}" if progress.tool else "writes"
        if progress.output_tokens:
            self._tokens = progress.output_tokens
        if progress.tool_ended:
            self._is_models_turn = True
        if self._turns:
            self.show(f"turn {self._turns}: {_shortened(self._does)}{self._cost()}")

    def _cost(self) -> str:
        tokens = self._tokens_before + self._tokens
        return f" ({tokens} tokens)" if tokens else ""

    def show(self, line: str) -> None:
        if line == self._last or not self._is_shown:
            return
        self._last = line
        written = f"{line}\n".encode()
        self._left -= len(written)
        if self._left >= 0:
            self._put(written)

    def _put(self, content: bytes, *, new: bool = False) -> None:
        try:
            with (open_new if new else open_to_append)(self._progress_file) as opened:
                opened.write(content)
        except OSError:
            self._left = -1


def interrupted_session(order: TaskOrder, provider: Provider, host: TaskHost) -> str | None:
    """The conversation of this attempt in which an earlier process was killed; None if it is new or unknown."""
    body = order.step.body
    assert isinstance(body, Agent)
    if order.engine_attempt == 1 or provider.sessions == "none" or body.workspace == "worktree":
        # In a worktree the conversation would refer to files that are gone with the earlier one.
        return None
    file = host.directory.step_file(order.path, order.attempt, "session")
    try:
        with file.open("rb") as opened:
            known = json.loads(opened.read(4 * _MAX_SESSION))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or known.get("provider") != provider.name:
        return None
    session = known.get("session")
    return session if isinstance(session, str) and _can_be_named(session) else None


def in_session(request: AgentRequest, session: str) -> AgentRequest:
    """The same request in the conversation in which it was interrupted.

    It contains the whole prompt again, because it is unknown whether the agent had saved it before it was
    killed.
    """
    prompt = (
        "You were interrupted while you worked on the task below, and all that you had started was stopped. See what "
        f"you have done already, continue from there, and end with the answer to the whole task.\n\n{request.prompt}"
    )
    return replace(request, prompt=prompt, resume=session)


def is_lost(outcome: AgentOutcome) -> bool:
    """Whether the conversation is missing: the agent was killed before saving it, or it was removed."""
    return outcome.error is not None and outcome.error.code == "SESSION_LOST"


def _can_be_named(session: str) -> bool:
    # It becomes an argument of a program, so it must not look like a flag.
    return 0 < len(session) <= _MAX_SESSION and session.isprintable() and session[0] != "-"


def _shortened(text: str) -> str:
    """A single short line of printable characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(line.split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 3]}..."
