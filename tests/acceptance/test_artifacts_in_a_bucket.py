"""`artifacts: s3://bucket/prefix`: what steps leave is in the bucket, and comes back from there on another machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.store import S3Store

from services import s3
from tests.acceptance.podium import Place, ended, until
from tests.servers import need

SECRET = "a-key-that-no-log-may-hold"
WORKFLOW = """
    steps:
      - {name: Make, command: [sh, -c, "printf report"], output_file: out/report.txt}
      - {name: Many, command: [python3, -c, "for i in range(100000): print(i, 'xxx')"], capture: lines}
      - {name: Go, command: [test, -e, go]}
      - {name: Use, command: [cat], input_file: out/report.txt, output_file: used.txt}
      - {name: Last, command: [echo, "${steps.Many.lines[99999]}"]}
    """


@pytest.fixture(scope="module")
def server() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("podium-acceptance")
        yield server


class Bucket:
    """A prefix of its own for each test."""

    def __init__(self, server: s3.S3Server, name: str = "podium-acceptance") -> None:
        self.server = server
        self.prefix = f"team/{uuid4().hex[:8]}"
        self.address = f"s3://{name}/{self.prefix}"
        self.environment = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": "podium-id",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            "PODIUM_ARTIFACT_OUTAGE": "1",
        }
        self._behind = S3Store(
            name,
            config={"endpoint": server.endpoint, "access_key_id": "id", "secret_access_key": "key"},
            client_options={"allow_http": True},
        )

    def place(self, folder: Path) -> Place:
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(f"artifacts: {self.address}\n")
        place = Place(folder)
        place.environment |= {**self.environment, "PODIUM_CONFIG": str(folder / "config.yaml")}
        return place

    def paths(self, below: str = "") -> list[str]:
        """Of artifacts, without the prefix that all have."""
        pages = obstore.list(self._behind, prefix=f"{self.prefix}/{below}".rstrip("/"))
        found = [one["path"].removeprefix(f"{self.prefix}/") for page in pages for one in page]
        return sorted(key for key in found if key != "podium-write-check")

    def content(self, uri: str) -> bytes:
        return bytes(obstore.get(self._behind, uri.removeprefix("s3://podium-acceptance/")).bytes())

    def remove(self, key: str) -> None:
        obstore.delete(self._behind, f"{self.prefix}/{key}")


@pytest.fixture
def bucket(server: s3.S3Server) -> Bucket:
    return Bucket(server)


@pytest.fixture
def place(bucket: Bucket, tmp_path: Path) -> Place:
    return bucket.place(tmp_path / "here")


def artifacts_of(place: Place, step: str, run_id: str | None = None) -> list[dict[str, Any]]:
    ends = [
        one for one in place.events(run_id) if one.get("stepId") == step and "artifacts" in one["payload"]
    ]
    found: list[dict[str, Any]] = ends[-1]["payload"]["artifacts"]
    return found


def elsewhere(bucket: Bucket, place: Place, folder: Path) -> Place:
    """Another machine: it has the store and the bucket, and no run directory."""
    other = bucket.place(folder)
    other.runs.mkdir()
    for name in place.runs.glob("podium.db*"):
        shutil.copy(name, other.runs)
    other.run_id = place.run_id
    (other.folder / "go").touch()
    return other


@pytest.mark.rule("OP13")
def test_what_steps_leave_is_in_the_bucket_below_the_prefix_of_the_run(bucket: Bucket, place: Place) -> None:
    place.write(WORKFLOW)
    (place.folder / "go").touch()
    place.run("run", "w.yaml", "--run-id", place.run_id)
    first = place.events()[0]["eventId"]
    (made,) = artifacts_of(place, "Make")
    assert made["path"] == "out/report.txt"
    assert made["sizeBytes"] == 6
    assert made["uri"].startswith(f"{bucket.address}/{place.run_id}/{first}/")
    assert bucket.content(made["uri"]) == b"report"
    lines = next(one for one in place.events() if one.get("stepId") == "Many" and "lines" in one["payload"])
    large = lines["payload"]["lines"]["$artifact"]
    assert large["uri"].startswith(f"{bucket.address}/{place.run_id}/{first}/")
    assert json.loads(bucket.content(large["uri"]))[99_999] == "99999 xxx"
    # The run's directory is as without a bucket.
    assert place.file("artifacts/out/report.txt").read_bytes() == b"report"
    assert place.file("artifacts/used.txt").read_bytes() == b"report"
    assert any(place.file("payloads").iterdir())
    # Two steps have left the same content: it is stored once.
    assert len(bucket.paths(place.run_id)) == 2


@pytest.mark.rule("OP14")
def test_a_run_resumed_where_only_the_store_and_the_bucket_are_gets_its_files(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    other = elsewhere(bucket, place, tmp_path / "there")
    done = other.run("resume", place.run_id, "--workspace", ".")
    assert other.file("artifacts/out/report.txt").read_bytes() == b"report"
    assert other.run("logs", place.run_id, "Last").stdout.splitlines()[-1] == "99999 xxx"
    assert not other.file(".files-missing").exists()
    assert "artifacts/out/report.txt" not in done.stderr


@pytest.mark.rule("OP14")
def test_a_directory_that_is_only_looked_at_gets_its_files_too(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    (place.folder / "go").touch()
    place.run("run", "w.yaml", "--run-id", place.run_id)
    other = elsewhere(bucket, place, tmp_path / "there")
    other.run("logs", place.run_id)
    assert other.file("artifacts/used.txt").read_bytes() == b"report"


@pytest.mark.rule("OP14", "OP16")
def test_files_that_the_bucket_could_not_give_at_first_are_fetched_by_the_driver(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    other = elsewhere(bucket, place, tmp_path / "there")
    other.run("logs", place.run_id, env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert not other.file("artifacts/out/report.txt").exists()
    refused = other.run(
        "resume", place.run_id, "--workspace", ".", env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, code=78
    )
    assert "ARTIFACT_BUCKET_UNREACHABLE" in refused.stderr
    other.run("resume", place.run_id, "--workspace", ".")
    assert other.file("artifacts/used.txt").read_bytes() == b"report"


@pytest.mark.rule("OP14")
def test_a_file_that_the_bucket_has_lost_is_named(bucket: Bucket, place: Place, tmp_path: Path) -> None:
    place.write(WORKFLOW)
    (place.folder / "go").touch()
    place.run("run", "w.yaml", "--run-id", place.run_id)
    for key in bucket.paths():
        bucket.remove(key)
    other = elsewhere(bucket, place, tmp_path / "there")
    assert "artifacts/out/report.txt" in other.run("logs", place.run_id).stderr


@pytest.mark.rule("OP14")
def test_a_rerun_elsewhere_has_the_files_and_a_copy_that_outlives_its_original(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    (place.folder / "go").touch()
    place.run("run", "w.yaml", "--run-id", place.run_id)
    other, again = elsewhere(bucket, place, tmp_path / "there"), f"{place.run_id}-again"
    (place.folder / "go").unlink()  # the workspace of the rerun, too
    other.run("rerun", place.run_id, "--from", "Go", "--run-id", again, code=1)
    assert other.file("artifacts/out/report.txt", again).read_bytes() == b"report"
    other.run("prune", "--older-than", "0m", "--status", "COMPLETED")
    assert bucket.paths(place.run_id) == []
    third = elsewhere(bucket, other, tmp_path / "third")
    third.run("resume", again, "--workspace", ".")
    assert third.file("artifacts/used.txt", again).read_bytes() == b"report"
    assert len(bucket.paths(again)) == 2


@pytest.mark.rule("OP13", "OP14")
def test_a_cached_step_takes_its_file_from_the_bucket(bucket: Bucket, place: Place, tmp_path: Path) -> None:
    workflow = """
        steps:
          - {name: Make, command: [sh, -c, "date +%N"], output_file: made.txt, cache: true}
        """
    place.write(workflow)
    place.run("run", "w.yaml", "--run-id", place.run_id)
    made = place.file("artifacts/made.txt").read_bytes()
    other = elsewhere(bucket, place, tmp_path / "there")
    other.write(workflow)
    other.run("run", "w.yaml", "--run-id", "second")
    assert other.file("artifacts/made.txt", "second").read_bytes() == made
    (taken,) = artifacts_of(other, "Make", "second")
    assert f"/{'second'}/" in taken["uri"]


@pytest.mark.rule("OP14")
def test_an_exported_run_continues_with_its_files_where_it_is_imported(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    place.run("export", place.run_id, "-o", "run.jsonl")
    other = bucket.place(tmp_path / "there")
    (other.folder / "go").touch()
    other.run("import", str(place.folder / "run.jsonl"))
    other.run("resume", place.run_id, "--workspace", ".")
    assert other.file("artifacts/used.txt", place.run_id).read_bytes() == b"report"
    other.run_id = place.run_id
    (first,) = artifacts_of(other, "Make")
    (later,) = artifacts_of(other, "Use")
    assert later["uri"] == first["uri"]


@pytest.mark.rule("OP14")
def test_an_artifact_is_found_by_its_uri_when_the_configuration_has_changed(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write(WORKFLOW)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    other = elsewhere(Bucket(bucket.server), place, tmp_path / "there")
    other.run("resume", place.run_id, "--workspace", ".")
    assert other.file("artifacts/used.txt").read_bytes() == b"report"


@pytest.mark.rule("OP13")
def test_what_functions_of_a_python_program_leave_is_in_the_bucket(bucket: Bucket, place: Place) -> None:
    place.write("""
        steps:
          - {name: Large, python: large}
          - {name: File, python: small, output_file: small.txt}
        """)
    program = """
        import podium
        functions = {"large": lambda: ["x" * 10] * 40_000, "small": lambda: "small"}
        assert podium.run("w.yaml", run_id="embedded", functions=functions).status == "completed"
        """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        cwd=place.folder,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = artifacts_of(place, "File", "embedded")
    assert bucket.content(file["uri"]) == b"small"
    assert len(bucket.paths("embedded")) == 2


# --- removing -------------------------------------------------------------------------------------


@pytest.mark.rule("OP17")
def test_prune_removes_the_prefix_of_the_run_and_no_other(bucket: Bucket, place: Place) -> None:
    place.write("steps: [{name: Make, command: [sh, -c, 'printf report'], output_file: report.txt}]")
    place.run("run", "w.yaml", "--run-id", "old")
    place.run("run", "w.yaml", "--run-id", "old-too")
    place.write("steps: [{name: Make, command: [sh, -c, 'printf x; exit 1'], output_file: report.txt}]")
    place.run("run", "w.yaml", "--run-id", "failed", code=1)
    place.run("prune", "--older-than", "0m", "--dry-run")
    assert len(bucket.paths()) == 3
    place.run("prune", "--older-than", "0m", "--status", "COMPLETED")
    assert [path.split("/")[0] for path in bucket.paths()] == ["failed"]
    assert not place.file("", "old").exists()


@pytest.mark.rule("OP18")
def test_expired_files_are_removed_from_the_bucket_and_their_run_is_kept(
    bucket: Bucket, place: Place
) -> None:
    place.write("steps: [{name: Make, command: [sh, -c, 'printf report'], output_file: report.txt}]")
    place.run("run", "w.yaml", "--run-id", "kept")
    with (place.folder / "config.yaml").open("a") as configuration:
        configuration.write("retention: {file: 0m}\n")
    place.run("run", "w.yaml", "--run-id", "r1")
    away = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    unreachable = place.run("prune", "--expired", env=away)
    assert "warning: r1: expired files are not removed; the next prune tries again" in unreachable.stderr
    assert len(bucket.paths()) == 2
    place.run("prune", "--expired")
    assert [path.split("/")[0] for path in bucket.paths()] == ["kept"]
    assert "COMPLETED" in place.run("runs", "show", "r1").stdout


@pytest.mark.rule("OP13", "OP17")
def test_a_reused_id_has_a_prefix_of_its_own(bucket: Bucket, place: Place, tmp_path: Path) -> None:
    workflow = "steps: [{name: Make, command: [sh, -c, 'printf report'], output_file: report.txt}]"
    other = bucket.place(tmp_path / "there")
    for one in (place, other):
        one.write(workflow)
        one.run("run", "w.yaml", "--run-id", "same")
    assert len(bucket.paths("same")) == 2
    place.run("prune", "--older-than", "0m")
    (kept,) = artifacts_of(other, "Make", "same")
    assert bucket.content(kept["uri"]) == b"report"


@pytest.mark.rule("OP17")
def test_what_prune_cannot_reach_is_removed_by_the_next_prune(
    bucket: Bucket, place: Place, tmp_path: Path
) -> None:
    place.write("steps: [{name: Make, command: [sh, -c, 'printf report'], output_file: report.txt}]")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    other = elsewhere(bucket, place, tmp_path / "there")
    away = other.run("prune", "--older-than", "0m", env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert "the next prune tries again" in away.stderr
    assert bucket.paths()
    other.run("prune", "--older-than", "0m")
    assert bucket.paths() == []
    assert not other.file("").exists()


# --- what is refused before a run starts ----------------------------------------------------------


@pytest.mark.rule("OP16")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("gs://bucket/prefix", "it does not start with s3://"),
        ("s3://", "the bucket must have 3-63"),
        ("s3://Big_Bucket/x", "the bucket must have 3-63"),
        ("s3://bucket//x", "between single slashes"),
        ("s3://bucket/a/../b", "between single slashes"),
        ("s3://bucket/a?b=c", "between single slashes"),
        (f"s3://id:{SECRET}@bucket/x", "it has credentials"),
        ("[s3://bucket]", "`artifacts` is not a text"),
        ("5", "`artifacts` is not a text"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, value: str, reason: str
) -> None:
    place = Place(tmp_path)
    (tmp_path / "config.yaml").write_text(f"permissions: private\nartifacts: {value}\n")
    place.write("steps: [{name: A, command: ['true']}]")
    refused = place.run("run", "w.yaml", env={"PODIUM_CONFIG": "config.yaml"}, code=78)
    assert "CONFIG_INVALID: config.yaml:2:1: `artifacts`" in refused.stderr
    assert reason in refused.stderr
    assert "write s3://BUCKET" in refused.stderr
    assert SECRET not in refused.stderr
    assert not place.runs.exists()


@pytest.mark.rule("OP16")
def test_a_bucket_that_does_not_exist_is_found_before_anything_is_created(
    server: s3.S3Server, tmp_path: Path
) -> None:
    place = Bucket(server, "podium-never-made").place(tmp_path / "here")
    place.write(WORKFLOW)
    refused = place.run("run", "w.yaml", code=78)
    assert "ARTIFACT_BUCKET_UNREACHABLE: artifacts in s3://podium-never-made/" in refused.stderr
    assert "NoSuchBucket" in refused.stderr
    assert SECRET not in refused.stderr
    assert not place.runs.exists()


@pytest.mark.rule("OP16")
def test_missing_credentials_are_named(bucket: Bucket, tmp_path: Path) -> None:
    place = bucket.place(tmp_path / "here")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del place.environment[name]
    place.write(WORKFLOW)
    refused = place.run("run", "w.yaml", code=78)
    assert "ARTIFACT_BUCKET_UNREACHABLE" in refused.stderr
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in refused.stderr


@pytest.mark.rule("OP16")
def test_a_missing_library_is_found_before_anything_is_created(bucket: Bucket, tmp_path: Path) -> None:
    place = bucket.place(tmp_path / "here")
    place.write(WORKFLOW)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "obstore.py").write_text("raise ImportError('not installed')\n")
    refused = place.run("run", "w.yaml", env={"PYTHONPATH": str(hidden)}, code=78)
    assert "EXTRA_MISSING" in refused.stderr
    assert "pip install 'podium[s3]'" in refused.stderr
    assert not place.runs.exists()


# --- a bucket that goes away while a run is under way ---------------------------------------------


@pytest.fixture
def own_server() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("podium-acceptance")
        yield server


HELD = """
    steps:
      - name: Wait
        command: [sh, -c, "touch started; until [ -e go ]; do sleep 0.05; done; printf report"]
        output_file: report.txt
      - {name: After, command: [touch, after]}
    """


@pytest.mark.rule("OP15")
def test_a_step_whose_file_the_bucket_does_not_take_fails_with_a_code_of_its_own(
    own_server: s3.S3Server, tmp_path: Path
) -> None:
    place = Bucket(own_server).place(tmp_path / "here")
    place.write(HELD)
    running = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(lambda: (place.folder / "started").exists())
    own_server.pause()
    (place.folder / "go").touch()
    code, out, err = ended(running, 60)
    assert code == 1, (out, err)
    (failed,) = [one for one in place.events() if one["eventType"] == "StepFailed"]
    assert failed["payload"]["error"]["code"] == "ARTIFACT_NOT_STORED"
    assert "PODIUM_ARTIFACT_OUTAGE" in failed["payload"]["error"]["message"]
    # Nothing is half recorded: no address of what is not there, and nothing that rests on it.
    assert all("uri" not in one for one in failed["payload"]["artifacts"])
    assert not any(one["eventType"] == "StepCompleted" for one in place.events())
    assert not (place.folder / "after").exists()
    assert SECRET not in out + err + json.dumps(place.events())


@pytest.mark.rule("OP15")
def test_a_bucket_that_comes_back_in_time_has_the_file(own_server: s3.S3Server, tmp_path: Path) -> None:
    bucket = Bucket(own_server)
    place = bucket.place(tmp_path / "here")
    place.write(HELD)
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, env={"PODIUM_ARTIFACT_OUTAGE": "3600"})
    until(lambda: (place.folder / "started").exists())
    own_server.pause()
    (place.folder / "go").touch()
    until(lambda: place.file("artifacts/report.txt").exists())
    own_server.resume()
    own_server.create_bucket("podium-acceptance")
    code, out, err = ended(running, 60)
    assert code == 0, (out, err)
    (kept,) = artifacts_of(place, "Wait")
    assert bucket.content(kept["uri"]) == b"report"


@pytest.mark.rule("OP15")
def test_a_run_is_cancelled_while_it_waits_for_the_bucket(own_server: s3.S3Server, tmp_path: Path) -> None:
    place = Bucket(own_server).place(tmp_path / "here")
    place.write(HELD)
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, env={"PODIUM_ARTIFACT_OUTAGE": "3600"})
    until(lambda: (place.folder / "started").exists())
    own_server.pause()
    (place.folder / "go").touch()
    until(lambda: place.file("artifacts/report.txt").exists())
    place.run("cancel", place.run_id)
    assert ended(running, 60)[0] != 0
    assert place.events()[-1]["eventType"] == "RunCancelled"


@pytest.mark.rule("OP16")
def test_no_file_of_a_run_holds_the_credentials_even_if_a_step_prints_them(place: Place) -> None:
    place.write("""
        steps:
          - {name: Make, command: [sh, -c, "printf report"], output_file: report.txt}
          - {name: Print, command: [env]}
        """)
    place.run("run", "w.yaml", "--run-id", place.run_id)
    assert "AWS_SECRET_ACCESS_KEY=" in place.run("logs", place.run_id, "Print").stdout
    for folder, _, names in os.walk(place.runs):
        for name in names:
            assert SECRET.encode() not in (Path(folder) / name).read_bytes(), name
