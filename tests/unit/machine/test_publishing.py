"""Steps that publish: what they say is in their completion, and fits into it."""

from typing import Any

import pytest

from podium.expressions.evaluate import MISSING
from podium.expressions.types import Reference
from podium.machine.publishing import MAX_MESSAGE_BYTES, MessageTooLarge, message_of
from podium.plan.plan import Publish


def test_a_message_has_its_values_filled_in() -> None:
    body = Publish("orders", Reference(("context", "k")), "key", "placed")
    known: dict[tuple[str | int, ...], Any] = {("context", "k"): {"a": "k"}}
    assert message_of(body, lambda path: known.get(path, MISSING)) == {
        "topic": "orders",
        "key": "key",
        "type": "placed",
        "body": {"a": "k"},
    }
    assert message_of(Publish("orders", 1), lambda _: None)["type"] == "orders"


def test_a_message_that_would_not_fit_into_its_event_is_refused() -> None:
    message_of(Publish("orders", "x" * (MAX_MESSAGE_BYTES - 100)), lambda _: None)
    with pytest.raises(MessageTooLarge, match="publish the name of an artifact"):
        message_of(Publish("orders", "x" * MAX_MESSAGE_BYTES), lambda _: None)
