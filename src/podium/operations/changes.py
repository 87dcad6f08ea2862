"""Changes to an open run: who made them, and to which attempts they applied."""

from typing import Any, Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.payloads import Signal, StepStarted, payload_of

_CHANGES: Final = frozenset({"INJECT_OVERRIDE", "UPDATE_TARGET", "UPDATE_PARAMS"})


class Change(msgspec.Struct, rename="camel"):
    signal_id: str
    signal_type: str
    # Names only, because values can be long.
    changed: list[str]
    by: str
    by_method: str | None = None
    reason: str | None = None
    # None: a change of the run.
    step: str | None = None
    # How many attempts were started with it.
    attempts: int = 0

    @property
    def text(self) -> str:
        how = f" ({self.by_method})" if self.by_method else ""
        why = f": {self.reason}" if self.reason else ""
        text = f"{self.step or 'the run'}: {', '.join(self.changed)} changed by {self.by}{how}{why}"
        if self.step is None:
            return text
        return f"{text}; {_count(self.attempts)} started with it"


def _count(attempts: int) -> str:
    return "1 attempt has" if attempts == 1 else f"{attempts or 'no'} attempts have"


class Changes:
    """Collects changes from the records of a log, in their order."""

    def __init__(self) -> None:
        self._by_signal: dict[str, Change] = {}

    @property
    def found(self) -> list[Change]:
        return list(self._by_signal.values())

    def take(self, record: EventRecord) -> None:
        match record.event_type:
            case EventType.SIGNAL_ACCEPTED:
                self._note(payload_of(record, Signal))
            case EventType.SIGNAL_IGNORED:
                self._by_signal.pop(payload_of(record, Signal).signal_id, None)
            case EventType.STEP_STARTED if b'"overriddenBy"' in record.payload:
                for signal_id in payload_of(record, StepStarted).overridden_by:
                    if signal_id in self._by_signal:
                        self._by_signal[signal_id].attempts += 1
            case _:
                pass

    def _note(self, signal: Signal) -> None:
        if signal.signal_type not in _CHANGES:
            return
        payload = signal.payload
        self._by_signal[signal.signal_id] = Change(
            signal.signal_id,
            signal.signal_type,
            _names(payload),
            signal.by or "unknown",
            signal.by_method,
            payload.get("reason"),
            payload.get("stepId"),
        )


def _names(payload: dict[str, Any]) -> list[str]:
    """What was changed: keys of the step, its target, or parameters of the run."""
    changed = payload.get("override", payload.get("params"))
    return sorted(changed) if isinstance(changed, dict) else ["target"]
