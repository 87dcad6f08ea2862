"""What gets into a history: small messages. The plan, and whatever is large, is kept in Podium's store."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from podium.engines.temporal.converter import MAX_INLINE_BYTES, data_converter
from podium.engines.temporal.messages import OpenedRun, RunArgs
from podium.log.events import RunIdentity
from podium.log.ids import RunId

_IDENTITY = RunIdentity(
    run_id=RunId("r1"),
    tenant_id="acme",
    project_id="web",
    environment_id="prod",
    plan_id="plan",
    plan_version="1.0.0",
)
_KIB = 1024


class Kept:
    """Contents of runs, in memory."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], bytes] = {}

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        self.found |= {(run_id, name): content for name, content in contents.items()}

    async def kept(self, run_id: RunId, name: str) -> bytes:
        return self.found[run_id, name]


def _driver(value: object, kept: Kept | None = None) -> tuple[StorageDriver | None, Payload]:
    """Where a value is kept; None: in the history."""
    contents: Any = kept or Kept()
    converter = data_converter(contents)
    (payload,) = converter.payload_converter.to_payloads([value])
    assert converter.external_storage is not None
    select = converter.external_storage.driver_selector
    assert select is not None
    return select(StorageDriverSelectContext(), payload), payload


@pytest.mark.rule("EN12")
def test_a_small_message_is_in_the_history() -> None:
    assert _driver(RunArgs("r1", "queue"))[0] is None
    assert _driver("x" * 63 * _KIB)[0] is None


@pytest.mark.rule("EN12")
def test_a_large_one_is_not() -> None:
    assert MAX_INLINE_BYTES == 64 * _KIB
    assert _driver("x" * 65 * _KIB)[0] is not None


@pytest.mark.rule("EN12")
def test_a_plan_is_never_in_the_history_however_small_it_is() -> None:
    driver, payload = _driver(OpenedRun(_IDENTITY, 1, b"{}"))
    assert driver is not None
    assert payload.ByteSize() < _KIB


@pytest.mark.rule("EN12")
def test_what_is_kept_belongs_to_its_run_and_comes_back_as_it_was() -> None:
    kept = Kept()
    driver, payload = _driver(OpenedRun(_IDENTITY, 1, b"{}"), kept)
    assert driver is not None
    context = StorageDriverStoreContext(target=StorageDriverWorkflowInfo(namespace="default", id="podium-r1"))
    claims = asyncio.run(driver.store(context, [payload]))
    ((run_id, name),) = kept.found
    assert run_id == "r1"
    assert name.startswith("temporal/")
    assert list(asyncio.run(driver.retrieve(StorageDriverRetrieveContext(), claims))) == [payload]
