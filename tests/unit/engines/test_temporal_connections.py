"""What a person is told of errors of a Temporal server, and what a run keeps of the connection to it."""

from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from podium.engines.temporal.client import refusal
from podium.engines.temporal.connection import Connection


@pytest.mark.parametrize("status", [RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED])
def test_a_server_that_does_not_accept_a_key_or_certificate_is_a_matter_of_configuration(
    status: RPCStatusCode,
) -> None:
    said = refusal(Connection(api_key="s3cret"), RPCError("not you", status, b""))
    assert said.code == "ENGINE_REFUSED"
    assert "--api-key-file" in str(said)
    assert "127.0.0.1:7233" in str(said)
    assert "s3cret" not in str(said)


def test_any_other_error_is_a_server_that_does_not_answer() -> None:
    assert (
        refusal(Connection(), RPCError("away", RPCStatusCode.UNAVAILABLE, b"")).code == "ENGINE_UNAVAILABLE"
    )


def test_a_run_keeps_where_its_server_is_and_nothing_secret() -> None:
    given = Connection(
        address="t:1",
        namespace="n",
        queue="q",
        tls_ca=Path("/ca.pem"),
        tls_key=Path("/key.pem"),
        tls_server_name="temporal",
        api_key="s3cret",
    )
    kept = given.facts()
    assert "s3cret" not in str(kept)
    assert Connection.of_facts(kept, "s3cret") == given
