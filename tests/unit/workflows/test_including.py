"""`- include: FILE`: the steps of another file, put into the list when it is read."""

from pathlib import Path

from podium.language.files import FoundFile
from podium.language.workflow import read_workflow
from podium.operations.workflows import load_workflow
from podium.plan.loading import plan_bytes
from podium.plan.plan import MAX_NESTING
from tests.unit.workflows.reading import errors, plan, reading, workflow

LINT = "- {name: Lint, command: [lint]}\n"
FLOW = """
steps:
  - {name: A, command: [a]}
  - include: lint.yaml
  - {name: B, when: {step_ok: Lint}, command: [b]}
"""


def names(text: str, **files: str) -> list[str]:
    found = workflow(text, files={f"{name}.yaml": content for name, content in files.items()})
    return [step.step_id for step in found.block.steps]


def test_the_steps_take_the_place_of_the_entry() -> None:
    assert names(FLOW, lint=LINT) == ["A", "Lint", "B"]


def test_the_plan_is_that_of_one_file() -> None:
    whole = FLOW.replace("- include: lint.yaml", LINT.strip())
    assert plan_bytes(plan(FLOW, files={"lint.yaml": LINT})) == plan_bytes(plan(whole))


def test_every_list_of_steps_may_include_and_included_files_may_include_others() -> None:
    text = """
        steps:
          - include: a.yaml
          - name: Loop
            for_each: {items: [1], steps: [{include: b.yaml}]}
          - name: Branches
            parallel: [{include: c.yaml}, {name: P, command: [p]}]
        finally: [{include: d.yaml}]
    """
    step = "- {name: %s, command: [x]}\n"
    files = {"a.yaml": "- include: e.yaml\n", **{f"{name}.yaml": step % name.upper() for name in "bcde"}}
    found = workflow(text, files=files)
    assert [one.step_id for one in found.block.steps] == ["E", "Loop", "Branches"]
    assert found.cleanup is not None
    assert [one.step_id for one in found.cleanup.steps] == ["D"]


def test_problems_have_the_name_and_the_lines_of_the_file_they_are_in() -> None:
    files = {"lint.yaml": "# first\n- name: Lint\n  command: [lint, '${context.nothing}']\n  timeout: soon\n"}
    found = reading(FLOW + "  - {name: C}\n", files=files)
    assert [(one.file, one.line, one.column, str(one.code)) for one in found.diagnostics] == [
        ("w.yaml", 7, 12, "E406"),
        ("lint.yaml", 3, 20, "E208"),
        ("lint.yaml", 4, 12, "E301"),
    ]
    assert found.diagnostics[1].excerpt == "  command: [lint, '${context.nothing}']"


def test_steps_have_their_line_in_their_own_file() -> None:
    places = reading(FLOW, files={"lint.yaml": "\n\n" + LINT}).places
    assert (places["A"].line, places["Lint"].line, places["B"].line) == (4, 3, 6)


def test_paths_start_at_the_file_they_are_written_in(tmp_path: Path) -> None:
    (tmp_path / "parts" / "prompts").mkdir(parents=True)
    (tmp_path / "parts" / "a.yaml").write_text("- include: prompts/b.yaml\n")
    (tmp_path / "parts" / "prompts" / "b.yaml").write_text(
        "- {name: A, provider: echo, prompt_file: ask.md}\n- {name: C, call: c.yaml}\n"
    )
    (tmp_path / "parts" / "prompts" / "ask.md").write_text("Why?")
    called = 'version: "2.0"\nname: C\noutputs: {x: "1"}\nsteps: [{name: X, command: [x]}]\n'
    (tmp_path / "parts" / "prompts" / "c.yaml").write_text(called)
    flow = 'version: "2.0"\nname: W\nsteps:\n- include: parts/a.yaml\n- {name: D, command: ["${steps.C.outputs.x}"]}\n'
    found = load_workflow(
        flow.encode(), str(tmp_path / "w.yaml"), workspace=tmp_path / "elsewhere", missing_is_error=True
    )
    assert found.diagnostics == ()


def test_what_is_missing_is_an_error_also_when_it_is_only_checked() -> None:
    assert errors(FLOW) == [("E214", 3)]


def test_a_file_that_includes_itself_is_refused() -> None:
    files = {"lint.yaml": "- {name: L, command: [x]}\n- {name: G, steps: [{include: lint.yaml}]}\n"}
    assert errors(FLOW, files=files) == [("E215", 2)]


class _Chain:
    """Files without end, each of which includes the next, several times."""

    def __init__(self, times: int, size: int = 0) -> None:
        self._times = times
        self._size = size

    def is_in_workspace(self, path: str) -> bool:
        return True

    def read(self, path: str, beside: str) -> FoundFile:
        entry = f"- include: '{int(path) + 1}'\n"
        return FoundFile(path, (entry * self._times + "#" * self._size).encode(), path)


def _first_problem(files: _Chain) -> tuple[str, str, str]:
    flow = b"version: '2.0'\nname: W\nsteps: [{include: '1'}]\n"
    (found, *_) = read_workflow(flow, "w.yaml", files=files).diagnostics
    return found.file, str(found.code), found.message


def test_files_are_included_at_most_32_deep() -> None:
    assert _first_problem(_Chain(1)) == (str(MAX_NESTING), "E411", "files are included more than 32 deep.")


def test_files_that_include_others_many_times_are_refused_by_their_size() -> None:
    assert _first_problem(_Chain(2, 100_000))[1:] in (
        ("E104", "the included files have more than 8 MiB together."),
        ("E411", "files are included more than 32 deep."),
    )
