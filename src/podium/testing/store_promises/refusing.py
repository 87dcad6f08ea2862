"""What no store may keep."""

from typing import Any

import pytest

from podium.errors import InvalidEvent, InvalidId, PayloadTooLarge
from podium.log.events import EventWrite, encode_payload
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, World, started, types_in


class RefusingPromises:
    """What violates a grammar is refused before anything is written; everything else is returned unchanged."""

    @pytest.mark.parametrize(
        ("broken", "error"),
        [
            ({"event_id": "not-a-uuid"}, InvalidId),
            ({"event_type": "run started"}, InvalidEvent),
            ({"idempotency_key": "short"}, InvalidEvent),
            ({"emitted_at": "yesterday"}, InvalidEvent),
            ({"emitted_at": "2026-13-01T00:00:00.000000Z"}, InvalidEvent),
            ({"step_id": None}, InvalidEvent),
            ({"step_id": "a|b"}, InvalidId),
            ({"step_id": "a\0b"}, InvalidId),
            ({"step_id": "a\ud800b"}, InvalidId),
            ({"step_id": "x" * 1025}, InvalidId),
            ({"logical_attempt_id": 0}, InvalidEvent),
            ({"payload": b"[]"}, InvalidEvent),
            ({"payload": b"{"}, InvalidEvent),
            ({"payload": b'{"a":"\xff"}'}, InvalidEvent),
            ({"payload": b'{"a":"' + b"x" * 262144 + b'"}'}, PayloadTooLarge),
        ],
        ids=lambda value: str(value)[:40] if isinstance(value, dict) else value.__name__,
    )
    def test_an_event_that_cannot_be_kept_is_refused_with_its_whole_batch(
        self, world: World, broken: dict[str, Any], error: type[Exception]
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            good, bad = event("r1", "StepStarted", "good"), event("r1", "StepStarted", "bad")
            fields = {name: getattr(bad, name) for name in bad.__struct_fields__}
            with pytest.raises(error):
                await world.store.append(R1, [good, EventWrite(**{**fields, **broken})], fence=lease.fence)
            assert await types_in(world.store) == ["RunQueued", "RunStarted"]

        world.run(scenario())

    @pytest.mark.parametrize("bad", ["", "a b", "-a", "a|b", "a/b", "é", "x" * 129, "a\0", "a\n"])
    def test_an_id_that_is_none_is_refused(self, world: World, bad: str) -> None:
        async def scenario() -> None:
            for field in ("tenant_id", "project_id", "environment_id", "plan_id", "plan_version"):
                with pytest.raises(InvalidId):
                    await world.store.create_run(new_run("r1", run={field: bad}), [])
            with pytest.raises(InvalidId):
                await world.store.create_run(new_run(bad), [])
            assert (await world.store.stats()).runs == 0

        world.run(scenario())

    @pytest.mark.parametrize(
        "text",
        [
            "\0" * 10,
            "'\";--\\",
            "\x01\x1b[31m\x7f",
            "\u2028\u202e",
            "𝔘𝔫𝔦",
            "a" * 100_000,
            "{}[]",
            "%s ? $1 :x",
        ],
        ids=ascii,
    )
    def test_any_text_in_a_payload_comes_back_byte_for_byte(self, world: World, text: str) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event("r1", "StepCompleted", "a", output=text)
            await world.store.append(R1, [write], fence=lease.fence)
            assert (await world.other.read(R1, after=2))[0].payload == write.payload

        world.run(scenario())

    def test_half_a_character_cannot_be_written(self) -> None:
        with pytest.raises(InvalidEvent):
            encode_payload({"output": "\ud800"})
