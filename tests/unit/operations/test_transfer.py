"""A run can be taken out of a store and put into another."""

import asyncio
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from podium.errors import RunNotFound
from podium.log.ids import RunId
from podium.operations.transfer import InvalidExport, export_run, read_export, store_export
from podium.runtime.restoring import restore_files
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import RunValues
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, plan_ref
from podium.testing.store_promises import started

REF = plan_ref()


async def exported(store: MemoryStore) -> list[bytes]:
    return [line async for line in export_run(store, "default", "r1")]


async def a_run() -> MemoryStore:
    store = MemoryStore(VirtualClock())
    lease = await started(
        store,
        run_request_id="req-1",
        priority=7,
        metadata=b'{"by":"me"}',
        plan_sha256=REF.sha256,
        plan_ref=REF,
    )
    steps = [event("r1", "StepCompleted", f"s{n}", output="ä\0") for n in range(1500)]
    await store.append(RunId("r1"), steps, fence=lease.fence)
    await store.append(RunId("r1"), [event("r1", "RunCompleted")], fence=lease.fence)
    await store.append(RunId("r1"), [event("r1", "SignalRejected", subject="late")])
    return store


def test_an_imported_run_is_the_run_that_was_exported() -> None:
    async def scenario() -> None:
        source, target = await a_run(), MemoryStore(VirtualClock())
        lines = await exported(source)
        assert len(lines) == 1 + 1504
        created = await store_export(target, read_export(lines))
        assert (created.duplicate, created.run.head, created.run.status) == (False, 1504, "COMPLETED")
        assert await target.read(RunId("r1"), limit=9999) == await source.read(RunId("r1"), limit=9999)
        assert created.run.plan_ref == REF
        assert created.run.metadata == b'{"by":"me"}'
        assert await exported(target) == lines
        again = await store_export(target, read_export(lines))
        assert again.duplicate

    asyncio.run(scenario())


def test_an_export_that_was_cut_or_is_none_is_refused_whole() -> None:
    async def scenario() -> None:
        lines = await exported(await a_run())
        target = MemoryStore(VirtualClock())
        for broken, told in (
            (lines[:-1], "not complete: 1503 of 1504"),
            ([*lines[:-1], lines[-1][:40]], "not an export of a run"),
            ([], "not an export of a run"),
            ([b"hello\n"], "not an export of a run"),
            ([lines[0].replace(b'"default"', b'"\xff"', 1), *lines[1:]], "not an export of a run"),
            ([lines[0].replace(b"podium-run-2", b"podium-run-9"), *lines[1:]], "format 'podium-run-9'"),
            ([lines[0].replace(b'"r1"', b'"r2"', 1), *lines[1:]], "not complete"),
        ):
            with pytest.raises(InvalidExport, match=told):
                await store_export(target, read_export(broken))
        assert (await target.stats()).runs == 0

    asyncio.run(scenario())


OUTSIDE = [
    "plan.x/../../../evil.json",
    "plan./../../../evil.json",
    "../evil.json",
    "/evil.json",
    "values/../../evil.json",
]


def test_an_export_with_a_content_that_leads_out_of_the_run_is_refused() -> None:
    async def scenario() -> None:
        head, *events = await exported(await a_run())
        head = head.replace(b'"contents":0', b'"contents":1')
        for name in OUTSIDE:
            content = {"name": name, "sha256": sha256(b"evil").hexdigest(), "content": b"evil"}
            with pytest.raises(InvalidExport, match="leads out of the run"):
                read_export([head, *events, msgspec.json.encode(content)])

    asyncio.run(scenario())


def test_a_content_that_is_already_in_a_store_is_restored_inside_of_the_run_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await a_run()
        await store.keep(RunId("r1"), dict.fromkeys((*OUTSIDE, "plan.1.json"), b"evil"))
        directory = RunDirectory(tmp_path / "a" / "runs", "r1")
        directory.make()
        (directory.path / "plan.x").mkdir()
        values = RunValues(store, RunId("r1"), None)
        await restore_files(store, directory, await store.get_run(RunId("r1")), values, marks=False)
        assert (directory.path / "plan.1.json").read_bytes() == b"evil"

    asyncio.run(scenario())
    assert list(tmp_path.rglob("evil*")) == []


def test_another_tenants_run_cannot_be_exported() -> None:
    async def scenario() -> None:
        store = await a_run()
        with pytest.raises(RunNotFound):
            [line async for line in export_run(store, "acme", "r1")]

    asyncio.run(scenario())
