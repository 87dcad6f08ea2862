"""One site for a module of tests: making tokens and a store for each test would take longer than the tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.site import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PODIUM_STORE", "PODIUM_RUNS", "PODIUM_TOKEN"):
            patch.delenv(name, raising=False)
        (folder / "config.yaml").write_text("{}")
        patch.setenv("PODIUM_CONFIG", str(folder / "config.yaml"))
        patch.chdir(folder)
        made = Site(folder)
        yield made
        made.close()
