"""docs/signals.md says what the code checks, and the published schema is a JSON Schema that refuses the same."""

import json
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner

from podium.access.operations import SIGNALS
from podium.cli.schema import schema
from podium.operations.signal_payloads import SCHEMAS, InvalidSignal, check_payload
from podium.plan.overrides import KEYS, KEYS_OF
from tests.signals_page import PAGE, with_tables


@pytest.mark.rule("SS10")
def test_the_page_has_the_tables_of_the_code() -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text, "run `python -m tests.signals_page`"


def test_every_signal_has_a_role_and_a_schema() -> None:
    assert SCHEMAS.keys() == SIGNALS.keys()
    for name, operation in SIGNALS.items():
        assert "reason" in SCHEMAS[name]["properties"] or not operation.needs_reason


def test_every_key_of_an_override_is_of_some_kind_of_step() -> None:
    assert {key for keys in KEYS_OF.values() for key in keys} == KEYS.keys()


PAYLOADS: list[tuple[str, dict[str, Any], bool]] = [
    ("PAUSE", {}, True),
    ("PAUSE", {"reason": 3}, False),
    ("RESUME", {"reason": "x"}, False),
    ("RETRY_STEP", {"stepId": "a", "force": True}, True),
    ("RETRY_STEP", {"stepId": "a", "force": 1}, False),
    ("RETRY_STEP", {}, False),
    ("EMERGENCY_STOP", {"reason": ""}, False),
    ("EMERGENCY_STOP", {"reason": "fire", "forceKill": False}, True),
    ("UPDATE_PARAMS", {"params": {"context": {"x": [1]}, "budget": {"usd": 3, "tokens": None}}}, True),
    ("UPDATE_PARAMS", {"params": {"contxt": {}}}, False),
    ("UPDATE_PARAMS", {"params": {"context": []}}, False),
    ("UPDATE_PARAMS", {"params": {"budget": {"usd": "3"}}}, False),
    ("UPDATE_PARAMS", {"params": {"budget": {"usd": -1}}}, False),
    ("UPDATE_PARAMS", {"params": {"budget": {"tokens": 1.5}}}, False),
    ("UPDATE_PARAMS", {"params": {"budget": {"dollars": 1}}}, False),
    ("UPDATE_PARAMS", {"params": {"budgets": {"a": {"usd": True}}}}, False),
    ("UPDATE_PARAMS", {"params": []}, False),
    ("UPDATE_PARAMS", {"reason": "x"}, False),
    ("INJECT_OVERRIDE", {"stepId": "a", "override": {"timeout": 3}}, True),
    ("INJECT_OVERRIDE", {"stepId": "a", "override": {}}, False),
    ("INJECT_OVERRIDE", {"stepId": "a", "override": {"command": ["x"]}}, False),
    ("INJECT_OVERRIDE", {"stepId": "a", "override": {"retry": {"attempts": 0}}}, False),
    ("UPDATE_TARGET", {"stepId": "a", "newTarget": ""}, False),
    ("ESCALATE_ALERT", {"level": "P1", "note": "x"}, True),
    ("ESCALATE_ALERT", {"level": "high"}, False),
    ("APPROVE", {"planSha256": "abc"}, False),
]


@pytest.mark.parametrize(("signal", "payload", "fits"), PAYLOADS)
@pytest.mark.rule("SS10")
def test_a_payload_is_checked_as_the_published_schema_says(
    signal: str, payload: dict[str, Any], fits: bool
) -> None:
    published = json.loads(CliRunner().invoke(schema, ["signals"]).output)
    sent = {"signalType": signal, "payload": payload}
    assert jsonschema_rs.is_valid(published, sent) is fits
    if fits:
        check_payload(signal, payload)
    else:
        with pytest.raises(InvalidSignal):
            check_payload(signal, payload)


@pytest.mark.rule("SS10")
def test_a_refusal_says_what_would_be_right() -> None:
    with pytest.raises(InvalidSignal, match="did you mean 'context'"):
        check_payload("UPDATE_PARAMS", {"params": {"contxt": {}}})
    with pytest.raises(
        InvalidSignal, match="'usd' of 'budget' of 'params' of UPDATE_PARAMS has to be a number or null"
    ):
        check_payload("UPDATE_PARAMS", {"params": {"budget": {"usd": "3"}}})
