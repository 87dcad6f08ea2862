"""Recordings: what agents were asked and what they answered, kept so that it can be answered again without them.

A recording is a folder of one run: `recording.json`, and a file of JSON for each call, named by its step and attempt
(`Review.1.json`, and `Review.1.repair.json` for the turn after a result that did not fit). Names of calls, and not an
order of calls: branches that run at once, retries and runs that are resumed find theirs.

A call is answered from a recording only if the same is asked: provider, settings, schema, session and prompt. Anything
else is a miss. A session is the same if the same call started it; ids of sessions are made up anew each time. Paths of
the run and of the workspace are written as «run», «artifacts» and «workspace»: a recording is used elsewhere, too.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from podium.errors import PodiumError
from podium.log.events import EventType
from podium.plan.canonical import canonical_sha256
from podium.plan.plan import Agent
from podium.ports.provider import AgentError, AgentOutcome, AgentRequest, AgentSettings, Denial, Usage
from podium.runtime.rundir import file_name, write_atomically
from podium.runtime.tasks.changes import MAX_FILES, FileChange, Seen, changes, look, make_again
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.masking import masked
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult, stopped
from podium.runtime.tasks.prompting import keep_prompt
from podium.text import reason_of

_MARK: Final = "recording.json"
_VERSION: Final = 1
# How long a call that was stopped waits to be stopped again.
_MAX_WAIT: Final = 600.0
_MAX_MESSAGE: Final = 80

Turn: TypeAlias = Literal["first", "repair"]
Answering: TypeAlias = AgentOutcome | TaskResult


class ReplayMiss(PodiumError):
    """The recording has no answer to what is asked."""

    code = "REPLAY_MISS"


class RecordingUnusable(PodiumError):
    """A folder that is no recording, or a file of one that cannot be read or written."""

    code = "RECORDING_UNUSABLE"


class Recordings(Protocol):
    @property
    def asks_no_one(self) -> bool:
        """No agent is needed: every answer is kept already."""
        ...

    @property
    def misses(self) -> Sequence[str]:
        """The steps that were not answered, also if the workflow went on without them."""
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


# --- what is kept ---------------------------------------------------------------------------------


class Asked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What makes two calls the same. Texts are lists of lines: people read them, and differences of them."""

    step: str
    attempt: int
    provider: str
    prompt: list[str]
    turn: Turn = "first"
    # Only what is set.
    settings: dict[str, Any] = {}
    schema: Any = None
    # The call that started the session which continues.
    session: str | None = None
    # Of a provider that the workflow describes: the hash of its description.
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
    # The answer; or how the attempt ended without one: out of time, stopped, not started.
    answer: Answer | None = None
    ended: dict[str, Any] | None = None
    # What the agent has changed below the folder it worked in, and among the run's artifacts.
    workspace: list[FileChange] = []
    artifacts: list[FileChange] = []
    # The how-manieth call to end: of two that ran at once the later one knows what became of a file.
    order: int = 0


def _written(call: KeptCall, host: TaskHost) -> bytes:
    plain = msgspec.to_builtins(call)
    # Not in the files that an agent has changed: they are kept as they were.
    plain |= {name: _Places(host).named(plain[name]) for name in ("answer", "ended") if name in plain}
    if host.redactor is not None:
        plain = masked(plain, host.redactor)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def _read(folder: Path) -> list[KeptCall]:
    """Every call of a recording, as it is written. Raises `RecordingUnusable`."""
    _check(folder)
    found = []
    for path in sorted(folder.glob("*.json")):
        if path.name != _MARK:
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=KeptCall))
            except (OSError, msgspec.MsgspecError) as error:
                raise RecordingUnusable(
                    f"{str(path)!r} is not a recorded call: {error}; record the run again with --record"
                ) from error
    return found


def _check(folder: Path) -> None:
    try:
        version = msgspec.json.decode((folder / _MARK).read_bytes(), type=dict[str, Any]).get("version")
    except (OSError, msgspec.MsgspecError) as error:
        raise RecordingUnusable(
            f"{str(folder)!r} is not a recording; make one with `podium run FILE --record {folder}`"
        ) from error
    if version != _VERSION:
        raise RecordingUnusable(
            f"{str(folder)!r} is a recording of version {version!r}, and this Podium reads {_VERSION}; record it again"
        )


class _Places:
    """Folders of this run by their names, in texts that are kept; and back."""

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
        # The longest first: one folder may lie in another.
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
    """As it was given, and as programs tell it that ask where they are."""
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


class _Sessions:
    """Which call started a session, by its id."""

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


def _asked(host: TaskHost, order: TaskOrder, request: AgentRequest, turn: Turn, sessions: _Sessions) -> Asked:
    """What is asked as it would be kept: places named, secrets masked."""
    body = order.step.body
    assert isinstance(body, Agent)
    template = order.workflow.providers.get(body.provider)
    asked = Asked(
        order.path,
        order.attempt,
        body.provider,
        _lines(request.prompt, host),
        turn,
        _set(request.settings),
        msgspec.to_builtins(request.schema),
        sessions.beginner(request.resume),
        canonical_sha256(msgspec.to_builtins(template))[:16] if template is not None else None,
    )
    plain = _Places(host).named(msgspec.to_builtins(asked))
    if host.redactor is not None:
        plain = masked(plain, host.redactor)
    # Through JSON: what is compared is what can be read back.
    return msgspec.json.decode(msgspec.json.encode(plain), type=Asked)


def _lines(text: str, host: TaskHost) -> list[str]:
    """Masked before it is cut: a secret may have several lines."""
    return (host.redactor.redact(text) if host.redactor is not None else text).split("\n")


def _set(settings: AgentSettings) -> dict[str, Any]:
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }


# --- recording ------------------------------------------------------------------------------------


class Recorder:
    """Asks, and keeps what came of it."""

    asks_no_one = False
    misses: Sequence[str] = ()

    def __init__(self, folder: Path, *, goes_on: bool) -> None:
        """`goes_on`: with what is there already; otherwise it makes way for the first call that is kept."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not any(folder.iterdir()):
                write_atomically(folder / _MARK, msgspec.json.encode({"version": _VERSION}) + b"\n")
        except OSError as error:
            raise _not_written(folder, error) from error
        if not (folder / _MARK).exists():
            raise RecordingUnusable(f"{str(folder)!r} holds other files; name a new folder, or an empty one")
        calls = _read(folder) if goes_on else []
        self._is_cleared = goes_on
        self._sessions = _Sessions(calls)
        self._ended = max((call.order for call in calls), default=0)

    async def answer(
        self,
        host: TaskHost,
        order: TaskOrder,
        request: AgentRequest,
        turn: Turn,
        ask: Callable[[], Awaitable[Answering]],
        stopping: CancelToken,
    ) -> Answering:
        self._clear()
        asked = _asked(host, order, request, turn, self._sessions)
        watched = _Watched(host, request, self._folder)
        await asyncio.to_thread(watched.begin)
        result = await ask()
        if isinstance(result, TaskResult) and _code(result.payload) == "INTERRUPTED":
            return result  # it is carried out again when the run is resumed
        await asyncio.to_thread(watched.end)
        if isinstance(result, AgentOutcome) and watched.warnings:
            # Part of the answer, so that a replay says the same.
            result = replace(result, warnings=(*result.warnings, *watched.warnings))
        call = self._kept(asked, result, watched, host)
        try:
            await asyncio.to_thread(
                write_atomically, self._folder / f"{asked.call}.json", _written(call, host)
            )
        except OSError as error:
            raise _not_written(self._folder, error) from error
        return result

    def _clear(self) -> None:
        """Of an earlier recording nothing stays: its answers would be taken for this one's."""
        if not self._is_cleared:
            self._is_cleared = True
            for path in self._folder.glob("*.json"):
                if path.name != _MARK:
                    path.unlink(missing_ok=True)

    def _kept(self, asked: Asked, result: Answering, watched: "_Watched", host: TaskHost) -> KeptCall:
        self._ended += 1
        if isinstance(result, TaskResult):
            answer, ended = None, result.payload
        else:
            begun_by = self._sessions.begun(result.session_id, asked.call)
            answer, ended = _answer_of(result, begun_by, host), None
        return KeptCall(asked, answer, ended, watched.in_workspace, watched.in_artifacts, self._ended)


def _not_written(folder: Path, error: OSError) -> RecordingUnusable:
    return RecordingUnusable(f"the recording {str(folder)!r} cannot be written: {error.strerror or error}")


def _answer_of(outcome: AgentOutcome, begun_by: str | None, host: TaskHost) -> Answer:
    return Answer(
        _lines(outcome.text, host),
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


def _outcome(answer: Answer) -> AgentOutcome:
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


def _code(payload: Mapping[str, Any]) -> str:
    return str((payload.get("error") or {}).get("code"))


class _Watched:
    """The folders in which an agent may leave something, while it works."""

    def __init__(self, host: TaskHost, request: AgentRequest, recording: Path) -> None:
        self._host = host
        # Whoever may only read changes nothing there.
        self._workspace = request.workspace if request.settings.access != "read" else None
        # A run's own files are no work of an agent; neither is what is being recorded.
        self._but = (host.directory.path.parent, host.directory.path, recording)
        self._before: tuple[Seen | None, Seen | None] = (None, None)
        self.in_workspace: list[FileChange] = []
        self.in_artifacts: list[FileChange] = []
        self.warnings: list[str] = []

    def begin(self) -> None:
        self._before = self._look()

    def end(self) -> None:
        workspace, artifacts = self._look()
        before, earlier = self._before
        if self._workspace is not None:
            self.in_workspace = self._changes(self._workspace, before, workspace)
        self.in_artifacts = self._changes(self._host.directory.artifacts, earlier, artifacts)

    def _look(self) -> tuple[Seen | None, Seen | None]:
        workspace = look(self._workspace, self._but) if self._workspace is not None else None
        return workspace, look(self._host.directory.artifacts)

    def _changes(self, root: Path, before: Seen | None, after: Seen | None) -> list[FileChange]:
        if before is None or after is None:
            self.warnings.append(
                f"{root.name!r} has more than {MAX_FILES} files: what the agent changed there is not recorded"
            )
            return []
        found = changes(root, before, after, self._host.redactor)
        if found.left_out:
            names = ", ".join(repr(name) for name in found.left_out[:3])
            more = f" and {len(found.left_out) - 3} more" if len(found.left_out) > 3 else ""
            self.warnings.append(f"the recording is without these files, which are too large: {names}{more}")
        return found.files


# --- replaying ------------------------------------------------------------------------------------


class Replay:
    """Gives what was recorded, and asks nobody."""

    asks_no_one = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.misses: list[str] = []
        calls = _read(folder)
        self._calls = {call.asked.call: call for call in calls}
        self._sessions = _Sessions(calls)
        # The newest version of each file that was made again.
        self._newest: dict[Path, int] = {}

    async def answer(
        self,
        host: TaskHost,
        order: TaskOrder,
        request: AgentRequest,
        turn: Turn,
        ask: Callable[[], Awaitable[Answering]],
        stopping: CancelToken,
    ) -> Answering:
        keep_prompt(host, order, request.prompt)
        asked = _asked(host, order, request, turn, self._sessions)
        call = self._calls.get(asked.call)
        if call is None or call.asked != asked:
            raise self._miss(asked, _difference(asked, call, self._calls))
        if call.ended is not None and _code(call.ended) in ("CANCELLED", "JOIN_DECIDED"):
            return await self._stopped(asked, call.ended, stopping)
        await asyncio.to_thread(self._make_again, host, request, call)
        places = _Places(host)
        if call.ended is not None:
            return TaskResult(EventType.STEP_FAILED, places.here(call.ended))
        assert call.answer is not None
        answer = msgspec.convert(places.here(msgspec.to_builtins(call.answer)), type=Answer)
        return _outcome(answer)

    async def _stopped(self, asked: Asked, ended: dict[str, Any], stopping: CancelToken) -> TaskResult:
        """A call that others made needless: it ends when they do so again."""
        code = _code(ended)
        if code == "JOIN_DECIDED" and await stopping.wait(within=_MAX_WAIT) == "cancelled":
            return stopped(stopping.code)
        raise self._miss(asked, f"it was stopped ({code}) before it had an answer")

    def _make_again(self, host: TaskHost, request: AgentRequest, call: KeptCall) -> None:
        try:
            for root, files in (
                (request.workspace, call.workspace),
                (host.directory.artifacts, call.artifacts),
            ):
                wanted = [one for one in files if self._newest.get(root / one.path, 0) < call.order]
                self._newest.update((root / one.path, call.order) for one in wanted)
                make_again(root, wanted)
        except (OSError, ValueError) as error:
            raise RecordingUnusable(
                f"what the agent changed in step {call.asked.step!r} cannot be made again: {reason_of(error)}"
            ) from error

    def _miss(self, asked: Asked, why: str) -> ReplayMiss:
        self.misses.append(asked.step)
        return ReplayMiss(
            f"the recording {str(self._folder)!r} has no answer for step {asked.step!r}, attempt {asked.attempt}: "
            f"{why}. Record it again with --record, or undo the change"
        )


def _difference(asked: Asked, call: KeptCall | None, calls: Mapping[str, KeptCall]) -> str:
    """What is asked now and was not then, starting with what matters most."""
    if call is None:
        same = [name for name, one in calls.items() if one.asked.prompt == asked.prompt]
        if same:
            return f"the same prompt was recorded as {same[0]!r} only"
        if asked.turn == "repair":
            return "no second turn was recorded: the result fitted its schema"
        known = sorted({one.asked.step for one in calls.values()})
        if asked.step in known:
            return "this attempt was not recorded"
        return f"no call of this step is recorded. Recorded steps: {_few(known)}"
    then = call.asked
    if then.provider != asked.provider:
        return f"{then.provider!r} was asked, and now it is {asked.provider!r}"
    if then.template != asked.template:
        return f"the provider {asked.provider!r} is described differently now"
    for name in sorted(then.settings.keys() | asked.settings.keys()):
        before, now = then.settings.get(name), asked.settings.get(name)
        if before != now:
            return f"`{name}` was {_short(before)}, and now it is {_short(now)}"
    if then.schema != asked.schema:
        return "the schema of its result is another now"
    if then.session != asked.session:
        return f"it went on with the session of {then.session}, and now with that of {asked.session}"
    return f"the prompt differs {_first_difference(then.prompt, asked.prompt)}"


def _first_difference(then: list[str], now: list[str]) -> str:
    for number, (before, after) in enumerate(zip(then, now, strict=False), 1):
        if before != after:
            at = next(
                (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0
            )
            start = max(0, at - _MAX_MESSAGE // 2)
            return f"in line {number}: it was {_short(before[start:])}, and now it is {_short(after[start:])}"
    longer, difference = (now, "is new") if len(now) > len(then) else (then, "is missing")
    number = min(len(then), len(now)) + 1
    return f"in line {number}: {_short(longer[number - 1])} {difference}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(repr(name) for name in names[:10]) or "no calls at all") + more
