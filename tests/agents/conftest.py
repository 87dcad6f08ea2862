"""The real programs: without npm or node their tests are skipped by name on a laptop, and fail under CI=true."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from podium.providers.registry import find_provider
from services import agents
from tests.agents.asking import Desk
from tests.agents.box import Box
from tests.servers import need


@pytest.fixture(scope="session")
def box() -> Iterator[Box]:
    with Box() as box:
        yield box


@pytest.fixture(scope="session")
def words() -> Callable[[str], list[str]]:
    def find(name: str) -> list[str]:
        return need(lambda: agents.find(name))

    return find


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path, box: Box, words: Callable[[str], list[str]]) -> Desk:
    """Of the program that the test module names in `PROGRAM`, or the test as its parameter."""
    name = getattr(request, "param", None) or request.module.PROGRAM
    return Desk(tmp_path, box, find_provider(name), words(name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit is for the test: whoever comes first installs 800 MB, and the others wait for it."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(170, func_only=True))


def pytest_report_header() -> str:
    with Box() as box:
        where = (
            "a namespace with nothing but lo" if box.is_closed else "plain loopback: unshare is not permitted"
        )
    return f"agents run in {where}"
