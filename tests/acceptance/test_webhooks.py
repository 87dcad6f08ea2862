"""Webhooks: a worker posts events of runs, signed and in order, also after it was killed; never inside the network."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from podium.hooks.signing import is_signed
from tests.acceptance.podium import Place, until

SECRET = "correct-horse-battery-staple"
FLOW = """
steps:
  - {name: A, command: [echo, a]}
  - {name: B, command: [echo, b]}
"""


class Receiver:
    """Keeps what it accepts. `answers`: the next ones; afterwards 204."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.accepted: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status == 204:
                    receiver.accepted.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/podium?key=hidden"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.accepted]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    (tmp_path / "config.yaml").write_text("webhooks: {allow_loopback: true}")
    made.environment |= {
        "PODIUM_CONFIG": str(tmp_path / "config.yaml"),
        "CHAT_HOOK": SECRET,
        "PODIUM_LEASE": "3",
    }
    made.write(FLOW)
    return made


def test_events_arrive_signed_in_order_although_the_receiver_fails_and_the_worker_is_killed(
    place: Place, receiver: Receiver
) -> None:
    receiver.answers = [500, 302, 204, 503]
    place.run("webhook", "add", "chat", "--url", receiver.url, "--secret", "CHAT_HOOK", "--plan", "test")
    place.run(
        "webhook", "add", "ends", "--url", receiver.url, "--secret", "CHAT_HOOK", "--event", "RunCompleted"
    )
    worker = place.begin("worker", start_new_session=True)
    place.run("run", "w.yaml", "--run-id", "r1", "--pool", "default", "--quiet")
    os.killpg(worker.pid, signal.SIGKILL)
    worker.communicate()
    worker = place.begin("worker", start_new_session=True)
    try:
        log = place.run("events", "r1", "--json").stdout.splitlines()

        def is_complete() -> bool:
            return len({one["eventId"] for one in receiver.events()}) == len(log) and (
                sum(one["eventType"] == "RunCompleted" for one in receiver.events()) >= 2
            )

        until(is_complete)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    arrived = [one for one in receiver.events() if one["eventType"] != "RunCompleted"]
    firsts = list(dict.fromkeys(one["runSeq"] for one in arrived))
    assert firsts == sorted(firsts)
    assert {json.dumps(one, sort_keys=True) for one in arrived} <= {
        json.dumps(json.loads(line), sort_keys=True) for line in log
    }
    for headers, body in receiver.accepted:
        delivery, at, sign = (headers[f"podium-{name}"] for name in ("delivery", "time", "signature"))
        assert delivery == json.loads(body)["eventId"]
        assert is_signed(SECRET.encode(), delivery, at, body, sign)
    assert "hidden" not in place.run("webhook", "list").stdout
    assert json.loads(place.run("webhook", "list", "--json").stdout)[0]["state"] == "active"
    assert place.run("webhook", "rm", "chat").stdout == "webhook chat removed\n"
    assert place.run("outbox", "list").stdout.count("webhook:chat") == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://chat.example.com/x",
        "ftp://chat.example.com/x",
        "https://user:pw@chat.example.com/x",
        "https://10.0.0.8/x",
        "https://169.254.169.254/latest",
        "https://0x7f000001/x",
        "https://2130706433/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://metadata.google.internal/x",
        "https://chat.example.com./x",
        "file:///etc/passwd",
        "chat",
    ],
)
def test_an_address_inside_the_network_is_refused(place: Place, url: str) -> None:
    refused = place.run("webhook", "add", "x", "--url", url, "--secret", "S", code=77).stderr
    assert refused.startswith("RECEIVER_REFUSED: ")
    assert place.run("webhook", "list", "--json").stdout == "[]\n"


def test_this_machine_is_refused_unless_the_configuration_allows_it(place: Place, receiver: Receiver) -> None:
    (place.folder / "config.yaml").write_text("{}")
    words = ("webhook", "add", "x", "--url", receiver.url, "--secret", "S")
    assert "is this machine" in place.run(*words, code=77).stderr
    (place.folder / "config.yaml").write_text("webhooks: {allow_loopback: maybe}")
    assert "write true or false" in place.run(*words, code=78).stderr


def test_bad_input_is_refused(place: Place, receiver: Receiver) -> None:
    def add(*words: str, code: int = 64) -> str:
        return place.run("webhook", "add", *words, "--url", receiver.url, code=code).stderr

    assert "unknown type of event 'RunDone'; types: RunQueued" in add(
        "x", "--secret", "S", "--event", "RunDone"
    )
    assert "INVALID_ID" in add("a b", "--secret", "S")
    assert "name of the secret" in add("x", "--secret", "")
    add("x", "--secret", "S", code=0)
    assert "WEBHOOK_EXISTS" in add("x", "--secret", "S")
    assert "WEBHOOK_NOT_FOUND" in place.run("webhook", "rm", "y", code=64).stderr
