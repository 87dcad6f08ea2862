"""Answers calls of agents from a recording, and reports the differences if it has no answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.log.events import EventType
from podium.ports.provider import AgentRequest
from podium.runtime.tasks.changes import make_again
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult, stopped
from podium.runtime.tasks.prompting import keep_prompt
from podium.runtime.tasks.recordings import (
    Answer,
    Answering,
    Asked,
    KeptCall,
    Places,
    RecordingUnusable,
    ReplayMiss,
    Sessions,
    Turn,
    asked_of,
    code_of,
    outcome_of,
    read_calls,
)
from podium.text import reason_of

# How long a replayed call that was stopped waits to be stopped again.
_MAX_WAIT: Final = 600.0
_MAX_MESSAGE: Final = 80


class Replay:
    """Returns recorded answers without calling any agent."""

    asks_no_one = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.misses: list[str] = []
        calls = read_calls(folder)
        self._calls = {call.asked.call: call for call in calls}
        self._sessions = Sessions(calls)
        # The newest version of each restored file.
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
        asked = asked_of(host, order, request, turn, self._sessions)
        call = self._calls.get(asked.call)
        if call is None or call.asked != asked:
            raise self._miss(asked, _difference(asked, call, self._calls))
        if call.ended is not None and code_of(call.ended) in ("CANCELLED", "JOIN_DECIDED"):
            return await self._stopped(asked, call.ended, stopping)
        await asyncio.to_thread(self._make_again, host, request, call)
        places = Places(host)
        if call.ended is not None:
            return TaskResult(EventType.STEP_FAILED, places.here(call.ended))
        assert call.answer is not None
        answer = msgspec.convert(places.here(msgspec.to_builtins(call.answer)), type=Answer)
        return outcome_of(answer)

    async def _stopped(self, asked: Asked, ended: dict[str, Any], stopping: CancelToken) -> TaskResult:
        """Replay a call that became unnecessary: it ends when that happens again."""
        code = code_of(ended)
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
    """How the request differs from the recorded one, starting with what matters most."""
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
        return f"it resumed the session of {then.session}, and now with that of {asked.session}"
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
