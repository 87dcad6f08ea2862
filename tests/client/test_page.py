"""Every example of docs/client.md works as written, against a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.client import Client
from tests.client.test_server import Server
from tests.pages import ROOT, Section, sections

PAGE = ROOT / "docs" / "client.md"
EXAMPLES = sections(PAGE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("up"))
    yield running
    running.stop()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_works_as_written(
    example: Section, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODIUM_SERVER", server.url)
    monkeypatch.setenv("PODIUM_TOKEN", server.token)
    shown = example.run(tmp_path)

    assert shown.exit_code == 0, shown.text
    assert shown.missing(example.expected) == [], shown.text


def test_every_section_with_a_program_shows_its_result() -> None:
    assert len(EXAMPLES) == 3
    assert [one.title for one in EXAMPLES if not (one.files and one.script and one.expected)] == []


def test_the_page_lists_every_method() -> None:
    text = PAGE.read_text().partition("## Methods")[2]
    methods = [name for name in vars(Client) if not name.startswith("_") and name != "close"]
    assert [name for name in methods if f"`{name}`" not in text] == []
