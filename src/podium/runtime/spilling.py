"""Large values leave an event before it is recorded: they become artifacts, and the event refers to them (G48).

The artifact is durable before the event that names it. What decides about a run never moves: its error, its exit code,
its usage stay in the event, whatever their size.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from podium.errors import PayloadTooLarge
from podium.model.artifacts import ArtifactRef
from podium.model.events import MOST_PAYLOAD_BYTES, EventRecord, encode_payload
from podium.ports.artifacts import ArtifactStore

SPILL_FROM_BYTES: Final = 64 * 1024
NEVER_SPILLED: Final = frozenset({"error", "exitCode", "reasonCode", "usage"})
_MARK: Final = "$artifact"


async def spill(payload: Mapping[str, Any], artifacts: ArtifactStore) -> bytes:
    """The bytes of a payload that fits into an event: its largest fields, as many as need be, moved to artifacts."""
    encoded = encode_payload(payload)
    if len(encoded) <= MOST_PAYLOAD_BYTES:
        return encoded
    fields = dict(payload)
    sizes = {name: len(encode_payload(value)) for name, value in fields.items() if name not in NEVER_SPILLED}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] <= SPILL_FROM_BYTES:
            break
        ref = await artifacts.put(encode_payload(fields[name]), kind="payload")
        fields[name] = {_MARK: msgspec.to_builtins(ref)}
        encoded = encode_payload(fields)
        if len(encoded) <= MOST_PAYLOAD_BYTES:
            return encoded
    raise PayloadTooLarge(
        f"a payload has {len(encoded)} bytes even without its large values; at most {MOST_PAYLOAD_BYTES} are kept"
    )


def is_spilled(payload: bytes) -> bool:
    """Whether something may have been moved away; quick, since almost nothing ever is."""
    return _MARK.encode() in payload


async def whole(record: EventRecord, artifacts: Callable[[], ArtifactStore] | None) -> EventRecord:
    """The record as it was before large values left it: what decides about a run has to see them."""
    if artifacts is None or not is_spilled(record.payload):
        return record
    return msgspec.structs.replace(record, payload=encode_payload(await hydrate(record.payload, artifacts())))


async def hydrate(payload: bytes, artifacts: ArtifactStore) -> dict[str, Any]:
    """A payload with what was moved away put back; for those who ask for it."""
    fields: dict[str, Any] = msgspec.json.decode(payload)
    for name, value in fields.items():
        if isinstance(value, dict) and set(value) == {_MARK}:
            ref = msgspec.convert(value[_MARK], ArtifactRef)
            fields[name] = msgspec.json.decode(await artifacts.read(ref))
    return fields
