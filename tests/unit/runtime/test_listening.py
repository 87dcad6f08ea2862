"""Where a server listens: clients can connect as soon as it says so, and a taken port is refused."""

import socket

import pytest

from podium.runtime.listening import Listening, ListeningRefused


def test_a_client_can_connect_before_the_server_answers() -> None:
    listening = Listening("127.0.0.1", 0)
    with listening.listen() as bound, socket.create_connection(bound.getsockname(), timeout=10) as client:
        accepted, address = bound.accept()
        accepted.close()
        assert address == client.getsockname()


def test_a_port_that_is_taken_is_refused() -> None:
    with Listening("127.0.0.1", 0).listen() as bound:
        port = bound.getsockname()[1]
        with pytest.raises(
            ListeningRefused, match=f"cannot listen on '127.0.0.1' port {port}: .*choose another --port"
        ):
            Listening("127.0.0.1", port).listen()
