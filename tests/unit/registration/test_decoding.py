"""What the value of a message has to be: strictly the JSON of its event."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from podium.nodes.registration.decoding import Refused, decode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INTROSPECTION = "NodeIntrospectionEvent"
HEARTBEAT = "NodeHeartbeatEvent"
NODE: dict[str, Any] = {
    "node_id": "11111111-2222-4333-8444-555555555555",
    "node_type": "effect",
    "node_version": "1.0.0",
    "correlation_id": "99999999-2222-4333-8444-555555555555",
    "timestamp": "2026-01-01T00:00:00Z",
}


def code_for(body: dict[str, Any], expected: str = INTROSPECTION) -> str | None:
    try:
        decode(expected, msgspec.json.encode(body), event_type=None, version=None, received_at=NOW)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.rule("RG04")
@pytest.mark.parametrize("field", [{"epoch": True}, {"epoch": "3"}, {"epoch": 1.5}, {"timestamp": 1}])
def test_a_field_of_another_type_is_wrong_although_it_could_be_converted(field: dict[str, Any]) -> None:
    heartbeat = {"node_id": NODE["node_id"], "timestamp": NODE["timestamp"]}
    assert (code_for(NODE), code_for(heartbeat, HEARTBEAT)) == (None, None)
    assert code_for(NODE | field) == "EVENT_INVALID"
    assert code_for(heartbeat | field, HEARTBEAT) == "EVENT_INVALID"


@pytest.mark.rule("RG04")
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://user:hunter2@node/",
        "http://user@node/",
        "//user:hunter2@node/",
        "user:hunter2@node:8080/health",
        "http:user:hunter2@node/",
        "http:/user:hunter2@node/",
        "http:///user:hunter2@node/",
        "http:\\\\user:hunter2@node/",
        " http://user:hunter2@node/",
        "http://node\\user:hunter2@node/",
        "postgresql://user:hunter2@node/database",
    ],
)
def test_no_way_to_write_credentials_into_an_endpoint_is_accepted(endpoint: str) -> None:
    assert code_for(NODE | {"endpoints": {"health": endpoint}}) == "ENDPOINT_WITH_CREDENTIALS"


@pytest.mark.rule("RG04")
@pytest.mark.parametrize(
    "endpoint", ["http://node/~user@team", "http://node?to=user@team", "https://[::1]:80/", "ftp://node/", ""]
)
def test_an_at_sign_behind_the_server_is_not_a_credential(endpoint: str) -> None:
    assert code_for(NODE | {"endpoints": {"health": endpoint}}) is None
