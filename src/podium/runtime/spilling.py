"""Large values are moved out of an event before it is recorded: the store keeps them separately, and the
event refers to them (G48).

A value is durable in the store, by its SHA-256, before the event that refers to it, so that a backup or an
export of the store is complete. The run's directory has a copy, so that the store can be rebuilt from it.
Values that decisions depend on are never moved: error, exit code and usage stay in the event, whatever their
size.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from podium.errors import ContentMissing, PayloadTooLarge, PodiumError
from podium.log.artifacts import ArtifactRef
from podium.log.events import MAX_PAYLOAD_BYTES, EventRecord, encode_payload
from podium.log.ids import RunId
from podium.ports.artifacts import ArtifactNotFound, ArtifactStore
from podium.ports.store import Contents
from podium.runtime.rundir import RunDirectory

if TYPE_CHECKING:
    from podium.runtime.run_artifacts import RunArtifacts

SPILL_FROM_BYTES: Final = 64 * 1024
NEVER_SPILLED: Final = frozenset({"error", "exitCode", "publishes", "reasonCode", "usage"})
_MARK: Final = "$artifact"
_MARK_BYTES: Final = _MARK.encode()
_VALUES: Final = "values/"
_KIND: Final = "payload"

MakeFolder: TypeAlias = Callable[[Path], ArtifactStore]


class ValueSink(Protocol):
    """Stores large values."""

    async def put(self, content: bytes, /, *, kind: str) -> ArtifactRef: ...


class Values(ValueSink, Protocol):
    """Stores and loads large values."""

    async def read(self, ref: ArtifactRef) -> bytes: ...


def value_name(digest: str) -> str:
    """The name of a value among the contents of its run."""
    return f"{_VALUES}{digest}"


def is_value(name: str) -> bool:
    return name.startswith(_VALUES)


class RunValues:
    """The values of a run: in the store, and a copy of each in the run's directory.

    `bucket`: if configured, it has the values that steps produced; a task puts them there before its end is
    recorded.
    """

    def __init__(
        self,
        contents: Contents,
        run_id: str,
        copies: Callable[[], ArtifactStore] | None = None,
        bucket: "RunArtifacts | None" = None,
    ) -> None:
        self._contents = contents
        self._run_id = RunId(run_id)
        self._copies = copies
        self._bucket = bucket

    async def put(self, content: bytes, /, *, kind: str) -> ArtifactRef:
        ref = _ref_of(content, kind)
        assert ref.sha256 is not None
        await self._contents.keep(self._run_id, {value_name(ref.sha256): content})
        await self.copy(content)
        uri = self._bucket.uri_of(ref.sha256) if self._bucket is not None else None
        return msgspec.structs.replace(ref, uri=uri) if uri is not None else ref

    async def copy(self, content: bytes) -> None:
        """Copy a value into the directory only. A full disk there does not affect the run."""
        if self._copies is not None:
            with contextlib.suppress(PodiumError, OSError):
                await self._copies().put(content, kind=_KIND)

    async def read(self, ref: ArtifactRef) -> bytes:
        name = value_name(ref.sha256 or "")
        try:
            return await self._contents.kept(self._run_id, name)
        except ContentMissing:
            if self._bucket is not None:
                with contextlib.suppress(PodiumError):  # the directory may have it
                    return await self._bucket.read(ref)
            if self._copies is None:
                raise
        # For a run that an earlier version has started.
        try:
            return await self._copies().read(ref)
        except ArtifactNotFound as error:
            raise ContentMissing(self._run_id, name, ", nor has its directory") from error


def values_of(
    contents: Contents,
    run_id: str,
    directory: RunDirectory,
    make: MakeFolder | None,
    bucket: "RunArtifacts | None" = None,
) -> Callable[[], RunValues]:
    """The folder of the copies is created with the first of them."""
    copies = cache(lambda: make(directory.payloads)) if make is not None else None
    return cache(lambda: RunValues(contents, run_id, copies, bucket))


class NewValues:
    """Values of a run that is about to be created: they are stored together with it."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    async def put(self, content: bytes, /, *, kind: str) -> ArtifactRef:
        ref = _ref_of(content, kind)
        self.contents[value_name(ref.sha256 or "")] = content
        return ref

    async def read(self, ref: ArtifactRef) -> bytes:
        return self.contents[value_name(ref.sha256 or "")]


def _ref_of(content: bytes, kind: str) -> ArtifactRef:
    digest = sha256(content).hexdigest()
    return ArtifactRef(f"sha256:{digest}", kind, digest, len(content))


async def spill(payload: Mapping[str, Any], values: ValueSink) -> bytes:
    """The bytes of a payload that fits into an event: as many of its largest fields as necessary are moved
    out.
    """
    encoded = encode_payload(payload)
    if len(encoded) <= MAX_PAYLOAD_BYTES:
        return encoded
    fields = dict(payload)
    sizes = {name: len(encode_payload(value)) for name, value in fields.items() if name not in NEVER_SPILLED}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] <= SPILL_FROM_BYTES:
            break
        ref = await values.put(encode_payload(fields[name]), kind=_KIND)
        fields[name] = {_MARK: msgspec.to_builtins(ref)}
        encoded = encode_payload(fields)
        if len(encoded) <= MAX_PAYLOAD_BYTES:
            return encoded
    raise PayloadTooLarge(
        f"a payload has {len(encoded)} bytes even without its large values; at most {MAX_PAYLOAD_BYTES} are kept"
    )


def is_spilled(payload: bytes) -> bool:
    """Whether something may have been moved out; fast, because that is rare."""
    return _MARK_BYTES in payload


async def whole(record: EventRecord, values: Callable[[], Values] | None) -> EventRecord:
    """The record with the large values that were moved out of it, on which decisions may depend."""
    if values is None or not is_spilled(record.payload):
        return record
    return msgspec.structs.replace(record, payload=encode_payload(await hydrate(record.payload, values())))


def spilled_refs(payload: bytes) -> list[ArtifactRef]:
    """The references in a payload."""
    if not is_spilled(payload):
        return []
    fields: dict[str, Any] = msgspec.json.decode(payload)
    return [msgspec.convert(value[_MARK], ArtifactRef) for value in fields.values() if _is_reference(value)]


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_MARK}


async def hydrate(payload: bytes, values: Values) -> dict[str, Any]:
    """A payload with what was moved out restored, for readers that need it."""
    fields: dict[str, Any] = msgspec.json.decode(payload)
    return await put_back(fields, values)


async def put_back(fields: dict[str, Any], values: Values) -> dict[str, Any]:
    """The same for fields that were decoded already."""
    for name, value in fields.items():
        if _is_reference(value):
            ref = msgspec.convert(value[_MARK], ArtifactRef)
            fields[name] = msgspec.json.decode(await values.read(ref))
    return fields
