"""Plans of runs on Temporal: the worker verifies again what the client has verified, and a wrong plan runs nothing."""

import asyncio
import contextlib
import os
import pwd
import re
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest
from temporalio.client import Client

from podium.engines.temporal.client import has_worker
from podium.log.payloads import RunEnd, payload_of
from tests.engines.site import WorkerProcess, until
from tests.temporal.site import Site

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: [touch, ran.txt]}]\n'


def _published(site: Site, folder: Path) -> tuple[Path, str]:
    """A plan in a folder of plans, and its reference."""
    plans = folder / "plans"
    plans.mkdir()
    config = folder / "config.yaml"
    config.write_text(f"plans: {{file_root: {plans}}}\n")
    site.environment["PODIUM_CONFIG"] = str(config)
    (site.workspace / "w.yaml").write_text(WORKFLOW)
    plan = plans / "w.json"
    site.podium("publish", "w.yaml", "--to", plan.as_uri())
    return plan, f"{plan.as_uri()}#sha256={sha256(plan.read_bytes()).hexdigest()}"


async def _is_known(site: Site, worker: WorkerProcess) -> bool:
    """A worker that is frozen before the server knows it is no worker for clients."""
    client = await Client.connect(site.server.address, namespace=site.namespace)
    queues = re.findall(r"'([^']+)'", worker.output.partition(" of Temporal ")[0])
    return bool(queues) and all([await has_worker(client, queue) for queue in queues])


@pytest.mark.rule("G19")
def test_a_published_plan_runs_on_temporal(site: Site, tmp_path: Path) -> None:
    _, reference = _published(site, tmp_path)
    site.start_worker()
    site.podium("run", "--plan", reference, "--run-id", "r", *site.options)
    assert site.events_of("r")[-1] == "RunCompleted"
    assert (site.workspace / "ran.txt").exists()


@pytest.mark.rule("G19", "EN20")
def test_a_plan_that_was_changed_in_the_store_fails_the_run_and_runs_nothing(site: Site) -> None:
    worker = site.start_worker()
    until(lambda: asyncio.run(_is_known(site, worker)), "the server to know the worker")
    # Frozen, so that the plan is changed between the client's check and the worker's.
    worker.freeze()
    site.begin(WORKFLOW, "r")
    until(lambda: site.events_of("r") == ["RunQueued"], "the run to be created")
    with contextlib.closing(sqlite3.connect(site.store)) as database, database:
        kept = database.execute("SELECT number, content FROM contents").fetchall()
        plans = [(content.replace(b"ran.txt", b"bad.txt"), number) for number, content in kept]
        database.executemany("UPDATE contents SET content = ? WHERE number = ?", plans)
    worker.thaw()
    until(lambda: site.events_of("r")[-1] == "RunFailed", "the run to be refused")
    log = site.log_of("r")
    assert [record.event_type for record in log] == ["RunQueued", "AlertRaised", "RunFailed"]
    error = payload_of(log[-1], RunEnd).error
    assert error is not None
    assert error.code.startswith("PLAN_")
    assert not (site.workspace / "bad.txt").exists()


@pytest.mark.rule("SG05", "SG08")
def test_on_temporal_too_a_run_starts_only_with_a_valid_signature(site: Site, tmp_path: Path) -> None:
    plan, _ = _published(site, tmp_path)
    printed = site.podium("sign", "--new-key", "release.pem").stdout
    public = printed.split("public: ")[1].strip().rstrip("}")
    (tmp_path / "audit.key").write_bytes(b"k" * 32)
    (tmp_path / "audit.key").chmod(0o600)
    user = pwd.getpwuid(os.getuid()).pw_name
    config = tmp_path / "config.yaml"
    config.write_text(
        f"plans: {{file_root: {plan.parent}}}\n"
        "access:\n"
        "  audit_key: file:audit.key\n"
        f"  tenants: {{default: {{users: {{{user}: [admin, system]}}, signature: required}}}}\n"
        f"  keys: {{release: {{public: {public}}}}}\n"
    )
    config.chmod(0o600)
    site.start_worker()
    site.podium("sign", "--new-key", "stranger.pem")
    site.podium("sign", "w.yaml", "--key", "stranger.pem")
    reference = f"{plan.as_uri()}#sha256={sha256(plan.read_bytes()).hexdigest()}"
    for command in (
        ("run", "w.yaml"),
        ("run", "--plan", reference),
        ("run", "w.yaml", "--signature", "w.yaml.sig"),
    ):
        site.podium(*command, "--run-id", "r", *site.options, code=77)
    assert not (site.workspace / "ran.txt").exists()
    site.podium("publish", "w.yaml", "--to", plan.as_uri(), "--key", "release.pem")
    site.podium("run", "--plan", reference, "--run-id", "r", *site.options)
    assert (site.workspace / "ran.txt").exists()
    assert "signed   by release" in site.podium("runs", "show", "r", "--store", site.store).stdout
