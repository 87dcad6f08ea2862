"""Runs start only with plans that a trusted key has signed, where the rules of their tenant say so."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from podium.access.policy import AccessPolicy, TenantRules, TrustedKey
from podium.access.signatures import write_signatures
from podium.errors import PodiumError, RunNotFound
from podium.log.ids import RunId
from podium.log.times import later, timestamp
from podium.log.transitions import RunStatus
from podium.operations.drive import ReadyRun
from podium.operations.engine_runs import EngineRuns
from podium.operations.parts import Parts
from podium.operations.resume import Replacement, resume_run
from podium.operations.runs import show_run
from podium.operations.signed_runs import SigningRules, signed_plan_of
from podium.operations.signing import sign_plan
from podium.operations.start import start_run
from podium.operations.workflows import require_workflow
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.plan.references import reference_to
from podium.ports.engine import RunContext, RunRequest
from podium.ports.plan_source import PlanNotFound
from podium.runtime.ed25519 import SigningKey
from podium.runtime.plan_file import PLAN, SIGNATURES
from podium.runtime.plan_loading import PlanLoader
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.wiring.use_cases import use_case_parts

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
STRANGER = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
URI = "https://plans.example.com/w.json"


def compiled(command: str = "first") -> Plan:
    source = f"version: '2.0'\nname: w\nsteps: [{{name: A, command: [touch, {command}.txt]}}]\n"
    plan = require_workflow(source.encode(), "w.yaml").plan
    assert plan is not None
    return plan


PLAN_A, PLAN_B = compiled(), compiled("second")


class Places:
    """Where plans are published: by URI."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def check(self, uri: str) -> None:
        assert uri.startswith("https://plans.example.com/")

    async def fetch(self, uri: str) -> bytes:
        if uri not in self.files:
            raise PlanNotFound(uri)
        return self.files[uri]

    async def publish(self, uri: str, content: bytes) -> bool:
        self.files[uri] = content
        return True


class World:
    """The parts of a process, with rules, a clock that is moved, and a place with published plans."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.places = Places()
        self.store = MemoryStore(self.clock)
        self.loader = PlanLoader(self.places, self.now)
        self.begun: list[str] = []
        self._parts = msgspec.structs.replace(
            use_case_parts(self.store, folder / "runs", print), clock=self.clock
        )
        self.folder = folder

    def now(self) -> str:
        return timestamp(self.clock.now())

    def parts(
        self, *, required: bool = True, expires: str | None = None, tenants: Sequence[str] = ()
    ) -> Parts:
        key = TrustedKey("k1", KEY.public, expires, frozenset(tenants))
        policy = AccessPolicy({"default": TenantRules({}, signature=required)}, {"k1": key})
        rules = SigningRules(policy, self.loader.fetch_signatures)
        return msgspec.structs.replace(self._parts, signing=lambda: rules)

    def signatures(self, plan: Plan = PLAN_A, key: SigningKey = KEY, expires: str | None = None) -> bytes:
        ref = reference_to(plan, plan_bytes(plan))
        return write_signatures(sign_plan(ref, key, "k1", now=self.now(), expires=expires))

    def request(self, plan: Plan = PLAN_A, signatures: bytes | None = None) -> RunRequest:
        return RunRequest(plan, run_id="r", workspace=self.folder, signatures=signatures)

    async def code_of_start(self, parts: Parts, request: RunRequest) -> str:
        """Of the refusal; nothing was created."""
        with pytest.raises(PodiumError) as refused:
            await start_run(parts, request)
        with pytest.raises(RunNotFound):
            await self.store.get_run(RunId("r"))
        return refused.value.code

    def engine_runs(self, parts: Parts) -> EngineRuns:
        async def begin(ready: ReadyRun) -> None:
            self.begun.append(ready.run_id)

        return EngineRuns(parts, lambda: self.loader, begin)

    async def plan_for_a_worker(self, parts: Parts, status: RunStatus = RunStatus.PENDING) -> Plan:
        run = msgspec.structs.replace(await self.store.get_run(RunId("r")), status=status)
        return await signed_plan_of(self.loader.plan_of, parts.signing, self.clock, run, self.store)

    async def publish(self, plan: Plan, signatures: bytes | None) -> None:
        await self.places.publish(URI, plan_bytes(plan))
        if signatures is not None:
            await self.places.publish(f"{URI}.sig", signatures)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


REF = reference_to(PLAN_A, plan_bytes(PLAN_A), URI)
PLAN_B_SHA256 = reference_to(PLAN_B, plan_bytes(PLAN_B)).sha256
CONTEXT = RunContext(run_id="r", target_adapter="local")


# --- start ----------------------------------------------------------------------------------------


@pytest.mark.rule("SG05", "SG07")
def test_a_signed_plan_starts_and_its_run_keeps_bytes_and_signatures(world: World) -> None:
    async def work() -> None:
        signatures = world.signatures()
        await start_run(world.parts(), world.request(signatures=signatures))
        assert await world.store.kept(RunId("r"), PLAN) == plan_bytes(PLAN_A)
        assert await world.store.kept(RunId("r"), SIGNATURES) == signatures
        view = await show_run(world.store, world.clock, "default", "r")
        assert [(by.key_id, by.signed_at) for by in view.signed_by] == [("k1", world.now())]

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_an_unsigned_plan_does_not_start(world: World) -> None:
    async def work() -> None:
        assert await world.code_of_start(world.parts(), world.request()) == "PLAN_NOT_SIGNED"
        assert await world.code_of_start(world.parts(), world.request(signatures=b"[]")) == "PLAN_NOT_SIGNED"

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_a_tenant_without_rules_starts_nothing_unsigned(world: World) -> None:
    async def work() -> None:
        request = msgspec.structs.replace(world.request(), tenant_id="forgotten")
        assert await world.code_of_start(world.parts(required=False), request) == "PLAN_NOT_SIGNED"

    asyncio.run(work())


@pytest.mark.rule("SG01", "SG05")
def test_the_signature_of_another_plan_does_not_start_this_one(world: World) -> None:
    async def work() -> None:
        request = world.request(PLAN_B, world.signatures(PLAN_A))
        assert await world.code_of_start(world.parts(), request) == "PLAN_SIGNATURE_INVALID"

    asyncio.run(work())


@pytest.mark.rule("SG07")
def test_what_is_checked_are_the_bytes_that_are_kept(world: World) -> None:
    """A request that shows a signed plan and brings other bytes is refused."""

    async def work() -> None:
        request = msgspec.structs.replace(
            world.request(PLAN_A, world.signatures(PLAN_A)), plan_content=plan_bytes(PLAN_B)
        )
        assert await world.code_of_start(world.parts(), request) == "PLAN_SIGNATURE_INVALID"

    asyncio.run(work())


@pytest.mark.rule("SG02", "SG05")
def test_the_key_is_trusted_in_the_tenant_of_the_run_or_not_at_all(world: World) -> None:
    async def work() -> None:
        request = world.request(signatures=world.signatures())
        assert await world.code_of_start(world.parts(tenants=["other"]), request) == "PLAN_SIGNER_UNKNOWN"
        await start_run(world.parts(tenants=["other", "default"]), request)

    asyncio.run(work())


@pytest.mark.rule("SG03")
def test_a_key_is_not_trusted_from_the_second_in_which_it_expires(world: World) -> None:
    async def work() -> None:
        parts = world.parts(expires=later(world.now(), 60))
        request = world.request(signatures=world.signatures())
        world.clock.move(60)
        assert await world.code_of_start(parts, request) == "PLAN_KEY_EXPIRED"
        world.clock.jump(-1)
        await start_run(parts, request)

    asyncio.run(work())


@pytest.mark.rule("SG03")
def test_a_signature_is_not_valid_from_the_second_in_which_it_expires(world: World) -> None:
    async def work() -> None:
        request = world.request(signatures=world.signatures(expires=later(world.now(), 60)))
        world.clock.move(60)
        assert await world.code_of_start(world.parts(), request) == "PLAN_SIGNATURE_EXPIRED"
        world.clock.jump(-1)
        await start_run(world.parts(), request)

    asyncio.run(work())


@pytest.mark.rule("SG06")
def test_a_bad_signature_is_refused_where_none_is_required(world: World) -> None:
    async def work() -> None:
        parts, bad = world.parts(required=False), world.signatures(key=STRANGER)
        assert await world.code_of_start(parts, world.request(signatures=bad)) == "PLAN_SIGNATURE_INVALID"
        assert await world.code_of_start(parts, world.request(signatures=b"{}")) == "SIGNATURE_MALFORMED"
        await start_run(parts, world.request())
        assert (await show_run(world.store, world.clock, "default", "r")).signed_by == ()

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_every_refusal_is_in_the_audit_log_with_its_code_and_the_plan(world: World) -> None:
    async def work() -> None:
        await world.code_of_start(world.parts(), world.request())
        await world.code_of_start(world.parts(), world.request(signatures=b"{}"))
        await start_run(world.parts(required=False), world.request())
        with pytest.raises(PodiumError):
            await resume_run(world.parts(), "default", "r", workflow=Replacement(PLAN_B, b""))
        with pytest.raises(PodiumError):
            await resume_run(world.parts(), "default", "r")
        entries = [msgspec.json.decode(one.content) for one in await world.store.read_audit("default")]
        assert [
            (one["operation"], one["outcome"], one["code"], one["runId"], one["planSha256"])
            for one in entries
            if one["outcome"] == "REJECTED"
        ] == [
            ("run.start", "REJECTED", "PLAN_NOT_SIGNED", "r", REF.sha256),
            ("run.start", "REJECTED", "SIGNATURE_MALFORMED", "r", REF.sha256),
            ("run.replace-workflow", "REJECTED", "PLAN_NOT_SIGNED", "r", PLAN_B_SHA256),
            ("run.start", "REJECTED", "PLAN_NOT_SIGNED", "r", REF.sha256),
        ]

    asyncio.run(work())


def test_a_refusal_of_a_run_with_an_impossible_id_is_recorded_without_it(world: World) -> None:
    async def work() -> None:
        request = msgspec.structs.replace(world.request(), run_id="\ud800" * 100)
        with pytest.raises(PodiumError) as refused:
            await start_run(world.parts(), request)
        assert refused.value.code == "PLAN_NOT_SIGNED"
        [entry] = await world.store.read_audit("default")
        assert "runId" not in msgspec.json.decode(entry.content)

    asyncio.run(work())


# --- by reference ---------------------------------------------------------------------------------


@pytest.mark.rule("SG05", "SG08")
def test_a_program_starts_a_published_plan_with_the_signature_beside_it(world: World) -> None:
    async def work() -> None:
        await world.publish(PLAN_A, world.signatures())
        await world.engine_runs(world.parts()).start_run(REF, CONTEXT)
        assert world.begun == ["r"]
        assert [by.key_id for by in (await show_run(world.store, world.clock, "default", "r")).signed_by] == [
            "k1"
        ]

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_a_program_does_not_start_a_published_plan_that_is_not_signed(world: World) -> None:
    async def work() -> None:
        await world.publish(PLAN_A, None)
        with pytest.raises(PodiumError, match="is not signed"):
            await world.engine_runs(world.parts()).start_run(REF, CONTEXT)
        context = msgspec.structs.replace(CONTEXT, signatures=world.signatures(PLAN_B))
        with pytest.raises(PodiumError, match="has no valid signature"):
            await world.engine_runs(world.parts()).start_run(REF, context)
        assert world.begun == []
        context = msgspec.structs.replace(CONTEXT, signatures=world.signatures())
        await world.engine_runs(world.parts()).start_run(REF, context)
        assert world.begun == ["r"]

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_a_run_that_was_created_before_the_rule_does_not_start_unsigned(world: World) -> None:
    async def work() -> None:
        await world.publish(PLAN_A, None)
        await start_run(world.parts(required=False), world.request())
        for start in (
            world.engine_runs(world.parts()).start_run(REF, CONTEXT),
            resume_run(world.parts(), "default", "r"),
        ):
            with pytest.raises(PodiumError) as refused:
                await start
            assert refused.value.code == "PLAN_NOT_SIGNED"
        assert world.begun == []
        for plan in (PLAN_A, PLAN_B):
            signed = Replacement(plan, b"", signatures=world.signatures(plan))
            assert (await resume_run(world.parts(), "default", "r", workflow=signed)).run_id == "r"
            view = await show_run(world.store, world.clock, "default", "r")
            assert [by.key_id for by in view.signed_by] == ["k1"]

    asyncio.run(work())


@pytest.mark.rule("SG07")
def test_a_signature_is_not_kept_for_a_workflow_that_takes_the_place_of_the_signed_one(world: World) -> None:
    async def work() -> None:
        parts = world.parts(required=False)
        await start_run(parts, world.request(signatures=world.signatures()))
        await resume_run(parts, "default", "r", workflow=Replacement(PLAN_B, b""))
        assert (await show_run(world.store, world.clock, "default", "r")).signed_by == ()
        with pytest.raises(PodiumError) as refused:
            await resume_run(world.parts(), "default", "r")
        assert refused.value.code == "PLAN_NOT_SIGNED"

    asyncio.run(work())


@pytest.mark.rule("SG05")
def test_a_worker_checks_by_its_own_rules_before_a_run_starts(world: World) -> None:
    async def work() -> None:
        await start_run(world.parts(required=False), world.request())
        assert await world.plan_for_a_worker(world.parts(required=False)) == PLAN_A
        with pytest.raises(PodiumError) as refused:
            await world.plan_for_a_worker(world.parts())
        assert refused.value.code == "PLAN_NOT_SIGNED"
        # What has started continues.
        assert await world.plan_for_a_worker(world.parts(), RunStatus.RUNNING) == PLAN_A

    asyncio.run(work())


@pytest.mark.rule("SG03", "SG05")
def test_a_worker_accepts_the_signature_that_the_run_keeps_until_the_key_expires(world: World) -> None:
    async def work() -> None:
        parts = world.parts(expires=later(world.now(), 60))
        await start_run(parts, world.request(signatures=world.signatures()))
        assert await world.plan_for_a_worker(parts) == PLAN_A
        world.clock.move(60)
        with pytest.raises(PodiumError) as refused:
            await world.plan_for_a_worker(parts)
        assert refused.value.code == "PLAN_KEY_EXPIRED"

    asyncio.run(work())


@pytest.mark.rule("SG03", "SG05")
def test_a_run_that_waits_until_the_key_has_expired_does_not_start(world: World) -> None:
    async def work() -> None:
        parts = world.parts(expires=later(world.now(), 60))
        await start_run(parts, world.request(signatures=world.signatures()))
        await resume_run(parts, "default", "r")
        world.clock.move(60)
        with pytest.raises(PodiumError) as refused:
            await resume_run(parts, "default", "r")
        assert refused.value.code == "PLAN_KEY_EXPIRED"

    asyncio.run(work())
