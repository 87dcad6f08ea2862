"""Trace contexts: what is accepted, what is derived, and that nothing but the run decides about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.log.tracing import (
    TraceContext,
    parent_in,
    parse_traceparent,
    receipt,
    run_context,
    span_id,
    step_span,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.rule("RT01")
@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_a_valid_header_is_read(header: str, is_sampled: bool) -> None:
    assert parse_traceparent(header) == TraceContext(TRACE, SPAN, is_sampled)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 600}",
    ],
)
def test_a_malformed_header_is_none(header: str | None) -> None:
    assert parse_traceparent(header) is None


@given(st.text())
def test_any_text_is_read_or_ignored(text: str) -> None:
    found = parse_traceparent(text)
    assert found is None or parse_traceparent(found.header) == found


@pytest.mark.rule("RT01")
def test_a_run_continues_the_trace_of_its_message_and_keeps_whether_it_is_sampled() -> None:
    received = receipt("r-1", f"00-{TRACE}-{SPAN}-00")
    assert (received.trace_id, received.is_sampled) == (TRACE, False)
    run = run_context("r-1", received)
    assert (run.trace_id, run.is_sampled) == (TRACE, False)
    assert len({SPAN, received.span_id, run.span_id, step_span("r-1", "a", 1)}) == 4


def test_a_run_without_one_has_a_trace_that_follows_from_its_id() -> None:
    assert run_context("r-1", None) == run_context("r-1", receipt("r-1", "garbage"))
    assert run_context("r-1", None).trace_id != run_context("r-2", None).trace_id
    assert parse_traceparent(run_context("r-1", None).header) is not None


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (b"{}", None),
        (b'{"traceparent": 7}', None),
        (b'{"traceparent": "x"}', None),
        (f'{{"traceparent": "00-{TRACE}-{SPAN}-01"}}'.encode(), TraceContext(TRACE, SPAN)),
    ],
)
def test_what_is_kept_with_a_run_is_read_with_care(metadata: bytes, found: TraceContext | None) -> None:
    assert parent_in(metadata) == found


def test_attempts_of_a_step_have_spans_of_their_own() -> None:
    assert step_span("r", "a", 1) != step_span("r", "a", 2) != span_id("r", "a", 1, 2)
