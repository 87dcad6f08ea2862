"""A sample of `python -m tests.torture.copies`: one moment of each workflow."""

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from podium.log.events import EventRecord, encode_payload
from tests.torture.copies import WAYS, WORKFLOWS, Original, check, story


@pytest.mark.rule("G48")
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_copy_of_a_run_continues_elsewhere_to_the_same_end(tmp_path: Path, name: str) -> None:
    moment = 2 + sorted(WORKFLOWS).index(name) % 3
    assert asyncio.run(check(tmp_path, name, slice(moment, moment + 1))) == len(WAYS)


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> list[EventRecord]:
    return asyncio.run(Original(tmp_path_factory.mktemp("original"), "for_each").run())


def test_two_events_in_another_order_are_another_history(looped: list[EventRecord]) -> None:
    for place, (one, following) in enumerate(pairwise(looped)):
        swapped = [*looped[:place], following, one, *looped[place + 2 :]]
        assert story(swapped) != story(looped), (one.event_type, following.event_type)


def test_an_event_that_is_lost_or_repeated_is_another_history(looped: list[EventRecord]) -> None:
    for place, one in enumerate(looped):
        assert story([*looped[:place], *looped[place + 1 :]]) != story(looped), one.event_type
        assert story([*looped[:place], one, *looped[place:]]) != story(looped), one.event_type


@pytest.mark.rule("G13")
def test_engine_attempts_and_interrupted_attempts_are_not_part_of_a_history(
    looped: list[EventRecord],
) -> None:
    again = [msgspec.structs.replace(one, engine_attempt_id=2) for one in looped]
    assert story(again) == story(looped)
    started = next(one for one in looped if one.event_type == "StepStarted")
    stopped = encode_payload({"error": {"code": "INTERRUPTED"}})
    interrupted = [
        msgspec.structs.replace(started, logical_attempt_id=7),
        msgspec.structs.replace(started, logical_attempt_id=7, event_type="StepFailed", payload=stopped),
    ]
    assert story([*looped[:4], *interrupted, *looped[4:]]) == story(looped)
