"""What follows from answers, broken connections and frames; the other side is a peer that says what a test wrote."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from podium.client import AsyncClient, Client, Event, InvalidAnswer, Retries, ServerError, ServerUnreachable
from podium.client.frames import Frame, FrameReader
from podium.errors import InvalidConfiguration
from tests.client.peer import Peer, Reply, peer

FAST = Retries(attempts=4, first_wait=0.01, max_wait=0.05)
TOKEN = "podium_secret"
ME = {
    "actor": "ada",
    "method": "token",
    "tenantId": "acme",
    "roles": ["viewer"],
    "projects": [],
    "expiresAt": None,
    "operations": {"run.view": True},
}
UNAVAILABLE = Reply(
    503,
    b'{"code": "STORE_UNAVAILABLE", "detail": "no store", "status": 503, "requestId": "r1"}',
    {"Retry-After": "0", "Content-Type": "application/problem+json"},
)
Ask = Callable[[Peer, str, Any], Any]


def ok(body: object) -> Reply:
    return Reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def blocking(there: Peer, method: str, *arguments: Any) -> Any:
    with Client(there.url, TOKEN, retries=FAST, reconnects=FAST) as client:
        found = getattr(client, method)(*arguments)
        return list(found) if method == "follow" else found


def awaited(there: Peer, method: str, *arguments: Any) -> Any:
    async def ask() -> Any:
        async with AsyncClient(there.url, TOKEN, retries=FAST, reconnects=FAST) as client:
            found = getattr(client, method)(*arguments)
            return [event async for event in found] if method == "follow" else await found

    return asyncio.run(ask())


both = pytest.mark.parametrize("ask", [blocking, awaited])


@both
def test_unknown_fields_of_an_answer_are_ignored(ask: Any) -> None:
    with peer({"/me": [ok({**ME, "new": {"a": [1]}})]}) as there:
        assert ask(there, "me").actor == "ada"
    assert there.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


@both
def test_a_request_that_may_be_repeated_is_sent_again_after_503_with_retry_after(ask: Any) -> None:
    with peer({"/me": [UNAVAILABLE, UNAVAILABLE, ok(ME)]}) as there:
        assert ask(there, "me").actor == "ada"
    assert len(there.asked) == 3


@both
def test_a_request_is_sent_again_after_a_cut_connection_with_the_same_key(ask: Any) -> None:
    problem = Reply(409, b'{"code": "RUN_REQUEST_CONFLICT", "detail": "x"}')
    with (
        peer({"/runs": [Reply(201, b"{", is_cut=True), problem]}) as there,
        pytest.raises(ServerError) as caught,
    ):
        ask(there, "start", "p@1")
    assert caught.value.code == "RUN_REQUEST_CONFLICT"
    assert len({one.headers["idempotency-key"] for one in there.asked}) == 1
    assert len(there.asked) == 2


@both
@pytest.mark.parametrize(
    "reply",
    [UNAVAILABLE, UNAVAILABLE._replace(is_cut=True)],
    ids=["503", "cut"],
)
def test_a_request_that_may_not_be_repeated_is_sent_once(ask: Any, reply: Reply) -> None:
    with peer({"/schedules/s/trigger": [reply]}) as there, pytest.raises((ServerError, ServerUnreachable)):
        ask(there, "trigger_schedule", "s")
    assert len(there.asked) == 1


@both
def test_tries_are_bounded_and_the_last_answer_is_the_error(ask: Any) -> None:
    with peer({"/me": [UNAVAILABLE]}) as there, pytest.raises(ServerError) as caught:
        ask(there, "me")
    assert (caught.value.code, caught.value.status, caught.value.request_id) == (
        "STORE_UNAVAILABLE",
        503,
        "r1",
    )
    assert len(there.asked) == FAST.attempts


@pytest.mark.parametrize(
    "reply",
    [
        UNAVAILABLE._replace(headers={}),
        UNAVAILABLE._replace(status=429),
        UNAVAILABLE._replace(status=500),
        UNAVAILABLE._replace(headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ],
    ids=["no header", "429", "500", "date"],
)
def test_no_other_answer_is_asked_for_again(reply: Reply) -> None:
    with peer({"/me": [reply]}) as there, pytest.raises(ServerError):
        blocking(there, "me")
    assert len(there.asked) == 1


def test_the_wait_grows_up_to_its_limit() -> None:
    retries = Retries(first_wait=1.0, max_wait=5.0)
    assert [retries.backoff(attempt) for attempt in (1, 2, 3, 4, 1000)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@both
def test_a_server_that_is_not_there_is_named_without_the_token(ask: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        there = Peer({})
        there.url = f"http://127.0.0.1:{port}"
        with pytest.raises(ServerUnreachable) as caught:
            ask(there, "me")
    there._server.server_close()
    assert caught.value.code == "SERVER_UNREACHABLE"
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert TOKEN not in str(caught.value)


@both
@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>proxy</html>"),
        Reply(200, b'{"actor": 1}'),
        Reply(200, b"\xff\xfe"),
        Reply(502, b"<html>bad gateway</html>"),
        Reply(302, b"", {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=["html", "type", "bytes", "gateway", "redirect"],
)
def test_what_is_not_an_answer_of_podium_is_refused(ask: Any, reply: Reply) -> None:
    with peer({"/me": [reply]}) as there, pytest.raises(InvalidAnswer):
        ask(there, "me")
    assert len(there.asked) == 1


def test_an_error_has_everything_that_the_server_said() -> None:
    problem = {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "code": "REQUEST_INVALID",
        "detail": "not a number",
        "location": "$.priority",
        "valid": "an integer",
        "requestId": "r7",
        "unknown": 1,
    }
    body = json.dumps(problem).encode()
    with (
        peer({"/me": [Reply(400, body, {"Retry-After": "7"})]}) as there,
        pytest.raises(ServerError) as caught,
    ):
        blocking(there, "me")
    error = caught.value
    assert (error.code, error.status, error.location, error.valid) == (
        "REQUEST_INVALID",
        400,
        "$.priority",
        "an integer",
    )
    assert (error.request_id, error.retry_after) == ("r7", 7.0)
    assert str(error) == "not a number (at $.priority); valid: an integer"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8600",
        "ftp://host",
        "http://",
        "http://user:word@host",
        "http://host?a=b",
        "http://host#a",
        "http://host:99999",
        "http://[::1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Client(url, TOKEN)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "secret\n", "gehe\xefm"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Client("http://127.0.0.1:1", token)
    assert not token or token not in str(caught.value)


# --- streams ------------------------------------------------------------------------------------------


def frames(*pieces: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


def test_frames_are_read_however_they_are_cut() -> None:
    text = b'id: 1.2\n\n: \n\nid: 1.3\ndata: {"a": "\xe2\x80\xa8\x0b"}\n\nevent: end\ndata: {}\n\ndata: cut'
    wanted = [
        Frame(id="1.2"),
        Frame(id="1.3", data=b'{"a": "\xe2\x80\xa8\x0b"}'),
        Frame(event="end", data=b"{}"),
    ]
    assert frames(text) == wanted
    assert frames(*(bytes([one]) for one in text)) == wanted


def test_a_frame_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.client.frames.MAX_FRAME_BYTES", 1000)
    with pytest.raises(InvalidAnswer):
        frames(b"x" * 600, b"x" * 600)


def run(status: str, run_seq: int) -> Reply:
    texts = ("runId", "planId", "planVersion", "planSha256", "project", "environment")
    fields = dict.fromkeys((*texts, "runRequestId", "createdAt", "updatedAt"), "r")
    found = {**fields, "status": status, "runSeq": run_seq}
    return ok({"run": found, "summary": {}, "runSeq": run_seq})


def event(run_seq: int, event_type: str = "StepStarted") -> dict[str, Any]:
    texts = {"eventId": "e", "emittedAt": "t", "persistedAt": "t"}
    return {**texts, "runSeq": run_seq, "eventType": event_type, "logicalAttemptId": 1, "payload": {}}


def frame(cursor: int, *events: dict[str, Any]) -> bytes:
    return f"id: 9.{cursor}\ndata: {json.dumps({'events': {'r': events}})}\n\n".encode()


def stream(*texts: bytes, is_cut: bool = False) -> Reply:
    return Reply(200, b"".join(texts), {"Content-Type": "text/event-stream"}, is_cut)


def numbers(events: list[Event]) -> list[int]:
    return [one.run_seq for one in events]


@both
def test_a_stream_that_is_cut_continues_behind_its_last_whole_frame(ask: Any) -> None:
    replies = {
        "/runs/r": [run("RUNNING", 2), run("RUNNING", 2), run("COMPLETED", 4)],
        "/stream": [
            stream(b"id: 9.0\n\n", frame(2, event(1), event(2)), frame(3, event(3))[:-9], is_cut=True),
            # As if the server had lost count: what was given out is not given out again.
            stream(frame(4, event(2), event(3), event(4, "RunCompleted"))),
        ],
    }
    with peer(replies) as there:
        assert numbers(ask(there, "follow", "r")) == [1, 2, 3, 4]
    opened = [one for one in there.asked if "/stream" in one.path]
    assert [one.headers.get("last-event-id") for one in opened] == [None, "9.2"]
    assert {one.path for one in opened} == {"/api/v1/stream?run=r%400"}


@both
def test_a_client_that_was_too_slow_reads_again_behind_what_it_has(ask: Any) -> None:
    replies = {
        "/runs/r": [run("RUNNING", 2), run("RUNNING", 2), run("COMPLETED", 2)],
        "/stream": [
            stream(frame(1, event(1)), b'event: resync\ndata: {"code": "RESYNC"}\n\n'),
            stream(frame(2, event(2, "RunCompleted"))),
        ],
    }
    with peer(replies) as there:
        assert numbers(ask(there, "follow", "r")) == [1, 2]
    opened = [one for one in there.asked if "/stream" in one.path]
    assert [one.headers.get("last-event-id") for one in opened] == [None, None]
    assert opened[1].path == "/api/v1/stream?run=r%401"


@both
def test_a_run_that_was_reopened_is_followed_to_its_last_end(ask: Any) -> None:
    replies = {
        "/runs/r": [run("RUNNING", 3), run("RUNNING", 3), run("COMPLETED", 3)],
        "/stream": [
            stream(frame(1, event(1, "RunFailed"))),
            stream(frame(3, event(2, "RunResumed"), event(3, "RunCompleted"))),
        ],
    }
    replies["/runs/r"].insert(1, run("RUNNING", 1))
    with peer(replies) as there:
        assert numbers(ask(there, "follow", "r")) == [1, 2, 3]


@both
def test_a_run_that_has_ended_is_followed_from_any_event_to_its_last_one(ask: Any) -> None:
    frames = [frame(2, event(2)), frame(4, event(3, "RunCompleted"), event(4, "AlertRaised"))]
    with peer({"/runs/r": [run("COMPLETED", 4)], "/stream": [stream(*frames)]}) as there:
        assert numbers(ask(there, "follow", "r", 1)) == [2, 3, 4]


@both
def test_a_run_that_has_ended_and_was_read_is_not_followed(ask: Any) -> None:
    with peer({"/runs/r": [run("COMPLETED", 4)]}) as there:
        assert ask(there, "follow", "r", 4) == []


@both
@pytest.mark.parametrize(("code", "status"), [("TOKEN_INVALID", 401), ("RUN_NOT_FOUND", 404)])
def test_a_stream_that_the_server_ends_for_good_is_an_error(ask: Any, code: str, status: int) -> None:
    end = f'event: end\ndata: {{"code": "{code}"}}\n\n'.encode()
    replies = {"/runs/r": [run("RUNNING", 2)], "/stream": [stream(b"id: 9.0\n\n", end)]}
    with peer(replies) as there, pytest.raises(ServerError) as caught:
        ask(there, "follow", "r")
    assert (caught.value.code, caught.value.status) == (code, status)


@both
def test_reconnects_without_a_frame_are_bounded(ask: Any) -> None:
    end = b'event: end\ndata: {"code": "SHUTDOWN"}\n\n'
    replies = {"/runs/r": [run("RUNNING", 2)], "/stream": [stream(end)]}
    with peer(replies) as there, pytest.raises(ServerUnreachable, match="after=1"):
        ask(there, "follow", "r", 1)
    assert len([one for one in there.asked if "/stream" in one.path]) == FAST.attempts


@both
@pytest.mark.parametrize("status", [401, 429])
def test_a_stream_that_is_refused_is_an_error(ask: Any, status: int) -> None:
    refused = Reply(status, b'{"code": "UNAUTHENTICATED", "detail": "no"}')
    with (
        peer({"/runs/r": [run("RUNNING", 2)], "/stream": [refused]}) as there,
        pytest.raises(ServerError),
    ):
        ask(there, "follow", "r")


@both
def test_a_stream_is_opened_again_after_503(ask: Any) -> None:
    replies = {
        "/runs/r": [run("RUNNING", 1), run("RUNNING", 1), run("COMPLETED", 1)],
        "/stream": [UNAVAILABLE, stream(frame(1, event(1, "RunCompleted")))],
    }
    with peer(replies) as there:
        assert numbers(ask(there, "follow", "r")) == [1]


def test_without_its_optional_package_the_client_says_what_to_install() -> None:
    program = "import sys; sys.modules['httpx2'] = None; import podium.client"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: podium.client needs an optional package: pip install 'podium[client]'"
    )
