"""Runs on a Conductor server that demands a token, also over HTTPS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.conductor import ConductorServer
from tests.conductor.by_hand import ByHand
from tests.conductor.guarded_server import GuardedServer, guard, make_certificate
from tests.conductor.site import Site

TOKEN = "s3cret-token-of-mine"
WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}, {name: Q, approval: {message: "Sure?"}}]\n'


@pytest.fixture(params=["http", "https"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, shared_conductor: ConductorServer
) -> Iterator[GuardedServer]:
    certificate = tmp_path / "server.pem" if request.param == "https" else None
    if certificate is not None:
        make_certificate(certificate)
    with guard(shared_conductor.address, TOKEN, certificate) as guarded:
        yield guarded


@pytest.fixture
def site(tmp_path: Path, server: GuardedServer) -> Iterator[Site]:
    site = Site(tmp_path / "site", ConductorServer(server.address, None))
    # Programs trust the server as they trust others of the network.
    site.environment["SSL_CERT_FILE"] = str(tmp_path / "server.pem")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    yield site
    site.close()


@pytest.mark.rule("CN02")
def test_a_run_whose_server_demands_a_token(
    site: Site, server: GuardedServer, shared_conductor: ConductorServer, tmp_path: Path
) -> None:
    """By `--token-file`, and by the environment for commands that know the server from the run."""
    given = ("--token-file", str(tmp_path / "token"))
    site.start_worker("--slots", "0", *given)
    site.start_worker("--steps-only", *given)
    client = site.begin(WORKFLOW, "r", *given)
    site.wait_for("r", "StepStarted Q")
    site.environment["PODIUM_CONDUCTOR_TOKEN"] = TOKEN
    places = ("--store", site.store, "--runs", str(site.runs))
    assert "cannot be asked" not in site.podium("why", "r", *places).stdout
    site.send("r", "APPROVE", stepId="Q")
    assert client.wait() == 0, client.output
    site.server = shared_conductor  # a person has other ways
    ByHand(site).wait_for_status("r", "COMPLETED")
    assert "r: removed" in site.podium("prune", "--older-than", "0m", *places).stdout
    assert ByHand(site).executions_of("r") == []
    assert server.passed > 10
    assert server.refused == 0
    _is_nowhere(site)


def _is_nowhere(site: Site) -> None:
    """The token is in no log and no file of the site, the store included."""
    kept = [file for file in site.folder.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]
    assert kept == []


@pytest.mark.rule("CN02", "EN16")
def test_a_wrong_token_or_none_is_refused_and_nothing_is_created(
    site: Site, server: GuardedServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("another-s3cret")
    (site.workspace / "w.yaml").write_text(WORKFLOW)
    for given, said in (("--token-file", str(tmp_path / "token")), "this token"), ((), "without a token"):
        for words in ("run", str(site.workspace / "w.yaml"), "--run-id", "r"), ("worker",):
            refused = site.podium(*words, *site.options, *given, code=78)
            assert refused.stderr.startswith("ENGINE_REFUSED")
            assert said in refused.stderr
            assert server.address in refused.stderr
            assert "another-s3cret" not in refused.stderr
    assert "r " not in site.podium("runs", "list", "--store", site.store).stdout
    assert server.refused > 0


@pytest.mark.rule("CN02", "EN16")
@pytest.mark.parametrize("server", ["https"], indirect=True)
def test_a_certificate_that_is_not_trusted_is_refused(site: Site, server: GuardedServer) -> None:
    del site.environment["SSL_CERT_FILE"]
    (site.workspace / "w.yaml").write_text(WORKFLOW)
    refused = site.podium("run", str(site.workspace / "w.yaml"), *site.options, code=69)
    assert refused.stderr.startswith("ENGINE_UNAVAILABLE")
    assert "certificate" in refused.stderr.lower()
    assert server.passed + server.refused == 0
