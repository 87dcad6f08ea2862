"""A file that is read, that no step writes and that is not in the workspace, is warned about."""

from pathlib import Path

import pytest

from podium.operations.workflows import load_workflow


def warned(tmp_path: Path, steps: str) -> list[str]:
    text = f'version: "2.0"\nname: w\nsteps:\n{steps}'
    reading = load_workflow(text.encode(), str(tmp_path / "w.yaml"), workspace=tmp_path)
    assert reading.plan is not None
    return [
        f"{found.line}:{found.column} {found.code} {found.message} {found.hint}"
        for found in reading.diagnostics
    ]


READ = "  - {name: B, command: [cat], input_file: report.md}\n"


def test_it_is_named_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    [found] = warned(tmp_path, READ)
    assert found.startswith(
        "4:43 E218 no step writes 'report.md', and it is not in the workspace. Write it with"
    )


def test_a_name_that_a_step_writes_is_suggested(tmp_path: Path) -> None:
    [found] = warned(tmp_path, "  - {name: A, command: [a], output_file: reports.md}\n" + READ)
    assert found.endswith("Did you mean 'reports.md'?")


@pytest.mark.parametrize(
    "writer",
    [
        "output_file: report.md",
        "output_file: ./report.md",
        "expect: {files: [report.md]}",
        "output_file: '${run.name}.md'",
    ],
)
def test_what_a_step_writes_is_not_warned_about(tmp_path: Path, writer: str) -> None:
    assert warned(tmp_path, f"  - {{name: A, command: [a], {writer}}}\n" + READ) == []


def test_what_is_in_the_workspace_is_not_warned_about(tmp_path: Path) -> None:
    (tmp_path / "report.md").touch()
    (tmp_path / "folder").mkdir()
    assert warned(tmp_path, READ + "  - {name: C, command: [cat], input_file: folder/}\n") == []


def test_each_of_several_files_is_looked_at_and_names_with_references_are_not(tmp_path: Path) -> None:
    steps = "  - {name: A, provider: echo, prompt: x, input_files: [one.md, '${run.id}.md', two.md]}\n"
    assert [found.split()[0] for found in warned(tmp_path, steps)] == ["4:56", "4:80"]


def test_what_a_called_workflow_writes_counts(tmp_path: Path) -> None:
    inner = 'version: "2.0"\nname: i\nsteps: [{name: A, command: [a], output_file: report.md}]\n'
    (tmp_path / "inner.yaml").write_text(inner)
    assert warned(tmp_path, "  - {name: A, call: inner.yaml}\n" + READ) == []
