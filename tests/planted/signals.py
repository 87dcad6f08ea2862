"""Faults in deciding about signals."""

from typing import Final

from tests.planted.edits import drop, swap
from tests.planted.faults import Fault, fault

_DECISIONS: Final = "operations/signal_decisions.py"
_SIGNALS: Final = "operations/signals.py"

FAULTS: Final[list[Fault]] = [
    fault(
        "G27",
        "a signal with the id of another one is taken for it",
        swap(f"{_DECISIONS}:repeat_decision", "not is_same", "False"),
    ),
    fault(
        "G27",
        "a refused signal is accepted when it is sent again",
        drop(f"{_DECISIONS}:repeat_decision", "if earlier.event_type == EventType.SIGNAL_REJECTED: ..."),
    ),
    fault(
        "G27",
        "two callers decide about one id at the same time",
        swap(f"{_SIGNALS}:_condition", "None if is_last else head", "None"),
    ),
    fault(
        "G27",
        "the id of a refused signal may be used for another one",
        swap(f"{_DECISIONS}:earlier_decision", "_DECISIONS", "_DECISIONS[:1]"),
    ),
]
