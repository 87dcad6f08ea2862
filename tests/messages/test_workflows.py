"""What is said about each workflow, to the letter."""

import json

import pytest

from podium.language.files import FoundFile
from podium.language.reader import MAX_BYTES
from podium.language.workflow import read_workflow
from podium.plan.plan import MAX_NESTING
from tests.messages.brought import BROUGHT
from tests.messages.test_contracts import CODES_OF_WORKFLOWS
from tests.messages.workflows import WORKFLOWS


@pytest.mark.parametrize("name", WORKFLOWS.broken())
def test_a_broken_workflow_is_refused_with_exactly_these_words(name: str) -> None:
    printed = WORKFLOWS.printed(name)

    assert printed.text == WORKFLOWS.expected(name)
    assert printed.exit_code == 65


@pytest.mark.parametrize("name", WORKFLOWS.warned())
def test_a_doubtful_workflow_is_accepted_with_exactly_these_words(name: str) -> None:
    printed = WORKFLOWS.printed(name)

    assert printed.text == WORKFLOWS.expected(name)
    assert printed.exit_code == 0


@pytest.mark.parametrize("name", WORKFLOWS.warned())
def test_strictness_turns_every_warning_into_an_error(name: str) -> None:
    printed = WORKFLOWS.printed(name, "--strict")

    warnings, _, _ = WORKFLOWS.expected(name).rpartition(f"{name}.yaml: valid")
    assert printed.text == warnings.replace(": warning E", ": E")
    assert printed.exit_code == 65


@pytest.mark.parametrize("name", WORKFLOWS.names())
def test_programs_are_told_the_same_problems_as_people(name: str) -> None:
    printed = WORKFLOWS.printed(name, "--json")

    (told,) = json.loads(printed.text)
    lines = WORKFLOWS.expected(name).splitlines()
    for problem in told["diagnostics"]:
        warning = "warning " if problem["severity"] == "warning" else ""
        place = f"{problem['file']}:{problem['line']}:{problem['column']}"
        lines.remove(f"{place}: {warning}{problem['code']} {problem['message']}")
        lines.remove(problem["hint"])
    ending = f"... and {told['omitted']} more problems." if told["omitted"] else ""
    rest = [line for line in lines if " | " not in line and line != ending]
    assert rest == ([lines[-1]] if told["valid"] else [])


def test_every_problem_has_a_hint_and_both_are_sentences() -> None:
    for name in WORKFLOWS.names():
        (told,) = json.loads(WORKFLOWS.printed(name, "--json").text)
        for problem in told["diagnostics"]:
            assert problem["message"].endswith("."), problem
            assert not problem["message"][0].isupper(), problem
            assert problem["hint"].endswith((".", "?")), problem
            assert problem["hint"][0].isupper() or problem["hint"][0] in "'`$", problem


def test_no_problem_is_told_twice() -> None:
    for name in WORKFLOWS.names():
        (told,) = json.loads(WORKFLOWS.printed(name, "--json").text)
        problems = [tuple(sorted(problem.items())) for problem in told["diagnostics"]]
        assert len(problems) == len(set(problems)), name


def test_files_that_call_each_other_too_deep_are_refused() -> None:
    reading = read_workflow(_Chain.content(0), "0.yaml", files=_Chain())

    assert [(found.file, found.code, found.message, found.hint) for found in reading.diagnostics] == [
        (
            f"{MAX_NESTING - 1}.yaml",
            "E411",
            "steps are nested more than 32 deep, calls included.",
            "Call workflows one after the other, or from further out.",
        )
    ]


class _Chain:
    """Files without end, each of which calls the next."""

    def is_in_workspace(self, path: str) -> bool:
        return True

    def read(self, path: str, beside: str) -> FoundFile:
        return FoundFile(path, self.content(int(path.removesuffix(".yaml"))), path)

    @staticmethod
    def content(number: int) -> bytes:
        return f"version: '2.0'\nname: Chain\nsteps: [{{name: Next, call: {number + 1}.yaml}}]\n".encode()


def test_a_prompt_that_is_too_large_to_be_one_is_refused() -> None:
    content = b"version: '2.0'\nname: Large\nsteps: [{name: Read, provider: echo, prompt_file: large.md}]\n"
    reading = read_workflow(content, "large.yaml", files=_Large())

    assert [(found.code, found.message) for found in reading.diagnostics] == [
        ("E104", "the file 'large.md' has more than 8 MiB.")
    ]


class _Large:
    def is_in_workspace(self, path: str) -> bool:
        return True

    def read(self, path: str, beside: str) -> FoundFile:
        return FoundFile(path, b"x" * (MAX_BYTES + 1), path)


def test_every_code_that_only_workflows_can_have_occurs_in_the_corpus() -> None:
    assert CODES_OF_WORKFLOWS - WORKFLOWS.all_codes() == set()


def test_thirty_mistakes_from_other_tools_have_a_file_each_and_its_first_problem_is_the_mistake() -> None:
    files = [name for name in WORKFLOWS.names() if name.startswith("from_")]
    assert files == sorted(f"from_{name}" for name in BROUGHT)
    assert len(files) == 30
    assert {name: len(WORKFLOWS.codes(name)) for name in files if len(WORKFLOWS.codes(name)) != 1} == {
        "from_with_items": 2  # the key, and the template that comes with it
    }


def test_the_corpus_has_many_kinds_of_broken_workflows() -> None:
    assert len(WORKFLOWS.broken()) >= 130
