"""The same workflow, at the same time, on the local engine, on Temporal and on Conductor."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.conductor import ConductorServer
from services.temporal import TemporalServer
from tests.conductor.site import Site as ConductorSite
from tests.engines.side_by_side import LocalSite, differences, page_part, run_at_the_same_time
from tests.engines.site import Site
from tests.engines_page import PAGE
from tests.temporal.site import Site as TemporalSite


@pytest.fixture
def sites(
    tmp_path: Path, shared_temporal: TemporalServer, shared_conductor: ConductorServer
) -> Iterator[dict[str, Site]]:
    sites: dict[str, Site] = {
        "local": LocalSite(tmp_path / "local"),
        "temporal": TemporalSite(tmp_path / "temporal", shared_temporal),
        "conductor": ConductorSite(tmp_path / "conductor", shared_conductor),
    }
    yield sites
    for site in sites.values():
        site.close()


@pytest.mark.rule("EN01", "CN13")
def test_one_workflow_has_the_same_history_on_all_engines_at_the_same_time(
    sites: dict[str, Site], tmp_path: Path
) -> None:
    for name in ("temporal", "conductor"):
        sites[name].start_worker()
    logs = run_at_the_same_time(sites)
    print(page_part(logs))
    assert differences(logs, tmp_path) == []
    assert page_part(logs) in PAGE.read_text(), "run `python -m tests.engines.side_by_side`"
