"""When the files of a step expire: an age by kind from the configuration, counted from the event that records
them.

The moment is recorded with the file, so that a later change of the configuration does not affect it. Nothing
is removed because of it unless `podium prune --expired` is called.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from podium.log.artifacts import ArtifactKind
from podium.log.events import MAX_PAYLOAD_BYTES, encode_payload
from podium.log.times import Timestamp, moment, timestamp

# By kind; files of other kinds never expire.
ArtifactAges: TypeAlias = Mapping[str, timedelta]

_FILES = "artifacts"


def with_expiry(payload: dict[str, Any], at: Timestamp, ages: ArtifactAges) -> dict[str, Any]:
    """The payload of the end of an attempt that is recorded at this moment.

    A result that is reused has the moment of the earlier event: it is replaced.
    """
    files = payload.get(_FILES)
    if not files or not isinstance(files, list):
        return payload
    return {**payload, _FILES: [_file_with_expiry(one, at, ages) for one in files]}


def encoded_with_expiry(encoded: bytes, at: Timestamp, ages: ArtifactAges) -> bytes:
    """The same for a payload that is encoded already, because large values were moved out of it."""
    payload: dict[str, Any] = msgspec.json.decode(encoded)
    changed = encode_payload(with_expiry(payload, at, ages))
    # A few more bytes must not be the reason why a result cannot be recorded.
    return changed if len(changed) <= MAX_PAYLOAD_BYTES else encoded


def _file_with_expiry(file: Any, at: Timestamp, ages: ArtifactAges) -> Any:
    if not isinstance(file, dict):
        return file  # of an imported run
    facts = {name: value for name, value in file.items() if name != "expiresAt"}
    age = ages.get(str(facts.get("kind", ArtifactKind.FILE)))
    return facts if age is None else {**facts, "expiresAt": timestamp(moment(at) + age)}
