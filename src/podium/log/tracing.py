"""Where a run is in a trace: W3C trace contexts, and ids that are derived from the run alone.

A trace that came with a message is continued; otherwise the trace of a run is derived from its id. Ids of
spans are derived, too. So a process that continues a run after a crash uses the same spans, and a message
that is sent again has the same `traceparent`.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import msgspec

from podium.patterns import lazy_pattern

# Key in the metadata of a run, in `${run}` and in what a step publishes: the span that the run is part of.
TRACEPARENT: Final = "traceparent"
_SAMPLED: Final = 1
_HEADER: Final = lazy_pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_HEADER: Final = 512


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A span of a trace: 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str
    is_sampled: bool = True

    @property
    def header(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"

    def with_span(self, span_id: str) -> "TraceContext":
        return TraceContext(self.trace_id, span_id, self.is_sampled)


def parse_traceparent(text: str | None) -> TraceContext | None:
    """None for what is not a valid `traceparent`: it is ignored, as the W3C recommendation requires."""
    if not isinstance(text, str) or len(text) > _MAX_HEADER:
        return None
    found = _HEADER.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    if not int(found[2], 16) or not int(found[3], 16):
        return None
    return TraceContext(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))


@lru_cache(maxsize=1024)
def derived_trace(run_id: str) -> str:
    return sha256(run_id.encode()).hexdigest()[:32]


def span_id(*parts: str | int) -> str:
    return sha256("|".join(map(str, parts)).encode(errors="replace")).hexdigest()[:16]


def message_span(event_id: str) -> str:
    """The span of publishing a message, which consumers of the message continue."""
    return event_id.replace("-", "")[:16]


def receipt(run_id: str, incoming: str | None) -> TraceContext:
    """The span of receiving the message that starts a run; `incoming`: its `traceparent`."""
    caller = parse_traceparent(incoming)
    span = span_id(run_id, "received")
    return caller.with_span(span) if caller is not None else TraceContext(derived_trace(run_id), span)


def run_context(run_id: str, parent: TraceContext | None) -> TraceContext:
    span = span_id(run_id, "run")
    return parent.with_span(span) if parent is not None else TraceContext(derived_trace(run_id), span)


def step_span(run_id: str, path: str, attempt: int) -> str:
    return span_id(run_id, path, attempt)


def parent_in(metadata: bytes) -> TraceContext | None:
    """The span that a run is part of, from its metadata."""
    if TRACEPARENT.encode() not in metadata:
        return None
    return parent_of(msgspec.json.decode(metadata))


def parent_of(facts: Any) -> TraceContext | None:
    return parse_traceparent(facts.get(TRACEPARENT)) if isinstance(facts, dict) else None
