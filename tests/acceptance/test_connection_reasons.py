"""A connection that fails names its reason."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a server that resets every connection after the first bytes of the request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.recv(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_a_reset_connection_of_an_http_step_names_its_reason(tmp_path: Path, resetting: int) -> None:
    place = Place(tmp_path)
    place.write(f"steps: [{{name: T, http: {{url: 'http://127.0.0.1:{resetting}/'}}}}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    message = place.state()["steps"]["T"]["error"]["message"]
    assert message.startswith(f"GET http://127.0.0.1:{resetting}/ failed: ")
    assert "onnection reset" in message or "disconnected" in message


@pytest.mark.parametrize(
    "url",
    [
        "http://[",
        "http://[::1/",
        "http://a:port/",
        "http://",
        "https://\u2028/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
    ],
)
def test_an_address_that_cannot_be_one_fails_its_step_with_a_reason(tmp_path: Path, url: str) -> None:
    place = Place(tmp_path)
    place.write("inputs: {url: {}}\nsteps: [{name: T, http: {url: '${inputs.url}'}}]")
    done = place.run("run", "w.yaml", "--run-id", place.run_id, "--input", f"url={url}", code=1)
    assert "Traceback" not in done.stdout + done.stderr
    error = place.state()["steps"]["T"]["error"]
    assert error["code"] != "INTERNAL_ERROR"
    assert not error["message"].rstrip().endswith(":")
