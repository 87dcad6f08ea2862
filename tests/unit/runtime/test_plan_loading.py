"""What a worker does before it runs a plan: it fetches it, and verifies it again."""

import asyncio
import logging
from hashlib import sha256

import pytest
from msgspec.structs import replace

from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.log.plan_refs import PlanRef
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.plan.loading import plan_bytes, plan_of
from podium.plan.locations import PlanUriNotAllowed
from podium.plan.plan import Block, Command, Plan, Step, Workflow
from podium.plan.references import PlanIntegrityFailed, reference_to
from podium.ports.plan_source import PlanNotFound
from podium.runtime.plan_file import PLAN, PlanMissing
from podium.runtime.plan_loading import PlanLoader
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

URI = "https://plans.example.com/w.json"
NOW = "2026-01-01T12:00:00.000000Z"


def plan_that_says(word: str) -> Plan:
    return plan_of(Workflow("W", Block("implied", (Step("A", Command(("echo", word))),))), revision="1")


GOOD, BAD = plan_that_says("good"), plan_that_says("bad")
REF = reference_to(GOOD, plan_bytes(GOOD), URI)


class Source:
    """Plans by URI; counts what is fetched."""

    def __init__(self, **plans: bytes) -> None:
        self.plans = {URI: plan_bytes(GOOD)}
        self.fetched: list[str] = []
        self.refused: set[str] = set()

    def check(self, uri: str) -> None:
        if uri in self.refused:
            raise PlanUriNotAllowed(uri, "refused")

    async def fetch(self, uri: str) -> bytes:
        self.fetched.append(uri)
        if uri not in self.plans:
            raise PlanNotFound(uri)
        return self.plans[uri]

    async def publish(self, uri: str, content: bytes) -> bool:
        raise NotImplementedError


def loader(source: Source) -> PlanLoader:
    return PlanLoader(source, lambda: NOW)


async def a_run(store: MemoryStore, ref: PlanRef | None = REF, kept: bytes | None = None) -> Run:
    """A run of the good plan, as the store keeps it."""
    new = new_run(
        "r1",
        run={"plan_id": REF.plan_id, "plan_version": REF.plan_version},
        plan_sha256=REF.sha256,
        plan_ref=ref,
    )
    contents = {PLAN: plan_bytes(GOOD) if kept is None else kept}
    return (await store.create_run(new, [event("r1", "RunQueued")], contents)).run


@pytest.mark.rule("G19")
def test_the_plan_of_a_run_that_has_not_started_is_fetched_and_verified_again() -> None:
    async def scenario() -> None:
        store, source = MemoryStore(VirtualClock()), Source()
        run = await a_run(store)
        assert await loader(source).plan_of(run, store) == GOOD
        assert source.fetched == [URI]

    asyncio.run(scenario())


@pytest.mark.rule("G19", "PR04")
def test_a_plan_that_was_changed_since_is_refused_and_both_hashes_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        store, source = MemoryStore(VirtualClock()), Source()
        source.plans[URI] = plan_bytes(BAD)
        with caplog.at_level(logging.ERROR), pytest.raises(PlanIntegrityFailed):
            await loader(source).plan_of(await a_run(store), store)

    asyncio.run(scenario())
    (record,) = caplog.records
    text = record.getMessage()
    assert "run r1: PLAN_INTEGRITY_VALIDATION_FAILED" in text
    assert REF.sha256 in text
    assert sha256(plan_bytes(BAD)).hexdigest() in text


@pytest.mark.rule("G19")
def test_a_plan_is_fetched_once_for_all_its_runs() -> None:
    async def scenario() -> None:
        source = Source()
        plans = loader(source)
        for _ in range(3):
            assert (await plans.fetch(REF)).plan == GOOD
        assert (await plans.fetch_by_hash(URI, REF.sha256)).ref == REF
        assert source.fetched == [URI]
        elsewhere = replace(REF, uri="https://evil.example/w.json")
        source.refused.add(elsewhere.uri)
        with pytest.raises(PlanUriNotAllowed):
            await plans.fetch(elsewhere)
        with pytest.raises(PodiumError, match="plan_id"):
            await plans.fetch(replace(REF, plan_id="other"))

    asyncio.run(scenario())


def test_the_cache_does_not_grow_without_end() -> None:
    async def scenario() -> None:
        source = Source()
        plans = loader(source)
        for number in range(40):
            content = plan_bytes(plan_that_says(f"word {number}"))
            source.plans[f"{URI}{number}"] = content
            await plans.fetch_by_hash(f"{URI}{number}", sha256(content).hexdigest())
        await plans.fetch(REF)
        newest = plan_bytes(plan_that_says("word 39"))
        await plans.fetch_by_hash(f"{URI}39", sha256(newest).hexdigest())
        oldest = plan_bytes(plan_that_says("word 0"))
        await plans.fetch_by_hash(f"{URI}0", sha256(oldest).hexdigest())
        assert source.fetched.count(f"{URI}39") == 1
        assert source.fetched.count(f"{URI}0") == 2

    asyncio.run(scenario())


@pytest.mark.rule("G19")
def test_a_run_that_has_started_does_not_depend_on_the_place_of_its_plan() -> None:
    async def scenario() -> None:
        store, source = MemoryStore(VirtualClock()), Source()
        source.plans.clear()
        run = await a_run(store)
        with pytest.raises(PlanNotFound):
            await loader(source).plan_of(run, store)
        source.fetched.clear()
        assert await loader(source).plan_of(replace(run, status=RunStatus.RUNNING), store) == GOOD
        assert source.fetched == []

    asyncio.run(scenario())


@pytest.mark.rule("G19")
def test_without_a_reference_the_plan_is_the_one_that_the_store_keeps_and_it_is_verified() -> None:
    async def scenario() -> None:
        source = Source()
        store = MemoryStore(VirtualClock())
        assert await loader(source).plan_of(await a_run(store, None), store) == GOOD
        store = MemoryStore(VirtualClock())
        with pytest.raises(PlanIntegrityFailed, match="the plan at the store"):
            await loader(source).plan_of(await a_run(store, None, kept=plan_bytes(BAD)), store)
        store = MemoryStore(VirtualClock())
        run = await a_run(store, None)
        store._kept(RunId("r1")).contents.clear()
        with pytest.raises(PlanMissing, match="not in the store"):
            await loader(source).plan_of(run, store)
        assert source.fetched == []

    asyncio.run(scenario())


@pytest.mark.rule("G30")
def test_a_reference_of_another_schema_or_that_has_expired_is_not_fetched() -> None:
    async def scenario() -> None:
        source = Source()
        for ref, code in (
            (replace(REF, schema_version="v9.0"), "PLAN_SCHEMA_VERSION_UNKNOWN"),
            (replace(REF, expires_at=NOW), "PLAN_REF_EXPIRED"),
            (replace(REF, sha256="X" * 64), "INVALID_EVENT"),
        ):
            with pytest.raises(PodiumError) as refused:
                await loader(source).fetch(ref)
            assert refused.value.code == code
        assert source.fetched == []

    asyncio.run(scenario())
