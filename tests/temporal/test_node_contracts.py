"""A node contract has the same history on Temporal as on the local engine: its steps are performed by the worker."""

from pathlib import Path

import pytest

from podium.testing.engine_promises import compare, scenarios
from podium.testing.engine_promises.scenarios import CONTRACTS
from tests.engines.registration import local_registration_history, registration_history
from tests.temporal.site import Site


@pytest.mark.rule("RO08")
def test_contracts_have_the_history_that_they_have_on_the_local_engine(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    for name in CONTRACTS:
        (tmp_path / name).mkdir()
        compare(scenarios("")[name], site, tmp_path / name)


@pytest.mark.rule("RO08")
def test_the_contract_of_the_registration_has_the_history_that_it_has_on_the_local_engine(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for secret in ("PODIUM_CONSUL", "PODIUM_REGISTRATION_DB"):
        monkeypatch.setenv(secret, "memory:")
        site.environment[secret] = "memory:"
    site.start_worker()
    found = registration_history(site, tmp_path)
    assert [one[1] for one in found["run"]][-1] == "RunCompleted"
    assert found == local_registration_history(tmp_path)
