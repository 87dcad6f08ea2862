"""The pages of the documentation refer to things that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "podium"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()
# Of files below `src/podium` the last part is enough: several pages name a module by its folder and file.
MODULES = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}


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


def test_the_files_that_contain_the_core_are_read_in_one_sitting() -> None:
    core = re.search(r"^Four files contain the core: .*?\.$", README, re.MULTILINE | re.DOTALL)
    files = re.findall(r"`(src/podium/[\w/]+\.py)`", core.group()) if core else []
    assert len(files) == 4
    lengths = {file: len((ROOT / file).read_text().splitlines()) for file in files}
    assert {file: lines for file, lines in lengths.items() if lines > 350} == {}


def test_the_readme_and_the_architecture_page_list_the_folders() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    order = re.search(r"one folder per subject(?:.*\n)+?\n((?:    .+\n)+)", README)
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert folders - set(re.findall(r"\w+", order.group(1) if order else "")) == set()
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == folders
