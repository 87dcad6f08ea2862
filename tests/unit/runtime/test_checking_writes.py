"""The quick check of events says what a plain one says: it is the only thing between callers and every store."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from podium.errors import InvalidEvent, InvalidId, PodiumError
from podium.log.events import EventType, EventWrite, check_write
from podium.testing.events import event

GOOD = event("r1", "StepCompleted", "build/1", output="x")


def plain(write: EventWrite) -> None:
    """Field by field, by the letter of the contract."""
    if not re.fullmatch(
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", write.event_id
    ):
        raise InvalidId("id")
    if not re.fullmatch("[A-Z][A-Za-z0-9]{0,63}", write.event_type):
        raise InvalidEvent("type")
    if write.event_type.startswith("Step") != (write.step_id is not None):
        raise InvalidEvent("needs a step or may not have one")
    step = write.step_id
    if step is not None and (not step or "|" in step or not step.isprintable() or len(step.encode()) > 1024):
        raise InvalidId("step")
    if min(write.logical_attempt_id, write.engine_attempt_id) < 1:
        raise InvalidEvent("attempts")
    if max(write.logical_attempt_id, write.engine_attempt_id) >= 2**31:
        raise InvalidEvent("attempts")
    if not re.fullmatch("[0-9a-f]{64}", write.idempotency_key):
        raise InvalidEvent("key")
    _plain_moment(write.emitted_at)
    try:
        msgspec.json.decode(write.payload.decode(), type=dict[str, Any])
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise InvalidEvent("payload") from error


def _plain_moment(text: str) -> None:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", text):
        raise InvalidEvent("emittedAt")
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidEvent("emittedAt") from error


def verdict(check: Any, write: EventWrite) -> str | None:
    try:
        check(write)
    except PodiumError as error:
        return error.code
    return None


ODD = st.sampled_from(list(" \n\0|-.:0123456789abfgzAFZTé٣\u2028\U0001f600"))


@st.composite
def nearly(draw: st.DrawFn, good: str) -> str:
    """A text with a character more, less or another, or none of it."""
    at = draw(st.integers(0, len(good)))
    return draw(
        st.one_of(
            st.just(good),
            st.just(good[:at]),
            ODD.map(lambda odd: good[:at] + odd + good[at:]),
            ODD.map(lambda odd: good[:at] + odd + good[at + 1 :]),
            st.just(good[:at] + good[at + 1 :]),
        )
    )


MOMENTS = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z".format,
    st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.integers(0, 25),
    st.integers(0, 61),
    st.integers(0, 61),
    st.integers(0, 999_999),
)
PAYLOADS = st.one_of(
    st.sampled_from([b"{}", b"{ }", b"", b"[]", b"1", b'{"a":1}', b'{"a":1}{}', b"\xef\xbb\xbf{}"]),
    st.sampled_from([b'{"a":"\xff"}', b'{"\xc3":1}', b'{"a":"\xed\xa0\x80"}']),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2).map(msgspec.json.encode),
)
WRITES = st.builds(
    EventWrite,
    event_id=nearly(GOOD.event_id),
    event_type=st.one_of(st.sampled_from(EventType), nearly("StepCompleted"), nearly("Custom" * 11)),
    idempotency_key=nearly(GOOD.idempotency_key),
    emitted_at=st.one_of(MOMENTS, nearly(GOOD.emitted_at)),
    step_id=st.one_of(st.none(), nearly("build/ü"), st.integers(200, 1100).map("é".__mul__)),
    logical_attempt_id=st.sampled_from([1, 1, 7, 0, -1, 2**31 - 1, 2**31]),
    engine_attempt_id=st.sampled_from([1, 1, 7, 0, 2**31]),
    payload=PAYLOADS,
)


@settings(max_examples=400, deadline=None)
@given(WRITES)
def test_events_with_any_faults_get_the_verdict_of_the_plain_check(write: EventWrite) -> None:
    assert verdict(check_write, write) == verdict(plain, write)


@settings(max_examples=1500, deadline=None)
@given(WRITES, st.sampled_from(EventWrite.__struct_fields__))
@example(replace(GOOD, emitted_at="2028-02-29T23:59:59.999999Z"), "emitted_at")
@example(replace(GOOD, emitted_at="2027-02-29T00:00:00.000000Z"), "emitted_at")
@example(replace(GOOD, emitted_at="2026-12-31T00:00:00.000000Z"), "emitted_at")
@example(replace(GOOD, emitted_at="0000-01-01T00:00:00.000000Z"), "emitted_at")
@example(replace(GOOD, emitted_at="0001-01-02T00:00:00.000000Z"), "emitted_at")
@example(replace(GOOD, emitted_at="2026-01-01T00:00:00.000000Z\n"), "emitted_at")
def test_one_field_at_a_time_gets_the_verdict_of_the_plain_check(faulty: EventWrite, field: str) -> None:
    write = replace(GOOD, **{field: getattr(faulty, field)})
    assert verdict(check_write, write) == verdict(plain, write)


def test_a_space_in_one_field_does_not_make_up_for_another() -> None:
    """The quick check looks at id, key and moment in one text, with spaces in between."""
    key, moment = GOOD.idempotency_key, GOOD.emitted_at
    shifted = replace(GOOD, event_id=f"{GOOD.event_id} {key}", idempotency_key=moment, emitted_at="")
    moved = replace(GOOD, event_id=GOOD.event_id[:-1], idempotency_key=GOOD.event_id[-1] + key)
    assert [verdict(check_write, write) for write in (GOOD, shifted, moved)] == [
        None,
        "INVALID_ID",
        "INVALID_ID",
    ]
