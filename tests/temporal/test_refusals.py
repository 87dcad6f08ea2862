"""What cannot work is refused before a run is created, with what is wrong and what to do about it."""

import socket
from pathlib import Path

import pytest

from tests.temporal.site import Site

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'


def _refused(site: Site, *more: str, code: int, workflow: str = WORKFLOW) -> str:
    """Standard error of `podium run`, which left no run behind."""
    file = site.workspace / "w.yaml"
    file.write_text(workflow)
    done = site.podium("run", str(file), "--run-id", "r", *site.options, *more, code=code)
    assert "Traceback" not in done.stderr
    listed = site.podium("runs", "list", "--store", site.store, "--runs", str(site.runs))
    assert "r " not in listed.stdout
    assert not (site.runs / "r").exists()
    return done.stderr


def _unused_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.rule("EN16")
def test_a_server_that_does_not_answer(site: Site) -> None:
    address = _unused_address()
    said = _refused(site, "--address", address, code=69)
    assert said.startswith("ENGINE_UNAVAILABLE")
    assert address in said
    assert "--address" in said


@pytest.mark.rule("EN16")
def test_an_address_that_is_none(site: Site) -> None:
    assert _refused(site, "--address", "not an address", code=69).startswith("ENGINE_UNAVAILABLE")


@pytest.mark.rule("EN16")
def test_a_server_without_tls_that_is_asked_with_it(site: Site) -> None:
    said = _refused(site, "--tls", code=69)
    assert said.startswith("ENGINE_UNAVAILABLE")
    assert "--tls" in said


@pytest.mark.rule("EN16")
def test_a_certificate_that_cannot_be_used(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("not a certificate")
    said = _refused(site, "--tls-ca", str(broken), code=69)
    assert said.startswith("ENGINE_UNAVAILABLE")
    missing = _refused(site, "--tls-ca", str(tmp_path / "missing.pem"), code=78)
    assert missing.startswith("CONFIG_INVALID")
    assert "missing.pem" in missing


@pytest.mark.rule("EN16")
def test_an_api_key_that_cannot_be_read(site: Site, tmp_path: Path) -> None:
    said = _refused(site, "--api-key-file", str(tmp_path / "missing"), code=78)
    assert said.startswith("CONFIG_INVALID")
    assert "--api-key-file" in said


@pytest.mark.rule("EN16")
def test_an_api_key_is_never_printed(site: Site, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret-key-of-mine\n")
    assert "s3cret" not in _refused(site, "--api-key-file", str(key), code=69)


@pytest.mark.rule("EN16")
def test_an_unknown_namespace(site: Site) -> None:
    said = _refused(site, "--namespace", "nowhere", code=78)
    assert said.startswith("ENGINE_REFUSED")
    assert "'nowhere'" in said
    assert "--namespace" in said


@pytest.mark.rule("EN16")
def test_a_queue_without_a_worker(site: Site) -> None:
    said = _refused(site, code=69)
    assert said.startswith("NO_WORKER")
    assert f"podium worker --engine temporal --address {site.server.address}" in said


@pytest.mark.rule("EN16")
def test_a_worker_of_another_store_is_none(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    other = str(tmp_path / "other.db")
    said = _refused(site, "--store", other, code=69)
    assert said.startswith("NO_WORKER")


@pytest.mark.rule("EN16")
def test_an_execution_id_that_is_in_use(site: Site) -> None:
    site.start_worker()
    site.server.command(
        *("workflow", "start", "--type", "Something", "--task-queue", "elsewhere"),
        *("--workflow-id", "podium-r", "--namespace", site.namespace),
    )
    said = _refused(site, code=64)
    assert said.startswith("EXECUTION_EXISTS")
    assert "podium-r" in said


@pytest.mark.parametrize(
    "words", [("worker", "--engine", "airflow"), ("run", "w.yaml", "--engine", "airflow")]
)
def test_an_engine_that_does_not_exist(site: Site, words: tuple[str, ...]) -> None:
    done = site.podium(*words, code=64)
    assert "--engine" in done.stderr


@pytest.mark.rule("EN16")
def test_a_worker_without_a_server_says_so(site: Site) -> None:
    done = site.podium(
        *("worker", "--engine", "temporal", "--address", _unused_address(), "--store", site.store), code=69
    )
    assert done.stderr.startswith("ENGINE_UNAVAILABLE")


@pytest.mark.rule("G20")
def test_a_workflow_that_the_engine_cannot_run(site: Site) -> None:
    site.start_worker()
    wide = WORKFLOW.replace("name: w\n", "name: w\nmax_parallel: 1001\n")
    said = _refused(site, code=78, workflow=wide)
    assert said.startswith("CAPABILITY_NOT_SUPPORTED")
    assert "`max_parallel: 1000` or less" in said


def test_a_workflow_that_does_with_less_runs_and_its_report_is_recorded_first(site: Site) -> None:
    site.start_worker()
    wide = WORKFLOW.replace("name: w\n", "name: w\nmax_parallel: 1001\nfallback_behavior: degrade\n")
    assert site.begin(wide, "r").wait() == 0
    assert site.events_of("r")[:3] == ["RunQueued", "RunValidationReport", "RunStarted"]
