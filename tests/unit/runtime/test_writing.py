"""Events get ids that nobody else has."""

import os
from uuid import UUID

from podium.runtime.writing import random_uuid


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
