"""With rules about access: what each function and method of the Python API does for an actor without a role, and for
one who may only look. A method that is not in the table makes this file fail.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

import podium
from podium.access.actors import Actor, Method
from podium.api import Podium, Run
from podium.errors import PodiumError
from podium.log.engines import local_ref
from podium.log.plan_refs import PlanRef
from podium.ports.engine import RunContext, SignalRequest, WorkflowEngine
from tests.acceptance.site_with_rules import FLOW, Site

ENDED, OPEN = "ended-1", "open-1"
SIGNAL_ID: Final = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
PLAN: Final = PlanRef(
    uri="file:///plan.json",
    sha256="0" * 64,
    schema_version="v1.2",
    plan_id="flow",
    plan_version="1",
    size_bytes=1,
)
CONTEXT: Final = RunContext(
    tenant_id="acme", project_id="default", environment_id="local", run_id="new-1", target_adapter="local"
)
PAUSE: Final = SignalRequest(signal_id=SIGNAL_ID, signal_type="PAUSE", payload={})
Call = Callable[[Podium], Awaitable[Any]]


async def _events(opened: Podium) -> None:
    async for _ in (await opened.get(ENDED)).events():
        pass


def on(run_id: str, method: str, *arguments: Any) -> Call:
    async def call(opened: Podium) -> Any:
        return await getattr(await opened.get(run_id), method)(*arguments)

    return call


# Only looks.
LOOKS: Final[dict[str, Call]] = {
    "Podium.get": lambda opened: opened.get(ENDED),
    "Run.events": _events,
    "Run.wait": on(ENDED, "wait"),
    "Run.why": on(OPEN, "why"),
    "Run.status": on(ENDED, "status"),
    "Run.plan_sha256": on(ENDED, "plan_sha256"),
    "WorkflowEngine.get_run_status": lambda opened: opened.engine.get_run_status(local_ref(ENDED)),
}
CHANGES: Final[dict[str, Call]] = {
    "Podium.start": lambda opened: opened.start("flow.yaml"),
    "Podium.resume": lambda opened: opened.resume(OPEN, no_wait=True),
    "Podium.rerun": lambda opened: opened.rerun(ENDED),
    "Run.pause": on(OPEN, "pause"),
    "Run.resume": on(OPEN, "resume"),
    "Run.cancel": on(OPEN, "cancel"),
    "Run.approve": on(OPEN, "approve"),
    "Run.reject": on(OPEN, "reject"),
    "Run.retry_step": on(OPEN, "retry_step", "Ask"),
    "Run.signal": on(OPEN, "signal", "PAUSE"),
    "Run.skip_step": on(OPEN, "skip_step", "Ask"),
    "WorkflowEngine.start_run": lambda opened: opened.engine.start_run(PLAN, CONTEXT),
    "WorkflowEngine.cancel_run": lambda opened: opened.engine.cancel_run(local_ref(OPEN)),
    "WorkflowEngine.signal": lambda opened: opened.engine.signal(local_ref(OPEN), PAUSE),
}
STARTS: Final = {"Podium.start", "WorkflowEngine.start_run"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Site:
    site = Site.made(tmp_path, monkeypatch, capfd)
    site.start(ENDED, "flow.yaml")
    site.start(OPEN, "waits.yaml", "acme", "--no-wait")
    monkeypatch.delenv("PODIUM_TOKEN")
    return site


def tried(actor: str, call: Call, tenant: str = "acme") -> str:
    """The code of the error; "" if there was none."""

    async def work() -> str:
        async with podium.open("runs/podium.db", tenant=tenant, actor=actor) as opened:
            try:
                await call(opened)
            except PodiumError as error:
                return error.code
            return ""

    return asyncio.run(work())


def test_every_method_says_who_may_use_it() -> None:
    public = {
        f"{kind.__name__}.{name}"
        for kind in (Podium, Run, WorkflowEngine)
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and not isinstance(member, property) and callable(member)
    }
    assert public == LOOKS.keys() | CHANGES.keys()


@pytest.mark.rule("G24", "G35")
@pytest.mark.parametrize(
    ("method", "tenant"),
    [
        *((method, "acme") for method in (*LOOKS, *CHANGES)),
        # A stranger here is the admin there, and may start runs.
        *((method, "other") for method in (*LOOKS, *CHANGES) if method not in STARTS),
    ],
)
def test_an_actor_without_a_role_finds_no_run(site: Site, method: str, tenant: str) -> None:
    before = site.content()
    code = tried("stranger", {**LOOKS, **CHANGES}[method], tenant)
    assert code == ("AUTHZ_TENANT_FORBIDDEN" if method in STARTS else "RUN_NOT_FOUND")
    assert site.content() == before


@pytest.mark.rule("G24")
@pytest.mark.parametrize("method", [*LOOKS, *CHANGES])
def test_a_viewer_looks_and_changes_nothing(site: Site, method: str) -> None:
    before = site.content()
    code = tried("viewer", {**LOOKS, **CHANGES}[method])
    assert code == ("" if method in LOOKS else "AUTHZ_DENIED")
    assert site.content() == before


@pytest.mark.rule("G35")
def test_another_tenants_run_reads_like_one_that_does_not_exist(site: Site) -> None:
    async def text_of(opened: Podium, run_id: str, *, by_reference: bool) -> str:
        asked = opened.engine.get_run_status(local_ref(run_id)) if by_reference else opened.get(run_id)
        with pytest.raises(podium.RunNotFound) as raised:
            await asked
        return str(raised.value).replace(run_id, "RUN")

    async def work() -> set[str]:
        async with podium.open("runs/podium.db", tenant="other", actor="stranger") as opened:
            return {
                await text_of(opened, run_id, by_reference=by_reference)
                for run_id in (ENDED, "absent")
                for by_reference in (True, False)
            }

    assert len(asyncio.run(work())) == 1


def test_an_actor_is_a_name_or_says_how_it_is_known(site: Site) -> None:
    known = Actor("operator", Method.TOKEN)

    async def work(actor: str | Actor, run_id: str) -> None:
        async with podium.open("runs/podium.db", tenant="acme", actor=actor) as opened:
            await (await opened.start(podium.Workflow.parse(FLOW), run_id=run_id)).wait()

    asyncio.run(work("operator", "r-1"))
    asyncio.run(work(known, "r-2"))
    methods = {one["runId"]: one["method"] for one in site.audit() if one["actor"] == "operator"}
    assert methods == {"r-1": "program", "r-2": "token"}


@pytest.mark.parametrize("actor", ["", "a b", "a|b"])
def test_a_name_that_cannot_be_an_actor_is_refused_at_once(site: Site, actor: str) -> None:
    with pytest.raises(PodiumError, match=r"actor '.*' is not a valid id"):
        asyncio.run(podium.open("runs/podium.db", actor=actor).__aenter__())


def test_a_run_started_with_if_exists_is_looked_for_in_its_tenant(site: Site) -> None:
    async def work() -> None:
        async with podium.open("runs/podium.db", tenant="other", actor="stranger") as opened:
            await opened.start(podium.Workflow.parse(FLOW), run_id=ENDED, if_exists="resume")

    with pytest.raises(PodiumError) as raised:
        asyncio.run(work())
    assert raised.value.code == "RUN_EXISTS"
