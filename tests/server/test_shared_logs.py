"""Any server shows the log of a step that runs on any worker, by the bucket, while the step runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podium.log.ids import RunId
from podium.operations.logs import read_logs
from podium.wiring.engines import run_host
from tests.server.site import Site

LIMIT = 60.0
SLOW = """
version: "2.0"
name: slow
steps:
  - name: Group
    steps:
      - name: Write
        shell: |
          echo first line
          while [ ! -e '{gate}' ]; do sleep 0.05; done
          echo second line
"""


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with a bucket; its worker has another folder of runs, as on another machine."""
    for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config.yaml").write_text(f"artifacts: {tmp_path / 'bucket'}\n")
    monkeypatch.setenv("PODIUM_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.chdir(tmp_path)
    site = Site(tmp_path)
    yield site
    site.close()


@contextlib.asynccontextmanager
async def worker(site: Site) -> AsyncIterator[None]:
    host = run_host(site.store, site.folder / "elsewhere", pool="default")
    stop = asyncio.Event()
    serving = asyncio.create_task(host.serve(stop, drain=5))
    try:
        yield
    finally:
        stop.set()
        await serving


async def until_shown(site: Site, path: str, text: str) -> str:
    async with asyncio.timeout(LIMIT):
        while True:
            answer = await site.ask_async("GET", f"/api/v1{path}")
            if answer.status == 200 and text in answer.body.decode():
                return answer.body.decode()
            await asyncio.sleep(0.1)


def test_the_log_of_a_step_on_another_host_is_shown_while_it_runs(far: Site) -> None:
    gate = far.folder / "gate"
    run_id = far.start(SLOW.replace("{gate}", str(gate)))

    async def scenario() -> None:
        log = f"/runs/{run_id}/logs/Group%2FWrite/1/out"
        async with worker(far):
            assert await until_shown(far, log, "first") == "first line\n"
            assert (await far.store.get_run(RunId(run_id))).status == "RUNNING"
            assert not (far.folder / "runs" / run_id).exists()
            gate.touch()
            assert await until_shown(far, log, "second") == "first line\nsecond line\n"
            found = await until_shown(far, f"/runs/{run_id}/logs/search?text=second", "line")
            assert '"line":2' in found

    far.run(scenario())
    listed = far.get(f"/runs/{run_id}/logs").json["logs"]
    assert [(one["step"], one["stream"], one["sizeBytes"]) for one in listed] == [("Group~Write", "out", 23)]


def test_following_the_logs_of_a_run_on_another_host_shows_all_of_them(far: Site) -> None:
    gate = far.folder / "gate"
    run_id = far.start(SLOW.replace("{gate}", str(gate)))

    async def scenario() -> list[str]:
        shown = []
        async with worker(far), asyncio.timeout(LIMIT):
            async for part in read_logs(far.parts, "acme", run_id, follow=True):
                shown += [piece async for piece in part.pieces()]
                gate.touch()
        return shown

    assert far.run(scenario()) == ["first line\n", "second line\n"]


def test_removing_a_run_removes_its_logs_in_the_bucket(far: Site) -> None:
    gate = far.folder / "gate"
    gate.touch()
    run_id = far.start(SLOW.replace("{gate}", str(gate)))

    async def scenario() -> None:
        async with worker(far):
            await until_shown(far, f"/runs/{run_id}/logs/Group%2FWrite/1/out", "second")

    far.run(scenario())
    assert list((far.folder / "bucket").rglob("logs/*/*"))
    assert far.delete(f"/runs/{run_id}").status == 204
    assert not list((far.folder / "bucket").rglob("logs/*/*"))
