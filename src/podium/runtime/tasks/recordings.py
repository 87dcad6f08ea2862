"""Recordings: what agents were asked and what they answered, stored so that a run can be replayed without
them.

A recording is a folder of one run: `recording.json`, and a JSON file for each call, named by its step and
attempt (`Review.1.json`, and `Review.1.repair.json` for the turn after a result that did not fit). Calls have
names instead of an order, so that concurrent branches, retries and resumed runs find theirs.

A call is answered from a recording only if the request is the same: provider, settings, schema, session and
prompt. Anything else is a miss. A session is the same if the same call started it, because session ids are
different each time. Paths of the run and of the workspace are written as «run», «artifacts» and «workspace»,
so that a recording can be used elsewhere. `recorder.py` makes recordings, `replay.py` answers from them.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from podium.errors import PodiumError
from podium.plan.canonical import canonical_sha256
from podium.plan.plan import Agent
from podium.ports.provider import AgentError, AgentOutcome, AgentRequest, AgentSettings, Denial, Usage
from podium.runtime.rundir import file_name
from podium.runtime.tasks.changes import FileChange
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.masking import masked
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult

MARK: Final = "recording.json"
VERSION: Final = 1

Turn: TypeAlias = Literal["first", "repair"]
Answering: TypeAlias = AgentOutcome | TaskResult


class ReplayMiss(PodiumError):
    """The recording has no answer to this request."""

    code = "REPLAY_MISS"


class RecordingUnusable(PodiumError):
    """A folder that is not a recording, or a file of one that cannot be read or written."""

    code = "RECORDING_UNUSABLE"


class Recordings(Protocol):
    @property
    def asks_no_one(self) -> bool:
        """Whether no agent is needed because every answer is recorded."""
        ...

    @property
    def misses(self) -> Sequence[str]:
        """The steps that were not answered, even if the workflow continued without them."""
        ...

    async def answer(
        self,
        host: TaskHost,
        order: TaskOrder,
        request: AgentRequest,
        turn: Turn,
        ask: Callable[[], Awaitable[Answering]],
        stopping: CancelToken,
    ) -> Answering: ...


class Asked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything that identifies a call. Texts are lists of lines, because people read them and their diffs."""

    step: str
    attempt: int
    provider: str
    prompt: list[str]
    turn: Turn = "first"
    # Only those that are set.
    settings: dict[str, Any] = {}
    schema: Any = None
    # The call that started the session to continue.
    session: str | None = None
    # For a provider that the workflow describes: the hash of its description.
    template: str | None = None

    @property
    def call(self) -> str:
        return f"{file_name(self.step)}.{self.attempt}{'' if self.turn == 'first' else f'.{self.turn}'}"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    text: list[str] = []
    json: Any = None
    session: str | None = None
    # The call that started this session.
    begun_by: str | None = None
    usage: Usage = Usage()
    session_usage: Usage | None = None
    denials: tuple[Denial, ...] = ()
    error: AgentError | None = None
    warnings: tuple[str, ...] = ()
    outputs: dict[str, str] = {}


class KeptCall(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    asked: Asked
    # The answer; or how the attempt ended without one: timed out, stopped, not started.
    answer: Answer | None = None
    ended: dict[str, Any] | None = None
    # What the agent has changed below its working directory, and among the run's artifacts.
    workspace: list[FileChange] = []
    artifacts: list[FileChange] = []
    # The calls are numbered in the order of their ends: of two concurrent ones, the later one has the final
    # state of a file.
    order: int = 0


def encode_call(call: KeptCall, host: TaskHost) -> bytes:
    plain = msgspec.to_builtins(call)
    # Not in the files that an agent has changed: they are stored as they were.
    plain |= {name: Places(host).named(plain[name]) for name in ("answer", "ended") if name in plain}
    if host.redactor is not None:
        plain = masked(plain, host.redactor)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def read_calls(folder: Path) -> list[KeptCall]:
    """Every call of a recording, as it is written. Raises `RecordingUnusable`."""
    _check(folder)
    found = []
    for path in sorted(folder.glob("*.json")):
        if path.name != MARK:
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=KeptCall))
            except (OSError, msgspec.MsgspecError) as error:
                raise RecordingUnusable(
                    f"{str(path)!r} is not a recorded call: {error}; record the run again with --record"
                ) from error
    return found


def _check(folder: Path) -> None:
    try:
        version = msgspec.json.decode((folder / MARK).read_bytes(), type=dict[str, Any]).get("version")
    except (OSError, msgspec.MsgspecError) as error:
        raise RecordingUnusable(
            f"{str(folder)!r} is not a recording; make one with `podium run FILE --record {folder}`"
        ) from error
    if version != VERSION:
        raise RecordingUnusable(
            f"{str(folder)!r} is a recording of version {version!r}, and this Podium reads {VERSION}; record it again"
        )


class Places:
    """Replaces folders of this run by placeholders in stored texts, and back."""

    def __init__(self, host: TaskHost) -> None:
        folders = {
            "artifacts": host.directory.artifacts,
            "run": host.directory.path,
            "workspace": host.workspace,
        }
        self._at = {f"«{name}»": str(path.absolute()) for name, path in folders.items()}
        named = {str(form): f"«{name}»" for name, path in folders.items() for form in _forms(path)}
        named.pop("/", None)
        self._names = named
        # The longest first, because one folder may be inside another.
        words = "|".join(re.escape(path) for path in sorted(named, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-]|\.\w)") if words else None

    def named(self, value: Any) -> Any:
        if self._pattern is None:
            return value
        pattern, names = self._pattern, self._names
        return _in_texts(value, lambda text: pattern.sub(lambda found: names[found[0]], text))

    def here(self, value: Any) -> Any:
        return _in_texts(value, self._here)

    def _here(self, text: str) -> str:
        for name, path in self._at.items():
            text = text.replace(name, path)
        return text


def _forms(path: Path) -> tuple[Path, Path]:
    """The path as given, and as reported to programs by the system."""
    return path.absolute(), path.resolve()


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _in_texts(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_in_texts(item, change) for item in value]
        case _:
            return value


class Sessions:
    """Which call started a session, by the session's id."""

    def __init__(self, calls: list[KeptCall]) -> None:
        self._begun_by = {
            call.answer.session: call.answer.begun_by
            for call in calls
            if call.answer is not None and call.answer.session is not None
        }

    def beginner(self, session: str | None) -> str | None:
        return None if session is None else self._begun_by.get(session) or "another run"

    def begun(self, session: str | None, call: str) -> str | None:
        return None if session is None else self._begun_by.setdefault(session, call)


def asked_of(
    host: TaskHost, order: TaskOrder, request: AgentRequest, turn: Turn, sessions: Sessions
) -> Asked:
    """The request in its stored form: with placeholders for folders, and secrets masked."""
    body = order.step.body
    assert isinstance(body, Agent)
    template = order.workflow.providers.get(body.provider)
    asked = Asked(
        order.path,
        order.attempt,
        body.provider,
        lines_of(request.prompt, host),
        turn,
        _set(request.settings),
        msgspec.to_builtins(request.schema),
        sessions.beginner(request.resume),
        canonical_sha256(msgspec.to_builtins(template))[:16] if template is not None else None,
    )
    plain = Places(host).named(msgspec.to_builtins(asked))
    if host.redactor is not None:
        plain = masked(plain, host.redactor)
    # Encoded and decoded, so that exactly what can be read back is compared.
    return msgspec.json.decode(msgspec.json.encode(plain), type=Asked)


def lines_of(text: str, host: TaskHost) -> list[str]:
    """Masked before it is split, because a secret may have several lines."""
    return (host.redactor.redact(text) if host.redactor is not None else text).split("\n")


def _set(settings: AgentSettings) -> dict[str, Any]:
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }


def answer_of(outcome: AgentOutcome, begun_by: str | None, host: TaskHost) -> Answer:
    return Answer(
        lines_of(outcome.text, host),
        outcome.structured,
        outcome.session_id,
        begun_by,
        outcome.usage,
        outcome.session_usage,
        outcome.denials,
        outcome.error,
        outcome.warnings,
        dict(outcome.outputs),
    )


def outcome_of(answer: Answer) -> AgentOutcome:
    return AgentOutcome(
        "\n".join(answer.text),
        answer.json,
        answer.session,
        answer.usage,
        answer.session_usage,
        answer.denials,
        answer.error,
        answer.warnings,
        answer.outputs,
    )


def code_of(payload: Mapping[str, Any]) -> str:
    return str((payload.get("error") or {}).get("code"))
