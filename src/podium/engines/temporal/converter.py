"""Converts messages to Temporal's payloads: JSON; the plan, and anything large, stays in Podium's store.

Otherwise Temporal's histories would contain the plan of every run, and a payload above 2 MB would end the
execution. What is stored belongs to its run and is removed with it by `podium prune`, which refuses open
runs, so nothing is removed that an open execution refers to.
"""

import dataclasses
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from podium.engines.temporal.messages import OpenedRun
from podium.engines.temporal.names import run_id_of
from podium.log.ids import RunId
from podium.ports.store import Contents

MAX_INLINE_BYTES: Final = 64 * 1024
# Prefix of the names of a run's contents.
PREFIX: Final = "temporal/"
_ENCODING: Final = "json/plain"
# Marks payloads that are always stored, however small they are.
_ALWAYS: Final = "podium-kept"


class _JsonConverter(EncodingPayloadConverter):
    @property
    def encoding(self) -> str:
        return _ENCODING

    def to_payload(self, value: Any) -> Payload:
        data = msgspec.json.encode(value)
        metadata = {"encoding": _ENCODING.encode()}
        if isinstance(value, OpenedRun):
            metadata[_ALWAYS] = b"1"
        return Payload(metadata=metadata, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        return msgspec.json.decode(payload.data, type=type_hint if type_hint is not None else Any)


class _Converter(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(_JsonConverter())


class _InStore(StorageDriver):
    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def name(self) -> str:
        return "podium"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        claims, run_id = [], _run_of(context)
        for payload in payloads:
            content = payload.SerializeToString()
            name = f"{PREFIX}{sha256(content).hexdigest()}"
            await self._contents.keep(run_id, {name: content})
            claims.append(StorageDriverClaim({"run": run_id, "name": name}))
        return claims

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        found = []
        for claim in claims:
            run_id, name = claim.claim_data["run"], claim.claim_data["name"]
            payload = Payload()
            payload.ParseFromString(await self._contents.kept(RunId(run_id), name))
            found.append(payload)
        return found


def _run_of(context: StorageDriverStoreContext) -> RunId:
    assert isinstance(context.target, StorageDriverWorkflowInfo), context
    run_id = run_id_of(context.target.id or "")
    assert run_id is not None, context
    return run_id


def data_converter(contents: Contents) -> DataConverter:
    driver = _InStore(contents)

    def select(_context: Any, payload: Payload) -> StorageDriver | None:
        is_kept = _ALWAYS in payload.metadata or payload.ByteSize() > MAX_INLINE_BYTES
        return driver if is_kept else None

    return dataclasses.replace(
        DataConverter.default,
        payload_converter_class=_Converter,
        external_storage=ExternalStorage(drivers=[driver], driver_selector=select, payload_size_threshold=0),
    )
