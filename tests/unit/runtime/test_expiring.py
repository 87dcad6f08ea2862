"""Files of a step get the moment when they expire from the event that records them."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.log.events import EventType, encode_payload
from podium.runtime.expiring import encoded_with_expiry, with_expiry
from podium.runtime.run_writer import RunWriter
from podium.testing.events import NOON
from tests.unit.runtime.working import started_run
from tests.unit.tasks.engine import sh

AGES = {"file": timedelta(days=90), "diff": timedelta(hours=12)}
FILE = {"path": "a.txt", "sha256": "a" * 64}


def files(**fields: Any) -> dict[str, Any]:
    return {"exitCode": 0, "artifacts": [{**FILE, **fields}]}


@pytest.mark.rule("OP18")
def test_each_kind_has_its_age() -> None:
    assert with_expiry(files(), NOON, AGES) == files(expiresAt="2026-04-01T12:00:00.000000Z")
    changes = files(kind="diff")
    assert with_expiry(changes, NOON, AGES) == {**files(kind="diff", expiresAt="2026-01-02T00:00:00.000000Z")}
    assert with_expiry(files(kind="log-bundle"), NOON, AGES) == files(kind="log-bundle")
    assert with_expiry({"exitCode": 0}, NOON, AGES) == {"exitCode": 0}


@pytest.mark.rule("OP18")
def test_a_reused_file_is_counted_anew() -> None:
    reused = files(expiresAt="2020-01-01T00:00:00.000000Z")
    assert with_expiry(reused, NOON, AGES) == files(expiresAt="2026-04-01T12:00:00.000000Z")
    assert with_expiry(reused, NOON, {}) == files()


@pytest.mark.rule("OP18")
def test_an_encoded_payload_gets_it_too_unless_it_would_be_too_large_then() -> None:
    encoded = encoded_with_expiry(encode_payload(files()), NOON, AGES)
    assert msgspec.json.decode(encoded) == files(expiresAt="2026-04-01T12:00:00.000000Z")
    full = encode_payload({**files(), "output": ""})
    full = encode_payload({**files(), "output": "x" * (256 * 1024 - len(full))})
    assert encoded_with_expiry(full, NOON, AGES) == full


@pytest.mark.rule("OP18")
def test_what_does_not_look_like_a_file_is_recorded_as_it_is() -> None:
    odd = {"artifacts": ["a.txt", {"path": "b.txt", "kind": ["file"]}]}
    assert with_expiry(odd, NOON, AGES) == odd


@pytest.mark.rule("OP18")
def test_a_worker_of_another_engine_records_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("true")) as run:
            parts = msgspec.structs.replace(run.parts, artifact_ages=AGES)
            write, payload = await RunWriter(parts).end(
                run.run_id, "A", 1, EventType.STEP_COMPLETED, files(), 1
            )
            expected = with_expiry(files(), write.emitted_at, AGES)
            assert msgspec.json.decode(write.payload) == payload == expected
            assert "expiresAt" in payload["artifacts"][0]

    asyncio.run(test())
