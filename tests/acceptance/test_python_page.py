"""Every example of docs/python.md works as written, and its Python also inside a running event loop."""

import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.pages import ROOT, Section, Shown, sections

EXAMPLES = sections(ROOT / "docs" / "python.md")
# Without those for which commands prepare something first.
PROGRAMS = [
    (example, name)
    for example in EXAMPLES
    for name in example.files
    if f"python {name}" in example.script and "export " not in example.script
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_works_as_written(example: Section, tmp_path: Path) -> None:
    shown = example.run(tmp_path)

    assert shown.exit_code == 0, shown.text
    assert shown.missing(example.expected) == [], shown.text


@pytest.mark.parametrize(("example", "name"), PROGRAMS, ids=[name for _, name in PROGRAMS])
def test_an_example_works_inside_a_running_event_loop(example: Section, name: str, tmp_path: Path) -> None:
    example.write(tmp_path)
    # As in a notebook: where a program starts a loop, a cell awaits.
    body = example.files[name].replace("asyncio.run(main())", "await main()")
    (tmp_path / name).write_text(
        f"import asyncio\n\n\nasync def cell():\n{indent(body, '    ')}\n\nasyncio.run(cell())\n"
    )
    runs = example.script.count(f"python {name}\n")
    done = [
        subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
        for _ in range(runs)
    ]

    assert [one.stderr for one in done] == [""] * runs
    shown = Shown(0, "".join(one.stdout for one in done))
    assert shown.missing(example.expected[: shown.text.count("\n")]) == [], shown.text


def test_every_section_with_a_program_shows_its_result() -> None:
    assert len(EXAMPLES) >= 9
    assert [one.title for one in EXAMPLES if not (one.files and one.script and one.expected)] == []
