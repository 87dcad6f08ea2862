"""The pages of the documentation refer to things that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Of files below `src/podium` the last part is enough: several pages name a module by its folder and file.
MODULES = {
    path.relative_to(ROOT / "src" / "podium").as_posix() for path in (ROOT / "src" / "podium").rglob("*.py")
}


def headings(text: str) -> set[str]:
    """The anchors of a page."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for file, heading in re.findall(r"\]\((?!https?:)([\w./-]*)(?:#([^)]*))?\)", page.read_text()):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not heading or heading in headings(target.read_text()), (file, heading)


@pytest.mark.parametrize("page", ["architecture", "machine", "concepts", "walkthrough"])
def test_the_modules_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    folders = {module.partition("/")[0] for module in MODULES}
    named = {
        name for name in re.findall(r"`([a-z_]+/[\w/]+\.py)`", text) if name.partition("/")[0] in folders
    }
    assert named - MODULES == set()
