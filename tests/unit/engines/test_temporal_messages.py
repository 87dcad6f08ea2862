"""What an attempt costs in Temporal's history: its order is as short as it can be, and nothing of it gets lost."""

import msgspec
import pytest

from podium.engines.temporal.messages import AttemptArgs
from podium.log.attempts import AttemptOrder
from podium.log.drafts import EventDraft
from podium.log.ids import RunId

_RUN = RunId("release-1")
_START = EventDraft("StepStarted", "build", 1)


@pytest.mark.rule("EN12")
def test_the_order_of_a_plain_step_names_its_path_and_the_lease_only() -> None:
    args = AttemptArgs.of(AttemptOrder(_RUN, "build", 1, before=[_START]), generation=3)
    assert msgspec.json.decode(msgspec.json.encode(args)) == {"path": "build", "generation": 3}


@pytest.mark.rule("EN12")
@pytest.mark.parametrize(
    "order",
    [
        AttemptOrder(_RUN, "build", 1, before=[_START]),
        AttemptOrder(_RUN, "build", 1, before=[EventDraft("TimerFired", None, 1, {"key": "k"}, "k"), _START]),
        AttemptOrder(_RUN, "build", 2, before=[EventDraft("StepStarted", "build", 2)]),
        AttemptOrder(_RUN, "build", 1),
        AttemptOrder(_RUN, "build", 1, before=[EventDraft("StepStarted", "test", 1)]),
        AttemptOrder(_RUN, "build", 1, [(["inputs", "tag"], "v1")], [_START], ["signal|1"]),
    ],
)
def test_an_order_arrives_as_it_was_sent(order: AttemptOrder) -> None:
    sent = msgspec.json.encode(AttemptArgs.of(order, generation=1))
    assert msgspec.json.decode(sent, type=AttemptArgs).order(_RUN) == order


@pytest.mark.rule("SS07")
def test_a_changed_step_travels_with_its_start() -> None:
    start = EventDraft("StepStarted", "build", 1, {"overriddenBy": ["s1"]})
    change = {"by": ["s1"], "override": {"timeout": 3}}
    order = AttemptOrder(_RUN, "build", 1, before=[start], change=change)
    sent = msgspec.json.encode(AttemptArgs.of(order, generation=1))
    assert msgspec.json.decode(sent, type=AttemptArgs).order(_RUN) == order
