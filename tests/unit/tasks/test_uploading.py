"""What an attempt has left is in the bucket before its end is recorded: all of it, or nothing."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from podium.log.events import encode_payload
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.order import CancelToken, TaskResult, completed, failed
from podium.runtime.tasks.uploading import ResultUploads
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started
from tests.unit.runtime.folder_bucket import FolderBucket
from tests.unit.tasks.engine import run


class Setup:
    def __init__(self, folder: Path) -> None:
        self.bucket = FolderBucket(folder / "bucket")
        self.directory = RunDirectory(folder, "r1")
        self.directory.make()

    def leave(self, name: str, content: bytes) -> dict[str, Any]:
        """A file of a step, and what is recorded of it."""
        (self.directory.artifacts / name).write_bytes(content)
        return {"path": name, "sha256": sha256(content).hexdigest()}

    def upload(self, result: TaskResult, stopping: CancelToken | None = None) -> dict[str, Any]:
        """The payload as it is to be recorded."""

        async def scenario() -> dict[str, Any]:
            store = MemoryStore(VirtualClock())
            await started(store, "r1")
            uploads = ResultUploads(RunArtifacts(self.bucket, store, "r1", timedelta()), self.directory)
            return (await uploads.of(result, stopping or CancelToken())).payload

        return asyncio.run(scenario())

    def stored(self) -> set[bytes]:
        return {file.read_bytes() for file in self.bucket.folder.glob("*/*/??/*")}


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.mark.rule("OP13")
def test_a_file_is_recorded_with_its_uri_and_size(setup: Setup) -> None:
    payload = setup.upload(completed(artifacts=[setup.leave("report.txt", b"report")]))
    (kept,) = payload["artifacts"]
    assert kept["uri"].endswith(f"#{kept['sha256']}")
    assert (kept["path"], kept["sizeBytes"]) == ("report.txt", 6)
    assert setup.stored() == {b"report"}


def replaced(setup: Setup) -> None:
    (setup.directory.artifacts / "report.txt").write_bytes(b"of another step")


def linked_out(setup: Setup) -> None:
    secret = setup.directory.path / "secret"
    secret.write_bytes(b"not for the bucket")
    (setup.directory.artifacts / "report.txt").unlink()
    (setup.directory.artifacts / "report.txt").symlink_to(secret)


def removed(setup: Setup) -> None:
    (setup.directory.artifacts / "report.txt").unlink()


@pytest.mark.rule("OP13")
@pytest.mark.parametrize("change", [replaced, linked_out, removed])
def test_a_file_that_is_not_any_more_what_the_step_left_is_not_sent(
    setup: Setup, change: Callable[[Setup], None]
) -> None:
    fact = setup.leave("report.txt", b"report")
    change(setup)
    payload = setup.upload(completed(artifacts=[fact]))
    assert payload["artifacts"] == [fact]
    assert "changed by another process" in payload["warnings"][0]
    assert setup.stored() == set()


@pytest.mark.rule("OP15")
def test_of_several_files_no_uri_is_recorded_if_one_is_not_stored(setup: Setup) -> None:
    facts = [setup.leave("a", b"first"), setup.leave("b", b"second")]

    setup.bucket.succeeding, setup.bucket.failures = 1, 1_000
    payload = setup.upload(completed(artifacts=facts, output="done"))
    assert payload["error"]["code"] == "ARTIFACT_NOT_STORED"
    assert payload["artifacts"] == facts
    assert payload["output"] == "done"


@pytest.mark.rule("OP15")
def test_an_attempt_that_failed_keeps_its_own_reason(setup: Setup) -> None:
    setup.bucket.failures = 1_000
    payload = setup.upload(failed(3, "EXIT_CODE", "exit code 3", artifacts=[setup.leave("a", b"first")]))
    assert (payload["error"]["code"], payload["exitCode"]) == ("EXIT_CODE", 3)
    assert "did not store an artifact" in payload["warnings"][0]


def test_an_attempt_that_was_stopped_sends_nothing(setup: Setup) -> None:
    stopping = CancelToken()
    stopping.ask("CANCELLED", force=False)
    fact = setup.leave("a", b"first")
    assert setup.upload(completed(artifacts=[fact]), stopping)["artifacts"] == [fact]
    assert setup.bucket.puts == 0


def test_a_result_that_leaves_nothing_asks_the_bucket_nothing(setup: Setup) -> None:
    assert setup.upload(completed(output="small"))["output"] == "small"
    assert setup.bucket.puts == 0


@pytest.mark.rule("OP13", "OP15")
def test_a_value_that_is_too_large_for_an_event_is_stored_like_a_file(setup: Setup) -> None:
    lines = [f"line {number}" for number in range(40_000)]
    assert setup.upload(completed(lines=lines))["lines"] == lines
    assert setup.stored() == {encode_payload(lines)}
    setup.bucket.failures = 1_000
    payload = setup.upload(completed(lines=[*lines, "one more"]))
    assert payload["error"]["code"] == "ARTIFACT_NOT_STORED"


@pytest.mark.rule("OP13")
def test_what_a_function_of_this_process_returns_is_stored_too(tmp_path: Path) -> None:
    bucket = FolderBucket(tmp_path / "bucket")
    ended = run(
        tmp_path, {"name": "A", "python": "f"}, inline={"f": lambda: ["x" * 10] * 40_000}, bucket=bucket
    )
    assert ended.step("A")["json"]["$artifact"]["uri"].startswith("folder://bucket/")
