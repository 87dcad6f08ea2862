"""The two answer formats of OpenAI's servers, complete or in parts, parsed into the same few fields."""

from typing import Any

from podium.ports.provider import AgentError, Usage
from podium.providers import failure_codes
from podium.providers.reading import Object, count_at, list_at, object_at, text_at


class _Answer:
    def __init__(self) -> None:
        self.was_started = False
        self.session = ""
        self.model = ""
        self.texts: list[str] = []
        self.usage = Usage()
        self._refused = False
        self._failed: Object | None = None
        # Why the model stopped; empty while it has not.
        self._ended = ""

    def error(self, *, was_cut: bool) -> AgentError | None:
        if self._failed is not None:
            kind = text_at(self._failed, "code") or text_at(self._failed, "type")
            return failure_codes.of_words(f"{kind}: {text_at(self._failed, 'message')}")
        if not self.was_started and not was_cut:
            return failure_codes.failure("AGENT_ERROR", "the answer of the model server cannot be understood")
        if was_cut or not self._ended:
            return failure_codes.failure("AGENT_TRUNCATED", "the connection ended before the answer did")
        if self._ended in ("length", "max_output_tokens"):
            return failure_codes.failure("AGENT_TRUNCATED", "the answer needs more than `max_tokens`")
        if self._refused or self._ended == "content_filter":
            return failure_codes.failure("AGENT_REFUSED", "the model declined to answer")
        return None

    def _fail(self, error: Object) -> None:
        self.was_started = True
        self._failed = error


class Response(_Answer):
    def hear(self, found: Object) -> None:
        kind = text_at(found, "type")
        if found.get("object") == "response":
            self._whole(found)
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole(object_at(found, "response"))
        elif kind == "response.created":
            self.was_started = True
            self.session = text_at(found, "response", "id")
        elif kind == "response.output_text.delta":
            self.was_started = True
            self.texts.append(text_at(found, "delta"))
        elif kind == "error" or (not kind and "error" in found):
            self._fail(object_at(found, "error") or found)

    def _whole(self, response: Object) -> None:
        self.was_started = True
        self.session = text_at(response, "id") or self.session
        self.model = text_at(response, "model")
        usage = object_at(response, "usage")
        cached = count_at(usage, "input_tokens_details", "cached_tokens")
        self.usage = Usage(count_at(usage, "input_tokens"), count_at(usage, "output_tokens"), cached)
        self._ended = text_at(response, "incomplete_details", "reason") or text_at(response, "status")
        if self._ended == "failed":
            self._fail(object_at(response, "error"))
        # The complete message repeats its parts, and may contain more.
        texts = [part for item in list_at(response, "output") for part in self._parts(item)]
        self.texts = texts or self.texts

    def _parts(self, item: Any) -> list[str]:
        content = list_at(item, "content") if isinstance(item, dict) else []
        parts = [part for part in content if isinstance(part, dict)]
        self._refused |= any(part.get("type") == "refusal" for part in parts)
        return [text_at(part, "text") for part in parts if part.get("type") == "output_text"]


class Completion(_Answer):
    def hear(self, found: Object) -> None:
        if found.get("error"):
            self._fail(object_at(found, "error"))
            return
        if "choices" not in found:
            return
        self.was_started = True
        self.model = text_at(found, "model") or self.model
        usage = object_at(found, "usage")
        if usage:
            cached = count_at(usage, "prompt_tokens_details", "cached_tokens")
            self.usage = Usage(count_at(usage, "prompt_tokens"), count_at(usage, "completion_tokens"), cached)
        for choice in list_at(found, "choices")[:1]:
            if isinstance(choice, dict):
                message = object_at(choice, "delta") or object_at(choice, "message")
                self.texts.append(text_at(message, "content"))
                self._refused |= bool(text_at(message, "refusal"))
                self._ended = text_at(choice, "finish_reason") or self._ended
