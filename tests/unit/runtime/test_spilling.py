"""Large values leave an event before it is recorded."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.artifacts.local import LocalArtifacts
from podium.errors import PayloadTooLarge
from podium.log.events import MAX_PAYLOAD_BYTES
from podium.runtime.spilling import hydrate, spill


def spilled(tmp_path: Path, payload: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The payload as it is recorded, and as it is read with everything put back."""

    async def scenario() -> tuple[bytes, dict[str, Any]]:
        artifacts = LocalArtifacts(tmp_path)
        recorded = await spill(payload, artifacts)
        return recorded, await hydrate(recorded, artifacts)

    return asyncio.run(scenario())


def test_what_fits_stays(tmp_path: Path) -> None:
    payload = {"output": "x" * 200_000, "exitCode": 0}
    recorded, read = spilled(tmp_path, payload)
    assert recorded == msgspec.json.encode(payload)
    assert read == payload


@pytest.mark.rule("ES15", "G48")
def test_the_largest_values_are_moved_until_it_fits(tmp_path: Path) -> None:
    payload = {"small": "s" * 70_000, "large": "l" * 150_000, "largest": "m" * 200_000, "exitCode": 3}
    recorded, read = spilled(tmp_path, payload)
    kept = msgspec.json.decode(recorded)
    assert len(recorded) <= MAX_PAYLOAD_BYTES
    assert (kept["small"], kept["large"], kept["exitCode"]) == (payload["small"], payload["large"], 3)
    assert set(kept["largest"]) == {"$artifact"}
    assert kept["largest"]["$artifact"]["sizeBytes"] == 200_002
    assert read == payload


@pytest.mark.rule("G48")
def test_what_decides_about_a_run_never_moves(tmp_path: Path) -> None:
    with pytest.raises(PayloadTooLarge):
        spilled(tmp_path, {"error": {"message": "e" * 300_000}})


def test_many_values_that_are_each_too_small_to_move_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PayloadTooLarge, match="even without its large values"):
        spilled(tmp_path, {f"k{n}": "v" * 60_000 for n in range(6)})
