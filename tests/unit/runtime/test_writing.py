"""Events get ids that nobody else has, and keys that a repetition has too."""

import os
from uuid import UUID

import pytest

from podium.log.keys import key_v1
from podium.runtime.writing import new_event, random_uuid
from podium.testing.events import identity

NOW = "2026-01-01T12:00:00.000000Z"


@pytest.mark.rule("ES06")
def test_the_key_of_an_event_names_the_logical_attempt_and_not_the_engines() -> None:
    run = identity("r1")
    first = new_event(run, "StepCompleted", NOW, step_id="a", attempt=2, engine_attempt=1)
    again = new_event(run, "StepCompleted", NOW, step_id="a", attempt=2, engine_attempt=5)
    assert first.idempotency_key == again.idempotency_key
    assert first.idempotency_key == key_v1("r1", "a", 2, "StepCompleted", run.plan_version)
    assert again.engine_attempt_id == 5


def test_ids_are_random_uuids_and_none_comes_twice() -> None:
    drawn = [random_uuid() for _ in range(10_000)]
    assert len(set(drawn)) == len(drawn)
    assert all(str(UUID(one)) == one and UUID(one).version == 4 for one in drawn)
    variants = {one[19] for one in drawn}
    assert variants == set("89ab")


def test_a_forked_process_draws_other_ids_than_its_parent() -> None:
    random_uuid()  # from here on some are at hand
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, " ".join(random_uuid() for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        theirs = set(pipe.read().split())
    ours = {random_uuid() for _ in range(100)}
    assert len(theirs) == 100
    assert not ours & theirs
