"""Contracts as people write them, from YAML to actions. What breaks them is in tests/messages."""

import random
from pathlib import Path
from uuid import UUID

import pytest

import podium
from podium.language.diagnostics import Severity
from podium.nodes import EnumExecutionMode, ModelOnexError
from podium.nodes.contract import Contract, ContractFile, load_contract, read_contract
from podium.nodes.schema import contract_schema
from tests.unit.nodes.building import emitted_names, execute, names_of, process
from tests.unit.nodes.conftest import FailSteps

EXAMPLES = Path(__file__).parents[3] / "examples" / "contracts"

HEAD = """
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      {version: 1.0.0, workflow_name: nightly, workflow_version: 1.0.0, description: d}
    execution_graph: {version: 1.0.0}
"""


def contract_of(text: str) -> Contract:
    reading = read_contract(text, "contract.yaml")
    assert reading.contract is not None, "\n".join(map(str, reading.diagnostics))
    return reading.contract


@pytest.mark.rule("FX10")
def test_the_data_pipeline_runs_from_yaml() -> None:
    pipeline = load_contract(EXAMPLES / "data_pipeline.yaml")
    result = execute(pipeline.steps, pipeline.definition)
    assert emitted_names(result) == ["Fetch Data", "Validate Schema", "Enrich Data", "Persist Results"]
    assert [action.target_node_type for action in result.actions_emitted] == [
        "NodeEffect",
        "NodeCompute",
        "NodeCompute",
        "NodeEffect",
    ]
    assert [action.timeout_ms for action in result.actions_emitted] == [10000, 5000, 15000, 10000]
    first, second = result.actions_emitted[:2]
    assert second.dependencies == [first.action_id]
    assert result.metadata["execution_mode"] == "parallel"


@pytest.mark.rule("FX10", "AC4.2")
def test_the_etl_pipeline_runs_from_yaml() -> None:
    etl = load_contract(EXAMPLES / "etl_pipeline.yaml")
    a, b, c, transform, load = execute(etl.steps, etl.definition).actions_emitted
    assert [x.payload["step_name"][-1] for x in (a, b, c)] == ["A", "B", "C"]
    assert [x.dependencies for x in (a, b, c)] == [[], [], []]
    assert transform.dependencies == [a.action_id, b.action_id, c.action_id]
    assert load.dependencies == [transform.action_id]
    assert str(etl.definition.workflow_metadata.workflow_version) == "2.1.0"
    assert etl.definition.execution_graph.nodes[0].node_id == "extract_source_a"


@pytest.mark.rule("FX10", "NR34", "PR5", "PR6")
@pytest.mark.parametrize(
    ("failing", "completed"),
    [
        ("Critical Step", []),
        ("Optional Enrichment", ["Critical Step", "Final Persist"]),
        ("Final Persist", ["Critical Step", "Optional Enrichment"]),
    ],
)
def test_the_error_handling_example_runs_from_yaml(
    fail_steps: FailSteps, failing: str, completed: list[str]
) -> None:
    fail_steps(failing)
    example = load_contract(EXAMPLES / "error_handling.yaml")
    output = process(example.steps, example.definition)
    assert names_of(output.completed_steps, example.steps) == completed
    assert names_of(output.failed_steps, example.steps) == [failing]


@pytest.mark.rule("NR13", "NR66", "NR12", "NR50")
def test_declaration_order_in_the_file_breaks_ties() -> None:
    names = [f"step {number}" for number in range(300)]
    random.Random(3).shuffle(names)
    text = HEAD + "steps:\n" + "".join(f"  - {{step_name: {name}, step_type: effect}}\n" for name in names)
    loaded = contract_of(text)
    assert [one.step_name for one in loaded.steps] == names
    assert emitted_names(execute(loaded.steps, loaded.definition)) == names


@pytest.mark.rule("NR13", "NR66")
def test_lists_are_kept_as_written() -> None:
    text = (
        HEAD
        + """
steps:
  - {step_id: b, step_name: B, step_type: effect}
  - {step_id: a, step_name: A, step_type: effect}
  - {step_name: C, step_type: effect, depends_on: [a, b, a]}
"""
    )
    b, a, c = contract_of(text).steps
    assert c.depends_on == [a.step_id, b.step_id, a.step_id]


@pytest.mark.rule("N44", "NR28")
def test_two_loads_are_equal_and_ids_come_from_names() -> None:
    text = (
        HEAD
        + """
steps:
  - {step_id: fetch, step_name: Fetch, step_type: effect}
  - {step_name: Fetch, step_type: effect, depends_on: [fetch]}
  - {step_name: Fetch, step_type: effect}
  - step_id: 6f9619ff-8b86-4011-b42d-00c04fc964ff
    step_name: Known
    step_type: effect
    correlation_id: 00000000-0000-0000-0000-000000000001
  - {step_name: Last, step_type: effect, depends_on: [6F9619FF-8B86-4011-B42D-00C04FC964FF]}
"""
    )
    first, second = contract_of(text), contract_of(text)
    assert first == second
    assert first.steps[1].depends_on == [first.steps[0].step_id]
    assert len({one.step_id for one in first.steps}) == len({one.correlation_id for one in first.steps}) == 5
    assert first.steps[3].step_id == UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")
    assert first.steps[3].correlation_id == UUID(int=1)
    assert first.steps[4].depends_on == [first.steps[3].step_id]
    renamed = contract_of(text.replace("nightly", "daily"))
    assert renamed.steps[0].step_id != first.steps[0].step_id


@pytest.mark.rule("N44")
def test_the_ids_of_names_never_change() -> None:
    text = (
        HEAD
        + """
steps:
  - {step_id: fetch, step_name: Fetch, step_type: effect}
  - {step_name: Store, step_type: effect}
"""
    )
    fetch, store = contract_of(text).steps
    # Histories refer to these ids: a change here would orphan them.
    assert str(fetch.step_id) == "52661d27-6986-508c-85cc-16d34056d1fa"
    assert str(store.step_id) == "50b2a369-1ce6-5a0f-a752-6a077c470e54"
    assert str(fetch.correlation_id) == "566255cb-8462-5710-b4c5-04a12842317a"


@pytest.mark.rule("N45")
def test_unknown_keys_are_warnings_with_the_nearest_name_and_errors_when_strict() -> None:
    steps = "steps: [{step_name: a, step_type: effect, depends_om: []}]\n"
    text = HEAD + "    compensation_enable: true\n" + steps + "stepps: 1\nx-note: ours\n"
    lax, strict = (read_contract(text, "c.yaml", strict=strict) for strict in (False, True))
    assert lax.contract is not None
    assert strict.contract is None
    for reading, severity in ((lax, Severity.WARNING), (strict, Severity.ERROR)):
        assert [(found.severity, found.message, found.hint) for found in reading.diagnostics] == [
            (
                severity,
                "'workflow_definition' has no use for the key 'compensation_enable'.",
                "Did you mean 'compensation_enabled'?",
            ),
            (
                severity,
                "item 1 of 'steps' has no use for the key 'depends_om'.",
                "Did you mean 'depends_on'?",
            ),
            (severity, "the contract has no use for the key 'stepps'.", "Did you mean 'steps'?"),
        ]


@pytest.mark.rule("N45", "N30", "NR67")
def test_nothing_inside_the_execution_graph_or_reserved_is_warned_about() -> None:
    text = (
        HEAD.replace(
            "execution_graph: {version: 1.0.0}",
            "execution_graph: {version: 1.0.0, extra: 1, nodes: [{node_id: a, node_type: b, depends_on: []}]}\n"
            "    saga_pattern: s",
        )
        + "steps: [{step_name: a, step_type: effect, idempotency_key: k}]"
    )
    assert read_contract(text, "c.yaml").diagnostics == []


@pytest.mark.rule("N06", "N33", "CV4", "CV6", "ER3", "NR51", "FX07")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("workflow_name: nightly", 'workflow_name: ""'),
        ("description: d", "description: d, timeout_ms: 999"),
        ("description: d", "description: d, timeout_ms: -1"),
        ("description: d", ""),
        ("version: 1.0.0, workflow_name", "version: one, workflow_name"),
        ("description: d", "description: d, execution_mode: streaming"),
        ("execution_graph: {version: 1.0.0}", "execution_graph: {}"),
    ],
)
def test_the_yaml_boundary_raises_the_error_of_the_specification(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(HEAD.replace(old, new))
    with pytest.raises(ModelOnexError) as raised:
        podium.load_contract(path)
    assert raised.value.code == "VALIDATION_ERROR"
    assert str(path) in raised.value.message


@pytest.mark.rule("ER3", "FX07")
@pytest.mark.parametrize(
    "steps",
    [
        "[{step_name: a, step_type: effect, depends_on: [ghost]}]",
        "[{step_id: a, step_name: a, step_type: effect, depends_on: [a]}]",
        "[{step_id: a, step_name: a, step_type: effect}, {step_id: a, step_name: b, step_type: effect}]",
        "[{step_name: a, step_type: conditional}]",
    ],
)
def test_a_file_whose_steps_do_not_fit_together_raises_the_error_of_the_specification(
    tmp_path: Path, steps: str
) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(f"{HEAD}steps: {steps}")
    with pytest.raises(ModelOnexError) as raised:
        podium.load_contract(path)
    assert raised.value.code == "VALIDATION_ERROR"


@pytest.mark.rule("NR51", "N06")
def test_a_step_timeout_below_100_in_yaml_raises_the_error_of_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(HEAD + "steps: [{step_name: a, step_type: effect, timeout_ms: 99}]")
    with pytest.raises(ModelOnexError, match="'timeout_ms' is 99, which is too small"):
        podium.load_contract(path)


@pytest.mark.rule("NR68")
def test_the_schema_is_generated_from_the_models() -> None:
    schema = contract_schema()
    generated = ContractFile.model_json_schema()["$defs"]
    assert schema["$defs"]["ModelWorkflowDefinition"] == generated["ModelWorkflowDefinition"]
    assert set(schema["$defs"]["ModelWorkflowStep"]["properties"]) == set(
        generated["ModelWorkflowStep"]["properties"]
    )


@pytest.mark.rule("NR68")
def test_no_schema_is_written_by_hand_or_read_back() -> None:
    package = Path(podium.__file__).parent
    assert list(package.rglob("*.json")) == []
    readers = [path.name for path in package.rglob("*.py") if "nodes.schema" in path.read_text()]
    assert sorted(readers) == ["__init__.py", "schema.py"]  # exported, and printed by the command line


@pytest.mark.rule("NR66")
def test_the_same_file_gives_the_same_actions_every_time() -> None:
    runs = [
        process(etl.steps, etl.definition, execution_mode=EnumExecutionMode.PARALLEL).model_dump_json()
        for etl in (load_contract(EXAMPLES / "etl_pipeline.yaml") for _ in range(3))
    ]
    assert len(set(runs)) == 1
