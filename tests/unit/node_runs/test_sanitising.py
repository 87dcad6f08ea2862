"""Nothing that a node was given, and nothing that a service answered, is in what its failure says."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from podium.nodes import EffectExecutionError, NodeContext, NodeEffect, operation
from podium.nodes.sanitising import safe_code, safe_correlation_id, safe_message
from podium.testing.virtual_time import run_virtually
from tests.unit.node_runs.running import Ended, Host, contract

PLANTED = {
    "password": "hunter2-Passw0rd",
    "dsn": "postgresql://app:s3cret@10.1.2.3:5432/orders",
    "token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "name": "Erika Mustermann",
    "email": "erika@example.com",
    "phone": "+49 170 1234567",
    "card": "4111 1111 1111 1111",
    "address": "192.168.17.4",
    "payload": '{"order": {"iban": "DE89370400440532013000"}}',
}


class Given(BaseModel):
    event: dict[str, Any]


class Echo(NodeEffect):
    """Like a service that repeats in its errors what it was sent."""

    name = "echo"

    @operation
    async def act(self, data: Given, context: NodeContext) -> Given:
        text = json.dumps(data.event)
        kind = data.event["kind"]
        if kind == "coded":
            raise EffectExecutionError(text)
        if kind == "chained":
            try:
                raise ConnectionError(text)
            except ConnectionError as error:
                raise EffectExecutionError from error
        if kind == "named":
            raise type(text, (Exception,), {})(text)
        if kind == "noted":
            noted = ValueError(text)
            noted.add_note(text)
            raise noted
        raise {"value": ValueError, "os": OSError, "timeout": TimeoutError}[kind](text)


def everything(ended: Ended, folder: Path) -> str:
    """What was recorded after the event had come in: the ends of steps and of the run, and all files but the inputs."""
    events = [
        event.payload.decode()
        for event in ended.events
        if event.event_type not in ("RunQueued", "RunStarted")
    ]
    files = [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
    return "\n".join(
        [*events, *(text for text in files if '"RunQueued"' not in text and '"inputs"' not in text)]
    )


@pytest.mark.rule("RO06")
@pytest.mark.parametrize("kind", ["value", "os", "timeout", "coded", "chained", "named", "noted"])
def test_no_failure_shows_what_the_node_was_given(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> Ended:
        text = contract("{node_id: echo, node_type: effect}", rules="max_retries: 1")
        return await Host(tmp_path, (Echo,)).run(text, {"kind": kind, **PLANTED})

    ended = run_virtually(scenario())
    error = ended.error("echo")
    shown = everything(ended, tmp_path) + str(error) + "".join(capfd.readouterr()) + caplog.text
    assert [
        name for name, value in PLANTED.items() if value in shown or json.dumps(value)[1:-1] in shown
    ] == []
    assert "correlation id run-1" in error["message"]
    assert "test_sanitising.py:" in error["message"]


@pytest.mark.rule("RO06")
def test_a_correlation_id_that_is_not_a_uuid_is_not_shown() -> None:
    known = "0B7C1C1E-7F0C-4A5B-9A52-3F1F8A7F8D11"
    assert safe_correlation_id(known, "r") == known.lower()
    for planted in (*PLANTED.values(), 7, None, ["x"]):
        assert safe_correlation_id(planted, "r") == "r"


@pytest.mark.rule("RO06")
def test_only_words_in_capitals_are_codes() -> None:
    assert safe_code(EffectExecutionError("CONSUL_UNAVAILABLE")) == "CONSUL_UNAVAILABLE"
    for planted in PLANTED.values():
        assert safe_code(EffectExecutionError(planted)) == "NODE_ERROR"


@pytest.mark.rule("RO06")
def test_a_failure_says_node_operation_class_place_code_and_correlation_id() -> None:
    message = safe_message(ValueError("x"), node="consul", operation="register", correlation_id="c-1")
    assert (
        message
        == "operation 'register' of node 'consul' failed with ValueError (NODE_ERROR); correlation id c-1"
    )
