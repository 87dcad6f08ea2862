"""The prompt that an agent gets: what was written, then the inputs in their order. `echo` answers with its prompt."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.tasks.engine import Ended, run


def ask(tmp_path: Path, **step: Any) -> Ended:
    return run(
        tmp_path, {"name": "A", "provider": "echo", "prompt": "Say it.", **step}, context={"word": "hi"}
    )


def workspace(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "workspace"
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.mark.rule("D51", "D54", "R093")
def test_inputs_follow_the_prompt_in_the_order_listed_each_under_its_name(tmp_path: Path) -> None:
    workspace(tmp_path, second="two", first="one")
    ended = ask(tmp_path, prompt="Say ${context.word}.", input_files=["second", "first"])
    assert ended.step("A")["output"] == "Say hi.\n\n## second\ntwo\n\n## first\none"
    assert ended.log("A.1.prompt").decode() == ended.step("A")["output"]


@pytest.mark.rule("D51", "R093")
def test_what_an_input_file_holds_is_never_a_template(tmp_path: Path) -> None:
    workspace(tmp_path, notes="${context.word} $${x}")
    assert (
        ask(tmp_path, input_file="notes").step("A")["output"] == "Say it.\n\n## notes\n${context.word} $${x}"
    )


@pytest.mark.rule("D51")
def test_a_long_input_is_cut_where_it_can_be_seen(tmp_path: Path) -> None:
    workspace(tmp_path, long="x" * 300_000)
    ask(tmp_path, input_file="long")
    prompt = next(tmp_path.glob("runs/*/logs/steps/A.1.prompt")).read_text()
    assert prompt == f"Say it.\n\n## long\n{'x' * 256 * 1024}\n[... cut here]"


@pytest.mark.rule("R016")
@pytest.mark.rule("D38", "D54")
def test_an_input_is_looked_for_among_the_artifacts_first(tmp_path: Path) -> None:
    workspace(tmp_path, notes="of the workspace")
    write = {"name": "W", "command": ["echo", "of an earlier step"], "output_file": "notes"}
    ended = run(
        tmp_path, write, {"name": "A", "provider": "echo", "prompt": "Say it.", "input_file": "notes"}
    )
    assert ended.step("A")["output"] == "Say it.\n\n## notes\nof an earlier step\n"


@pytest.mark.rule("D54")
@pytest.mark.parametrize(
    ("inject", "told"),
    [({}, "a.md\nsub/b.md"), ({"inject": "content"}, "### a.md\none\n\n### sub/b.md\ntwo")],
    ids=["listing", "content"],
)
def test_a_folder_is_listed_unless_its_content_is_asked_for(
    tmp_path: Path, inject: dict[str, str], told: str
) -> None:
    folder = workspace(tmp_path, docs__sub__b="", docs__a="")
    for old, new, content in (("docs/sub/b", "docs/sub/b.md", "two"), ("docs/a", "docs/a.md", "one")):
        (folder / old).rename(folder / new)
        (folder / new).write_text(content)
    assert ask(tmp_path, input_file="docs", **inject).step("A")["output"] == f"Say it.\n\n## docs\n{told}"


@pytest.mark.rule("D54", "D17")
def test_without_its_input_nobody_is_asked(tmp_path: Path) -> None:
    ended = ask(tmp_path, input_file="nowhere")
    assert ended.error("A") == (
        125,
        "EXPECTATION_FAILED",
        "input file 'nowhere' not found, neither among the artifacts nor in the workspace",
    )
    assert not list(ended.directory.glob("logs/steps/A.1.prompt"))
