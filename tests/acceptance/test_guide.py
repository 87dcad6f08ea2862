"""Every example of the guide to the language does what the guide says."""

from pathlib import Path

import pytest

from tests.pages import ROOT, Section, sections

GUIDE = sections(ROOT / "docs" / "language.md")


@pytest.mark.parametrize("section", GUIDE, ids=lambda section: section.title)
def test_the_commands_of_a_section_show_what_the_guide_says(section: Section, tmp_path: Path) -> None:
    shown = section.run(tmp_path)

    assert shown.exit_code == 0, shown.text
    assert shown.missing(section.expected) == [], shown.text


def test_every_file_of_the_guide_is_used_by_a_command() -> None:
    for section in GUIDE:
        workflows = [name for name in section.files if name.endswith(".yaml")]
        unused = [
            name for name in workflows if name not in section.script and f" {name}" not in str(section.files)
        ]
        assert unused == [], section.title
