"""A worker of Temporal copies what steps leave to the bucket of the configuration file, as a driver does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import s3, temporal
from services.temporal import TemporalServer
from tests.servers import need

SECONDS = 100.0
PODIUM = str(Path(sys.executable).with_name("podium"))
WORKFLOW = """
version: "2.0"
name: files
steps:
  - {name: Make, command: [sh, -c, "printf report"], output_file: report.txt}
  - {name: Many, command: [python3, -c, "for i in range(100000): print(i, 'xxx')"], capture: lines}
  - {name: Last, command: [echo, "${steps.Many.lines[99999]}"]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    found = need(lambda: temporal.share(tmp_path_factory.getbasetemp().parent))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("podium-temporal")
        yield server


@pytest.mark.rule("OP13")
def test_the_log_of_a_run_of_temporal_has_the_addresses_of_what_its_steps_left(
    tmp_path: Path, server: TemporalServer, bucket: s3.S3Server
) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    (tmp_path / "config.yaml").write_text("artifacts: s3://podium-temporal/runs\n")
    environment = {
        **os.environ,
        "PODIUM_CONFIG": str(tmp_path / "config.yaml"),
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_ACCESS_KEY_ID": bucket.access_key_id,
        "AWS_SECRET_ACCESS_KEY": bucket.secret_access_key,
    }
    at = ("--engine", "temporal", "--address", server.address)
    worker = subprocess.Popen([PODIUM, "worker", *at], cwd=tmp_path, env=environment)

    def podium(*words: str) -> str:
        done = subprocess.run(
            [PODIUM, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        podium("run", "w.yaml", *at, "--run-id", "bucket-1")
        events = [json.loads(line) for line in podium("events", "bucket-1", "--json").splitlines()]
    finally:
        worker.terminate()
        worker.wait(SECONDS)
    payloads = {one["stepId"]: one["payload"] for one in events if one["eventType"] == "StepCompleted"}
    prefix = f"s3://podium-temporal/runs/bucket-1/{events[0]['eventId']}/"
    assert payloads["Make"]["artifacts"][0]["uri"].startswith(prefix)
    assert payloads["Many"]["lines"]["$artifact"]["uri"].startswith(prefix)
    assert payloads["Last"]["output"] == "99999 xxx\n"
