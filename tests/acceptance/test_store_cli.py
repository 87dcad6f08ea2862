"""Runs and their log on the command line, over a real file."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podium.log.ids import RunId
from podium.ports.store import Store
from podium.testing.events import event, new_run
from podium.testing.store_promises import started
from podium.wiring.stores import open_store

PODIUM = [sys.executable, "-m", "podium"]


def podium(*arguments: str, code: int = 0, **options: Any) -> str:
    done = subprocess.run([*PODIUM, *arguments], capture_output=True, text=True, check=False, **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    printed: str = done.stdout if code == 0 else done.stderr
    return printed


def in_store(path: Path, work: Callable[[Store], Any]) -> None:
    async def scenario() -> None:
        store = await open_store(str(path), create=True)
        await work(store)
        await store.close()

    asyncio.run(scenario())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A file with one run that has failed and one that waits."""
    path = tmp_path / "podium.db"

    async def fill(opened: Store) -> None:
        lease = await started(opened, "r1")
        error = {"category": "USER", "code": "EXIT_1", "message": "exit 1 \x1b[31m"}
        writes = [
            event("r1", "StepCompleted", "build", exitCode=0),
            event("r1", "StepFailed", "test", error=error),
            event("r1", "RunFailed", error=error),
        ]
        await opened.append(RunId("r1"), writes, fence=lease.fence)
        await opened.create_run(new_run("r2", run={"plan_id": "other"}), [event("r2", "RunQueued")])

    in_store(path, fill)
    return path


def test_runs_are_listed_and_filtered(store: Path) -> None:
    shown = podium("runs", "list", "--store", str(store))
    rows = [line.split() for line in shown.splitlines()[1:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("r2", "PENDING", "other"),
        ("r1", "FAILED", "nightly"),
    ]
    told = json.loads(podium("runs", "list", "--status", "FAILED", "--json", "--store", str(store)))
    assert [(run["runId"], run["status"], run["metadata"]) for run in told["runs"]] == [("r1", "FAILED", {})]
    first = json.loads(podium("runs", "list", "--limit", "1", "--json", "--store", str(store)))
    rest = json.loads(
        podium("runs", "list", "--limit", "1", "--cursor", first["cursor"], "--json", "--store", str(store))
    )
    assert [page["runs"][0]["runId"] for page in (first, rest)] == ["r2", "r1"]
    assert rest["cursor"] is None


def test_a_run_is_shown_with_its_steps_and_why_it_failed(store: Path) -> None:
    shown = podium("runs", "show", "r1", "--store", str(store))
    assert "r1  FAILED  nightly 1.0.0" in shown
    assert "steps    2: 1 succeeded, 1 failed" in shown
    assert "failed   EXIT_1: exit 1 \\x1b[31m" in shown
    assert "\x1b" not in shown
    told = json.loads(podium("runs", "show", "r1", "--json", "--store", str(store)))
    assert (told["summary"]["status"], told["summary"]["failedSteps"]) == ("FAILED", 1)
    assert [step["stepId"] for step in told["steps"]] == ["build", "test"]


def test_the_events_of_a_run_are_printed(store: Path) -> None:
    lines = podium("events", "r1", "--store", str(store)).splitlines()
    assert [line.split()[2] for line in lines] == [
        "RunQueued",
        "RunStarted",
        "StepCompleted",
        "StepFailed",
        "RunFailed",
    ]
    objects = [
        json.loads(line) for line in podium("events", "r1", "--json", "--store", str(store)).splitlines()
    ]
    assert [one["runSeq"] for one in objects] == [1, 2, 3, 4, 5]
    assert objects[2]["payload"] == {"exitCode": 0}
    assert podium("events", "r1", "--after", "4", "--store", str(store)).split()[0] == "5"


def test_events_are_followed_from_another_process_until_the_run_ends(tmp_path: Path) -> None:
    path = tmp_path / "podium.db"

    async def scenario() -> None:
        store = await open_store(str(path), create=True)
        lease = await started(store, "r1")
        following = await asyncio.create_subprocess_exec(
            *PODIUM,
            "events",
            "r1",
            "--follow",
            "--json",
            "--store",
            str(path),
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        for expected in (1, 2):
            assert json.loads(await following.stdout.readline())["runSeq"] == expected
        for number in range(3, 8):
            await store.append(RunId("r1"), [event("r1", "StepStarted", f"s{number}")], fence=lease.fence)
            assert json.loads(await following.stdout.readline())["runSeq"] == number
        await store.append(RunId("r1"), [event("r1", "RunCompleted")], fence=lease.fence)
        assert json.loads(await following.stdout.readline())["eventType"] == "RunCompleted"
        assert await following.wait() == 0
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_following_a_run_that_has_ended_ends(store: Path) -> None:
    assert len(podium("events", "r1", "--follow", "--store", str(store)).splitlines()) == 5
    assert podium("events", "r1", "--follow", "--after", "5", "--store", str(store)) == ""


def test_a_run_is_exported_and_imported_elsewhere(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.db"
    podium("export", "r1", "-o", str(tmp_path / "r1.jsonl"), "--store", str(store))
    assert podium("import", str(tmp_path / "r1.jsonl"), "--store", str(target)) == "r1: imported, 5 events\n"
    again = podium("import", "-", "--store", str(target), input=podium("export", "r1", "--store", str(store)))
    assert again == "r1: was there already, 5 events\n"
    assert (
        podium("runs", "show", "r1", "--store", str(target)).splitlines()[1:]
        == (podium("runs", "show", "r1", "--store", str(store)).splitlines()[1:])
    )
    (tmp_path / "cut.jsonl").write_text((tmp_path / "r1.jsonl").read_text()[:-50])
    assert podium("import", str(tmp_path / "cut.jsonl"), "--store", str(target), code=65).startswith(
        "INVALID_EXPORT"
    )


def test_a_store_is_looked_after(store: Path, tmp_path: Path) -> None:
    assert podium("store", "check", "--store", str(store)) == "the store is sound\n"
    stats = json.loads(podium("store", "stats", "--json", "--store", str(store)))
    assert (stats["runs"], stats["open_runs"], stats["events"]) == (2, 1, 6)
    copy = tmp_path / "copy.db"
    podium("store", "backup", str(copy), "--store", str(store))
    assert podium("runs", "list", "--store", str(copy)) == podium("runs", "list", "--store", str(store))
    assert "exists" in podium("store", "backup", str(copy), "--store", str(store), code=64)
    assert podium("store", "vacuum", "--store", str(store)) == "done\n"
    assert podium("store", "migrate", "--store", str(tmp_path / "new.db")).startswith(
        "the store is at schema version"
    )


def test_ended_runs_are_pruned_when_asked(store: Path) -> None:
    assert podium("prune", "--older-than", "0m", "--dry-run", "--store", str(store)) == (
        "r1: would be removed\n1 runs\n"
    )
    assert podium("prune", "--older-than", "1d", "--store", str(store)) == "0 runs\n"
    assert podium("prune", "--older-than", "0m", "--store", str(store)) == "r1: removed\n1 runs\n"
    assert "is not an age" in podium("prune", "--older-than", "soon", "--store", str(store), code=64)


def test_the_outbox_is_listed_and_decided_about(store: Path) -> None:
    async def kill_one(opened: Store) -> None:
        from datetime import timedelta

        await opened.add_bus("kafka", from_start=True)
        claim = await opened.claim_line("kafka", owner="relay", ttl=timedelta(seconds=0))
        assert claim is not None
        await opened.failed(claim, "refused", retry_in=None)

    in_store(store, kill_one)
    told = json.loads(podium("outbox", "list", "--json", "--store", str(store)))
    (dead,) = told["dead"]
    assert (dead["bus"], dead["runSeq"], dead["error"]) == ("kafka", 1, "refused")
    shown = podium("outbox", "list", "--store", str(store))
    assert "dead letters:" in shown
    where = ("kafka", dead["runId"], "1", "--store", str(store))
    assert podium("outbox", "retry", *where) == "it will be delivered again\n"
    assert "no such dead letter" in podium("outbox", "drop", *where, code=64)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["runs", "show", "missing"], 64, "RUN_NOT_FOUND: run 'missing' not found"),
        (["events", "r1", "--tenant", "acme"], 64, "RUN_NOT_FOUND: run 'r1' not found"),
        (["export", "r1", "--tenant", "acme"], 64, "RUN_NOT_FOUND"),
    ],
)
def test_a_run_that_is_not_there_is_told(store: Path, arguments: list[str], code: int, told: str) -> None:
    assert told in podium(*arguments, "--store", str(store), code=code)


@pytest.mark.rule("G49")
def test_a_run_belongs_to_the_default_tenant_project_and_environment(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text('version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n')
    podium("run", str(tmp_path / "w.yaml"), "--run-id", "r-tenant", "--runs", str(tmp_path))
    store = ("--store", str(tmp_path / "podium.db"))
    (first, *_) = podium("events", "r-tenant", "--json", "--tenant", "default", *store).splitlines()
    event = json.loads(first)
    assert (event["tenantId"], event["projectId"], event["environmentId"]) == ("default", "default", "local")


def test_a_store_that_is_not_there_or_none_is_told(tmp_path: Path) -> None:
    assert "UNKNOWN_STORE: no store at" in podium("runs", "list", "--store", str(tmp_path / "no.db"), code=64)
    assert "UNKNOWN_STORE" in podium("runs", "list", "--store", "mysql://x", code=64)
    text = tmp_path / "text.db"
    text.write_text("this is no database " * 100)
    assert "STORE_VERSION" in podium("runs", "list", "--store", str(text), code=78)
    assert text.read_text().startswith("this is no database")


@pytest.mark.rule("G49")
def test_the_store_comes_from_the_environment_or_the_folder(store: Path, tmp_path: Path) -> None:
    named = podium("runs", "list", env={**os.environ, "PODIUM_STORE": str(store)})
    folder = tmp_path / "here"
    (folder / "runs").mkdir(parents=True)
    store.rename(folder / "runs" / "podium.db")
    without = {name: value for name, value in os.environ.items() if name != "PODIUM_STORE"}
    assert podium("runs", "list", cwd=folder, env=without) == named
