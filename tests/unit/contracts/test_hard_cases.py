"""Files that a simpler reader would get wrong."""

import json
import time

import pytest

from podium.language.codes import Code
from podium.language.reader import read_yaml
from podium.nodes.contract import read_contract
from tests.unit.contracts.definition import DEFINITION


def told_about_steps(listed: str) -> list[str]:
    reading = read_contract(f"{DEFINITION}steps:\n{listed}", "f.yaml")
    return [str(found) for found in reading.diagnostics]


def codes_about_steps(listed: str) -> list[Code]:
    reading = read_contract(f"{DEFINITION}steps:\n{listed}", "f.yaml")
    return [found.code for found in reading.diagnostics]


# --- wrong results -------------------------------------------------------------------------------


def test_an_error_behind_100_warnings_still_makes_a_contract_invalid() -> None:
    unknown_keys = "".join(f"k{n}: 1\n" for n in range(100))
    cycle = "steps: [{step_id: a, step_name: A, step_type: effect, depends_on: [a]}]\n"

    assert read_contract(DEFINITION + unknown_keys + cycle, "f.yaml").contract is None


def test_an_error_is_listed_however_many_warnings_there_are() -> None:
    reading = read_contract("".join(f"k{n}: 1\n" for n in range(150)), "f.yaml")

    assert Code.MISSING_KEY in [found.code for found in reading.diagnostics]


def test_a_number_among_the_dependencies_of_a_step_without_name_is_no_cycle() -> None:
    assert codes_about_steps("  - {step_type: effect, depends_on: [7]}\n") == [
        Code.MISSING_KEY,
        Code.WRONG_TYPE,
    ]


def test_a_step_without_an_id_cannot_be_depended_on() -> None:
    assert codes_about_steps("""
  - {step_name: Build, step_type: effect}
  - {step_name: Test, step_type: effect, depends_on: ["Build\\00"]}
""") == [Code.STEP_NOT_DEFINED]


def test_text_that_cannot_be_encoded_is_refused_like_any_other() -> None:
    assert read_contract("a: \ud800", "f.yaml").contract is None


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_a_line_that_looks_like_a_comment_is_one(character: str) -> None:
    document = read_yaml(f"a: 1\n# only a comment{character}b: 2\n".encode(), "f.yaml")

    assert document.root is None


def test_a_character_beyond_the_basic_plane_is_written_as_itself_not_as_two_escapes() -> None:
    # The C parser refuses escapes of surrogates, which is how JSON may write such a character.
    (found,) = read_yaml(json.dumps({"a": "🚀"}).encode(), "f.yaml").report.diagnostics
    assert found.code is Code.INVALID_YAML
    assert read_yaml('{"a": "🚀"}'.encode(), "f.yaml").report.diagnostics == []


# --- wrong words ---------------------------------------------------------------------------------


def test_a_uuid_that_is_spelled_in_two_ways_names_the_line_of_the_first() -> None:
    (told,) = told_about_steps("""
  - {step_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff, step_name: A, step_type: effect}
  - {step_id: 6f9619ff8b864011b42d00c04fc964ff, step_name: B, step_type: effect}
""")

    assert "line 14" not in told


def test_a_duplicate_step_id_names_the_line_of_the_first_step_id() -> None:
    (told,) = told_about_steps("""
  - {step_name: build, step_type: effect}
  - {step_id: build, step_name: B, step_type: effect}
  - {step_id: build, step_name: C, step_type: effect}
""")

    assert "The first one is in line 14;" in told


def test_a_duplicate_step_id_is_not_confused_with_one_in_another_case() -> None:
    (told,) = told_about_steps("""
  - {step_id: Build, step_name: A, step_type: effect}
  - {step_id: build, step_name: B, step_type: effect}
  - {step_id: build, step_name: C, step_type: effect}
""")

    assert "The first one is in line 14;" in told


@pytest.mark.parametrize("word", ["retry", "RETYR", "Retry"])
def test_a_near_recovery_strategy_is_suggested(word: str) -> None:
    rules = f"    coordination_rules: {{version: 1.0.0, failure_recovery_strategy: {word}}}\n"

    (found,) = read_contract(DEFINITION + rules, "f.yaml").diagnostics

    assert found.hint == "Did you mean 'RETRY'?"


def test_a_near_step_in_capitals_is_suggested() -> None:
    (told,) = told_about_steps("""
  - {step_id: BUILD, step_name: A, step_type: effect}
  - {step_name: B, step_type: effect, depends_on: [BIULD]}
""")

    assert "Did you mean 'BUILD'?" in told


@pytest.mark.parametrize("line", ["step_type: [effect]", "step_type: {a: 1}", "step_type:"])
def test_a_step_type_that_is_not_text_is_not_quoted_as_text(line: str) -> None:
    (told,) = told_about_steps(f"  - step_name: A\n    {line}\n")

    assert "is ''" not in told


def test_a_version_that_is_empty_text_is_not_called_something_else() -> None:
    (found,) = read_contract(DEFINITION.replace("version: 1.0.0", "version: ''", 1), "f.yaml").diagnostics

    assert "not text" not in found.message


def test_an_anchor_after_a_tag_is_marked_where_it_stands() -> None:
    found = {problem.code: problem for problem in read_yaml(b"a: !x &y 1\n", "f.yaml").report.diagnostics}

    assert (found[Code.ANCHOR].column, found[Code.ANCHOR].end_column) == (7, 9)


def test_a_key_that_is_called_like_a_type_is_not_complained_about() -> None:
    graph = "      nodes: [{node_id: {uuid: 5}, node_type: effect}]\n"

    assert len(read_contract(DEFINITION + graph, "f.yaml").diagnostics) == 1


def test_two_aliases_as_keys_are_no_duplicates() -> None:
    found = read_yaml(b"{*a : 1, *b : 2}", "f.yaml").report.diagnostics

    assert [problem.code for problem in found] == [Code.ALIAS, Code.ALIAS]


def test_of_several_cycles_one_is_told() -> None:
    assert codes_about_steps("""
  - {step_id: a, step_name: A, step_type: effect, depends_on: [a]}
  - {step_id: b, step_name: B, step_type: effect, depends_on: [b]}
""") == [Code.DEPENDENCY_CYCLE]


# --- wrong costs ---------------------------------------------------------------------------------


def test_1000_unknown_dependencies_are_told_within_a_second() -> None:
    steps = [
        f"  - {{step_id: s{n}, step_name: S, step_type: effect, depends_on: [z{n}]}}\n" for n in range(1000)
    ]
    started = time.process_time()

    told_about_steps("".join(steps))

    assert time.process_time() - started < 1.0
