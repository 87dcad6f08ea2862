"""Model servers that say what a test wrote down: one server, the four dialects that real clients speak.

    with ModelServer([Calls("Bash", {"command": "true"}), Says("done")]) as server:
        ...                                  # a client is given server.url
    assert server.asked[0].body["model"] == "sonnet"

Each request for an answer takes the next turn; the last turn repeats. The dialect follows from the path that was
asked. A socket may be given: one that was opened inside a network namespace serves whoever lives there.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Event: TypeAlias = tuple[str, Json]


@dataclass(frozen=True)
class Says:
    """An answer in words. `cut`: the connection ends in the middle of it. `full`: the model ran out of tokens.

    `stalls`: in the middle of it nothing more comes, until the server is closed.
    """

    text: str
    cut: bool = False
    full: bool = False
    stalls: bool = False


@dataclass(frozen=True)
class Calls:
    """The model wants a tool."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Refuses:
    status: int
    kind: str = "api_error"
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict)
    # Sent instead of the JSON that the dialect has for errors.
    raw: bytes | None = None


@dataclass(frozen=True)
class Waits:
    """No answer for so long, or until the server is closed; then this turn."""

    seconds: float
    turn: "Says | Calls | Refuses"


@dataclass(frozen=True)
class Sends:
    """These bytes, as they are, under status 200."""

    raw: bytes
    kind: str = "application/json"


@dataclass(frozen=True)
class Decides:
    """What it says depends on what it was asked."""

    by: "Callable[[Asked], Says | Calls]"


Turn: TypeAlias = Says | Calls | Refuses | Waits | Sends | Decides
Dialect: TypeAlias = Literal["messages", "responses", "chat", "gemini"]


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: Json


class ModelServer:
    def __init__(self, turns: Sequence[Turn], listening: socket.socket | None = None) -> None:
        self.turns = list(turns)
        self.asked: list[Asked] = []
        # Set as soon as anybody asks for an answer.
        self.was_asked = threading.Event()
        # Set when an answer has come to a stop in its middle.
        self.stalled = threading.Event()
        self._taken = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"model": self})
        self._http = _Http(handler, listening)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def next_turn(self, asked: Asked) -> tuple[int, Turn]:
        with self._lock:
            self.asked.append(asked)
            number = self._taken
            self._taken += 1
        self.was_asked.set()
        turn = self.turns[min(number, len(self.turns) - 1)]
        if isinstance(turn, Waits):
            self._closing.wait(turn.seconds)
            turn = turn.turn
        return number, turn.by(asked) if isinstance(turn, Decides) else turn

    def wait_until_closing(self) -> None:
        self._closing.wait()

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler], listening: socket.socket | None) -> None:
        super().__init__(("127.0.0.1", 0), handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
            self.server_address = listening.getsockname()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed has left in the middle of a sentence; that is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [], "models": []})
        else:
            self._json(404, {"error": {"type": "not_found_error", "message": "no", "code": 404}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        dialect = _dialect_of(self.path.partition("?")[0])
        if dialect is None:
            self._json(404, {"error": {"type": "not_found_error", "message": "no", "code": 404}})
            return
        body = json.loads(raw)
        number, turn = self.model.next_turn(Asked(self.path, dict(self.headers), body))
        match turn:
            case Refuses():
                self._refuse(dialect, turn)
            case Sends():
                self._send(200, turn.raw, {"content-type": turn.kind})
            case Says() | Calls():
                streams = body.get("stream") is True or "streamGenerateContent" in self.path
                (self._stream if streams else self._whole)(dialect, number, turn, str(body.get("model", "m")))
            case Waits() | Decides():
                raise AssertionError("a wait inside a wait")

    def _refuse(self, dialect: Dialect, turn: Refuses) -> None:
        error: Json = {"type": turn.kind, "message": turn.message}
        if dialect == "gemini":
            error = {"code": turn.status, "message": turn.message, "status": turn.kind}
        told = json.dumps({"type": "error", "error": error}).encode() if turn.raw is None else turn.raw
        self._send(turn.status, told, {"content-type": "application/json", **turn.headers})

    def _whole(self, dialect: Dialect, number: int, turn: Says | Calls, model: str) -> None:
        told = json.dumps(_WHOLE[dialect](number, turn, model)).encode()
        if isinstance(turn, Says) and turn.cut:
            # Half of what was promised.
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told[: len(told) // 2])
            self.close_connection = True
            return
        self._send(200, told, {"content-type": "application/json"})

    def _stream(self, dialect: Dialect, number: int, turn: Says | Calls, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        stalls = isinstance(turn, Says) and turn.stalls
        shown = replace(turn, cut=True) if isinstance(turn, Says) and stalls else turn
        for name, data in _STREAMED[dialect](number, shown, model):
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
        if stalls:
            self.model.stalled.set()
            self.model.wait_until_closing()
        if dialect == "chat" and not (isinstance(turn, Says) and turn.cut):
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _json(self, status: int, data: Json) -> None:
        self._send(status, json.dumps(data).encode(), {"content-type": "application/json"})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _dialect_of(path: str) -> Dialect | None:
    if path.endswith("/messages"):
        return "messages"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat"
    return "gemini" if path.endswith("enerateContent") else None


# --- Anthropic's Messages -------------------------------------------------------------------------


def _message(number: int, turn: Says | Calls, model: str) -> Json:
    if isinstance(turn, Calls):
        block: Json = {"type": "tool_use", "id": f"toolu_{number:04}", "name": turn.tool}
        block["input"] = dict(turn.arguments)
        stop = "tool_use"
    else:
        block, stop = {"type": "text", "text": turn.text}, "max_tokens" if turn.full else "end_turn"
    usage = {"input_tokens": 12, "output_tokens": 5, "cache_read_input_tokens": 3}
    usage["cache_creation_input_tokens"] = 0
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _message_events(number: int, turn: Says | Calls, model: str) -> Iterator[Event]:
    message = _message(number, turn, model)
    start = {**message, "content": [], "stop_reason": None}
    yield "message_start", {"type": "message_start", "message": start}
    block = message["content"][0]
    if isinstance(turn, Calls):
        first, delta = (
            {**block, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
        )
    else:
        first, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": first}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    if isinstance(turn, Says) and turn.cut:
        return
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}}
    yield "message_stop", {"type": "message_stop"}


# --- OpenAI's Responses ---------------------------------------------------------------------------


def _response(number: int, turn: Says | Calls, model: str) -> Json:
    item: Json
    if isinstance(turn, Calls):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": turn.tool}
        item |= {"arguments": json.dumps(dict(turn.arguments)), "status": "completed"}
    else:
        words = {"type": "output_text", "text": turn.text, "annotations": []}
        item = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [words]}
        item["status"] = "completed"
    full = isinstance(turn, Says) and turn.full
    return {
        "id": f"resp_{number:04}",
        "object": "response",
        "model": model,
        "status": "incomplete" if full else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if full else None,
        "output": [item],
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 17,
        },
    }


def _response_events(number: int, turn: Says | Calls, model: str) -> Iterator[Event]:
    response = _response(number, turn, model)
    begun = {"id": response["id"], "object": "response", "status": "in_progress", "output": []}
    yield "response.created", {"type": "response.created", "response": begun}
    item = response["output"][0]
    if isinstance(turn, Says):
        bare = {**item, "content": [], "status": "in_progress"}
        yield (
            "response.output_item.added",
            {"type": "response.output_item.added", "output_index": 0, "item": bare},
        )
        delta = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0}
        delta |= {"content_index": 0, "delta": turn.text}
        yield "response.output_text.delta", delta
        if turn.cut:
            return
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
    yield end, {"type": end, "response": response}


# --- OpenAI's chat completions --------------------------------------------------------------------


def _completion(number: int, turn: Says | Calls, model: str) -> Json:
    message: Json = {"role": "assistant", "content": None}
    if isinstance(turn, Calls):
        function = {"name": turn.tool, "arguments": json.dumps(dict(turn.arguments))}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        why = "tool_calls"
    else:
        message["content"] = turn.text
        why = "length" if turn.full else "stop"
    return {
        "id": f"chatcmpl-{number:04}",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": why}],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 5,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
    }


def _completion_events(number: int, turn: Says | Calls, model: str) -> Iterator[Event]:
    whole = _completion(number, turn, model)
    choice = whole["choices"][0]
    base = {"id": whole["id"], "object": "chat.completion.chunk", "model": model}
    yield (
        "",
        {
            **base,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        },
    )
    delta = {key: value for key, value in choice["message"].items() if key != "role" and value is not None}
    yield "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    if isinstance(turn, Says) and turn.cut:
        return
    yield (
        "",
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
    )
    yield "", {**base, "choices": [], "usage": whole["usage"]}


# --- Gemini ---------------------------------------------------------------------------------------


def _candidate(number: int, turn: Says | Calls, model: str) -> Json:
    part: Json
    if isinstance(turn, Calls):
        part = {"functionCall": {"name": turn.tool, "args": dict(turn.arguments)}}
    else:
        part = {"text": turn.text}
    candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if not (isinstance(turn, Says) and turn.cut):
        candidate["finishReason"] = "MAX_TOKENS" if isinstance(turn, Says) and turn.full else "STOP"
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}
    usage["cachedContentTokenCount"] = 3
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


def _candidate_events(number: int, turn: Says | Calls, model: str) -> Iterator[Event]:
    yield "", _candidate(number, turn, model)


_WHOLE: Mapping[Dialect, Callable[[int, Says | Calls, str], Json]] = {
    "messages": _message,
    "responses": _response,
    "chat": _completion,
    "gemini": _candidate,
}
_STREAMED: Mapping[Dialect, Callable[[int, Says | Calls, str], Iterator[Event]]] = {
    "messages": _message_events,
    "responses": _response_events,
    "chat": _completion_events,
    "gemini": _candidate_events,
}
