"""What a valid contract means: ids, order, values, and what is passed over in silence."""

import json
import random
from pathlib import Path
from uuid import UUID, uuid5

import pytest

from podium.errors import PodiumError
from podium.language.codes import Code
from podium.language.diagnostics import Severity
from podium.nodes.contract import Contract, InvalidContract, load_contract, read_contract
from podium.nodes.definition import ModelSemVer, ModelWorkflowStep
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from tests.unit.contracts.definition import DEFINITION

EXAMPLES = Path(__file__).parents[3] / "examples" / "contracts"


def read(text: str | bytes) -> Contract:
    """The contract in a text about which there is nothing to say."""
    reading = read_contract(text, "release.yaml")
    assert [str(found) for found in reading.diagnostics] == []
    assert reading.contract is not None
    return reading.contract


def read_steps(listed: str) -> tuple[ModelWorkflowStep, ...]:
    return read(f"{DEFINITION}\nsteps:\n{listed}").steps


def told_about(text: str | bytes, *, strict: bool = False) -> list[str]:
    """All that is said about a text."""
    return [str(found) for found in read_contract(text, "release.yaml", strict=strict).diagnostics]


# --- ids -----------------------------------------------------------------------------------------


def test_two_readings_of_a_contract_are_equal() -> None:
    text = f"""{DEFINITION}
steps:
  - {{step_id: build, step_name: Build, step_type: compute}}
  - {{step_name: Publish, step_type: effect, depends_on: [build]}}
"""

    assert read(text) == read(text)


def test_the_id_of_a_name_is_the_same_for_ever() -> None:
    named, unnamed = read_steps("""
  - {step_id: build, step_name: Build, step_type: compute}
  - {step_name: Test, step_type: compute}
""")

    assert named.step_id == UUID("bccd0985-07a4-5238-9206-0bc396ad60ef")
    assert unnamed.step_id == UUID("17a13190-ba47-58ae-a561-64e150837763")


def test_the_id_of_a_step_does_not_depend_on_its_place_or_its_neighbours() -> None:
    (alone,) = read_steps("  - {step_id: build, step_name: Build, step_type: compute}\n")
    _, second = read_steps("""
  - {step_id: lint, step_name: Lint, step_type: compute}
  - {step_id: build, step_name: Build it, step_type: effect}
""")

    assert second.step_id == alone.step_id


def test_the_same_name_in_another_workflow_is_another_step() -> None:
    step = "steps: [{step_id: build, step_name: Build, step_type: compute}]\n"
    release = read(DEFINITION + step)
    nightly = read(DEFINITION.replace("workflow_name: release", "workflow_name: nightly") + step)

    assert release.steps[0].step_id != nightly.steps[0].step_id


def test_steps_without_an_id_are_different_even_if_they_have_the_same_name() -> None:
    first, second = read_steps("""
  - {step_name: Build, step_type: compute}
  - {step_name: Build, step_type: compute}
""")

    assert first.step_id != second.step_id


def test_a_uuid_is_kept_as_the_id() -> None:
    (step,) = read_steps("""
  - {step_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff, step_name: Build, step_type: compute}
""")

    assert step.step_id == UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")


def test_a_dependency_may_spell_a_uuid_in_another_way() -> None:
    first, second = read_steps("""
  - {step_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff, step_name: Build, step_type: compute}
  - {step_name: Test, step_type: compute, depends_on: [6F9619FF-8B86-4011-B42D-00C04FC964FF]}
""")

    assert second.depends_on == [first.step_id]


def test_names_that_differ_in_case_are_different_steps() -> None:
    capital, small = read_steps("""
  - {step_id: Build, step_name: A, step_type: compute}
  - {step_id: build, step_name: B, step_type: compute}
""")

    assert capital.step_id != small.step_id


def test_a_dependency_may_stand_before_the_step_it_names() -> None:
    first, second = read_steps("""
  - {step_name: Publish, step_type: effect, depends_on: [build]}
  - {step_id: build, step_name: Build, step_type: compute}
""")

    assert first.depends_on == [second.step_id]


def test_a_name_may_have_200_characters_and_spaces_inside() -> None:
    (step,) = read_steps(f"  - {{step_id: {'a b' * 66}ab, step_name: Build, step_type: compute}}\n")

    assert step.step_name == "Build"


def test_the_correlation_id_is_derived_from_the_step_id() -> None:
    (step,) = read_steps("  - {step_id: build, step_name: Build, step_type: compute}\n")

    assert step.correlation_id == uuid5(step.step_id, "correlation")


def test_a_correlation_id_that_is_given_is_kept() -> None:
    (step,) = read_steps("""
  - step_id: build
    step_name: Build
    step_type: compute
    correlation_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff
""")

    assert step.correlation_id == UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")


# --- order and values ----------------------------------------------------------------------------


def test_steps_keep_the_order_of_the_file() -> None:
    steps = read_steps("""
  - {step_id: publish, step_name: Publish, step_type: effect, depends_on: [test], order_index: 3}
  - {step_id: build, step_name: Build, step_type: compute, order_index: 1}
  - {step_id: test, step_name: Test, step_type: compute, depends_on: [build], order_index: 2}
""")

    assert [step.step_name for step in steps] == ["Publish", "Build", "Test"]


def test_200_shuffled_steps_keep_the_order_of_the_file() -> None:
    numbers = list(range(200))
    random.Random(7).shuffle(numbers)

    steps = read_steps(
        "".join(
            f"  - {{step_id: s{n}, step_name: Step {n}, step_type: compute"
            f"{f', depends_on: [s{n - 1}]' if n else ''}}}\n"
            for n in numbers
        )
    )

    assert [step.step_name for step in steps] == [f"Step {n}" for n in numbers]


def test_dependencies_keep_the_order_of_the_file() -> None:
    a, b, c = read_steps("""
  - {step_id: a, step_name: A, step_type: compute}
  - {step_id: b, step_name: B, step_type: compute}
  - {step_id: c, step_name: C, step_type: compute, depends_on: [b, a]}
""")

    assert c.depends_on == [b.step_id, a.step_id]


def test_what_a_step_leaves_out_has_the_defaults_of_the_specification() -> None:
    (step,) = read_steps("  - {step_id: build, step_name: Build, step_type: compute}\n")

    assert (step.timeout_ms, step.retry_count, step.priority, step.error_action) == (30000, 3, 100, "stop")
    assert (step.enabled, step.skip_on_failure, step.depends_on) == (True, False, [])


@pytest.mark.parametrize(
    "line",
    [
        "timeout_ms: 100",
        "timeout_ms: 300000",
        "retry_count: 0",
        "retry_count: 10",
        "priority: 1",
        "priority: 1000",
        "order_index: 0",
        "max_memory_mb: 1",
        "max_memory_mb: 32768",
        "max_cpu_percent: 1",
        "max_cpu_percent: 100",
        "max_parallel_instances: 1",
        "max_parallel_instances: 100",
        f"parallel_group: {'g' * 100}",
    ],
)
def test_a_value_exactly_at_its_bound_is_allowed(line: str) -> None:
    name, _, value = line.partition(": ")

    (step,) = read_steps(f"  - step_name: Build\n    step_type: compute\n    {line}\n")

    assert str(getattr(step, name)) == value


def test_a_step_name_may_have_200_characters() -> None:
    (step,) = read_steps(f"  - {{step_name: {'n' * 200}, step_type: compute}}\n")

    assert step.step_name == "n" * 200


def test_a_workflow_may_take_one_second() -> None:
    contract = read(DEFINITION.replace("      description", "      timeout_ms: 1000\n      description"))

    assert contract.definition.workflow_metadata.timeout_ms == 1000


def test_a_version_may_be_text_or_a_mapping() -> None:
    text = read(DEFINITION.replace("workflow_version: 1.0.0", "workflow_version: 2.1.0"))
    mapping = read(
        DEFINITION.replace("workflow_version: 1.0.0", "workflow_version: {major: 2, minor: 1, patch: 0}")
    )

    assert text == mapping
    assert text.definition.workflow_metadata.workflow_version == ModelSemVer(major=2, minor=1, patch=0)


@pytest.mark.parametrize("steps", ["", "steps: []\n"], ids=["left out", "empty"])
def test_a_contract_may_have_no_steps(steps: str) -> None:
    assert read(DEFINITION + steps).steps == ()


def test_a_disabled_step_may_be_of_a_reserved_type() -> None:
    (step,) = read_steps("  - {step_name: Decide, step_type: conditional, enabled: false}\n")

    assert step.step_type == "conditional"


def test_a_quoted_number_is_text() -> None:
    (step,) = read_steps("  - {step_name: '5', step_type: compute, parallel_group: \"0x1F\"}\n")

    assert (step.step_name, step.parallel_group) == ("5", "0x1F")


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "On", "OFF"])
def test_the_truths_of_old_yaml_are_text(word: str) -> None:
    (step,) = read_steps(f"  - {{step_name: {word}, step_type: compute}}\n")

    assert step.step_name == word


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_true_may_be_capitalized(word: str) -> None:
    (step,) = read_steps(f"  - {{step_name: Build, step_type: compute, skip_on_failure: {word}}}\n")

    assert step.skip_on_failure is True


@pytest.mark.parametrize("written", ["2026-01-31", "2026-01-31T12:00:00Z", "12:30:45"])
def test_dates_and_times_are_text(written: str) -> None:
    (step,) = read_steps(f"  - {{step_name: {written}, step_type: compute}}\n")

    assert step.step_name == written


@pytest.mark.parametrize(("written", "value"), [("0o1750", 1000), ("0x3E8", 1000), ("1000", 1000)])
def test_a_whole_number_may_be_octal_or_hexadecimal(written: str, value: int) -> None:
    (step,) = read_steps(f"  - {{step_name: Build, step_type: compute, timeout_ms: {written}}}\n")

    assert step.timeout_ms == value


def test_a_number_with_an_exponent_is_not_a_whole_number() -> None:
    told = told_about(f"{DEFINITION}\nsteps: [{{step_name: Build, step_type: compute, timeout_ms: 1e3}}]\n")

    assert len(told) == 1
    assert told[0].startswith("release.yaml:12:60: E301 'timeout_ms' must be a whole number")


def test_nothing_may_stand_where_a_value_is_optional() -> None:
    (step,) = read_steps(
        "  - {step_name: Build, step_type: compute, max_memory_mb: ~, parallel_group: null}\n"
    )

    assert (step.max_memory_mb, step.parallel_group) == (None, None)


def test_a_byte_order_mark_is_passed_over_and_not_counted() -> None:
    text = DEFINITION.encode()

    assert read(b"\xef\xbb\xbf" + text) == read(text)
    assert told_about(b"\xef\xbb\xbfroot\n")[0].startswith("release.yaml:1:1: ")


def test_windows_line_ends_mean_the_same() -> None:
    text = f"{DEFINITION}\nsteps:\n  - step_id: build\n    step_name: Build\n    step_type: compute\n"

    assert read(text.replace("\n", "\r\n")) == read(text)


def test_windows_line_ends_do_not_shift_lines_and_columns() -> None:
    text = f"{DEFINITION}\nsteps:\n  - step_name: Build\n    step_type: compue\n"

    assert told_about(text.replace("\n", "\r\n")) == told_about(text)
    assert told_about(text)[0].startswith("release.yaml:14:16: E303 ")


def test_text_and_its_bytes_are_read_alike() -> None:
    text = DEFINITION.replace("Build, test and publish", "Bauen und veröffentlichen 🚀")

    assert read(text) == read(text.encode())


# --- unknown keys --------------------------------------------------------------------------------

MISSPELLED = f"{DEFINITION}\nsteps:\n  - step_name: Build\n    step_type: compute\n    retry_cout: 5\n"


def test_an_unknown_key_is_a_warning_with_the_nearest_name() -> None:
    reading = read_contract(MISSPELLED, "release.yaml")

    assert reading.contract is not None
    assert reading.contract.steps[0].retry_count == 3
    (warning,) = reading.diagnostics
    assert str(warning) == (
        "release.yaml:15:5: warning E402 item 1 of 'steps' has no use for the key 'retry_cout'.\n"
        "   15 |     retry_cout: 5\n"
        "      |     ^^^^^^^^^^\n"
        "Did you mean 'retry_count'?"
    )


def test_an_unknown_key_is_an_error_if_the_reading_is_strict() -> None:
    reading = read_contract(MISSPELLED, "release.yaml", strict=True)

    assert reading.contract is None
    assert [(found.code, found.severity) for found in reading.diagnostics] == [
        (Code.UNKNOWN_KEY, Severity.ERROR)
    ]


def test_a_strict_reading_of_a_contract_without_warnings_is_the_same() -> None:
    assert read_contract(DEFINITION, "release.yaml", strict=True) == read_contract(DEFINITION, "release.yaml")


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_nothing_is_said_about_keys_inside_the_execution_graph(strict: bool) -> None:
    text = f"""{DEFINITION}
      edges: []
      nodes:
        - {{node_id: fetch, node_type: effect, colour: red, position: {{x: 1, y: 2}}}}
"""

    assert told_about(text, strict=strict) == []


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_nothing_is_said_about_keys_that_begin_with_x(strict: bool) -> None:
    text = (
        DEFINITION.replace(
            "    version: 1.0.0\n    workflow_m", "    x-team: core\n    version: 1.0.0\n    workflow_m"
        )
        + "x-owner: me\nsteps:\n  - {step_name: Build, step_type: compute, x-note: {anything: [1, 2]}}\n"
    )

    assert told_about(text, strict=strict) == []


RESERVED = """\
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      version: 1.0.0
      workflow_name: release
      workflow_version: 1.0.0
      description: Build, test and publish
    execution_graph:
      version: 1.0.0
    coordination_rules:
      version: 1.0.0
      synchronization_points: [built, tested]
      max_retries: 7
      retry_delay_ms: 250
    compensation_enabled: true
    saga_pattern: choreography
    checkpoint_enabled: true

steps:
  - step_id: build
    step_name: Build
    step_type: compute
    compensation_action: remove
    checkpoint_required: true
    idempotency_key: build-1
"""


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_nothing_is_said_about_reserved_fields(strict: bool) -> None:
    assert told_about(RESERVED, strict=strict) == []


# --- round trips ---------------------------------------------------------------------------------


def written_again(contract: Contract) -> str:
    """A contract as JSON, which is YAML."""
    return json.dumps(
        {
            "workflow_coordination": {
                "workflow_definition": json.loads(contract.definition.model_dump_json())
            },
            "steps": [json.loads(step.model_dump_json()) for step in contract.steps],
        }
    )


def test_reserved_fields_survive_a_round_trip() -> None:
    contract = read(written_again(read(RESERVED)))

    definition, (step,) = contract.definition, contract.steps
    assert contract == read(RESERVED)
    assert definition.coordination_rules.synchronization_points == ["built", "tested"]
    assert definition.coordination_rules.max_retries == 7
    assert definition.coordination_rules.retry_delay_ms == 250
    assert definition.compensation_enabled is True
    assert definition.saga_pattern == "choreography"
    assert definition.checkpoint_enabled is True
    assert step.compensation_action == "remove"
    assert step.checkpoint_required is True
    assert step.idempotency_key == "build-1"


def test_a_reserved_field_that_nobody_set_does_not_appear_in_a_round_trip() -> None:
    written = written_again(read(f"{DEFINITION}steps: [{{step_name: Build, step_type: compute}}]\n"))

    assert "saga_pattern" not in written
    assert "compensation_action" not in written
    assert "idempotency_key" not in written


def test_a_reserved_field_that_was_written_as_nothing_appears_in_a_round_trip() -> None:
    text = (
        DEFINITION
        + "    saga_pattern: ~\nsteps: [{step_name: Build, step_type: compute, idempotency_key: ~}]\n"
    )

    written = json.loads(written_again(read(text)))

    assert written["workflow_coordination"]["workflow_definition"]["saga_pattern"] is None
    assert written["steps"][0]["idempotency_key"] is None


def test_nodes_of_the_execution_graph_keep_extra_keys_in_a_round_trip() -> None:
    text = (
        f"{DEFINITION}      nodes: [{{node_id: fetch, node_type: effect, colour: red, position: {{x: 1}}}}]\n"
    )

    contract = read(written_again(read(text)))

    (node,) = contract.definition.execution_graph.nodes
    assert node.model_extra == {"colour": "red", "position": {"x": 1}}


@pytest.mark.parametrize("name", ["etl_pipeline", "data_pipeline", "error_handling"])
def test_the_examples_survive_a_round_trip(name: str) -> None:
    contract = load_contract(EXAMPLES / f"{name}.yaml")

    assert read(written_again(contract)) == contract


# --- files ---------------------------------------------------------------------------------------


def test_there_are_three_examples() -> None:
    assert sorted(file.name for file in EXAMPLES.iterdir()) == [
        "data_pipeline.yaml",
        "error_handling.yaml",
        "etl_pipeline.yaml",
    ]


@pytest.mark.parametrize("name", ["etl_pipeline", "data_pipeline", "error_handling"])
def test_there_is_nothing_to_say_about_the_examples(name: str) -> None:
    file = EXAMPLES / f"{name}.yaml"

    assert read_contract(file.read_bytes(), str(file), strict=True).diagnostics == []
    assert load_contract(str(file)) == load_contract(file)


def test_a_file_with_problems_raises_one_error_that_lists_them_all(tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    file.write_text(
        f"{DEFINITION}\nsteps:\n"
        "  - {step_name: Build, step_type: compue, colour: red}\n"
        "  - {step_name: Test, step_type: compute, depends_on: [biuld]}\n"
    )

    with pytest.raises(InvalidContract) as raised:
        load_contract(file)

    error = raised.value
    assert isinstance(error, ModelOnexError)
    assert isinstance(error, PodiumError)
    assert error.error_code is EnumCoreErrorCode.VALIDATION_ERROR
    assert error.code == "VALIDATION_ERROR"
    assert [found.code for found in error.diagnostics] == [
        Code.UNKNOWN_VALUE,
        Code.UNKNOWN_KEY,
        Code.STEP_NOT_DEFINED,
    ]
    first, warning, second = error.diagnostics
    assert warning.severity is Severity.WARNING
    assert error.context == {"errors": [str(first), str(second)]}
    assert str(error) == f"{first}\n{second}"
    assert str(error).startswith(f"{file}:13:35: E303 ")


def test_warnings_alone_do_not_raise(tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    file.write_text(MISSPELLED)

    assert load_contract(file).steps[0].step_name == "Build"


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_contract(tmp_path / "release.yaml")
