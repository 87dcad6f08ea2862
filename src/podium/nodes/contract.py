"""A node contract in YAML becomes typed models.

    workflow_coordination:
      workflow_definition: ...     the fields of ModelWorkflowDefinition
    steps:                         the fields of ModelWorkflowStep, in the order that decides ties
      - step_id: fetch             a UUID, or a name unique in the file
        step_name: Fetch
        step_type: effect
      - step_name: Store           nothing depends on it, so it needs no step_id
        step_type: effect
        depends_on: [fetch]

Names become UUIDs derived from the workflow's name and their own, so two loads of a file are equal. All
problems of a file are found in one reading; `nodes/contract_problems.py` finds the words for them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from pydantic import BaseModel, Field, ValidationError

from podium.language import tree
from podium.language.diagnostics import Diagnostic, Report, Severity
from podium.language.reader import MAX_BYTES, read_yaml
from podium.language.tree import NodePath, Plain
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.definition import ModelWorkflowDefinition, ModelWorkflowStep
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.run_settings import ErrorHandling, RunnableContract
from podium.nodes.sections import Sections
from podium.nodes.validation import examine_steps, mode_problems

# Must never change: the ids of steps are derived from them. Steps with and without a name never share an id.
_NAMED: Final = UUID("0f0c4a4e-9a5b-5c39-8f4e-6d1f0f4b7a11")
_UNNAMED: Final = UUID("35c1d2fe-6b1d-5a8e-9a52-20a5b8cf2f60")
_NO_STEP: Final = UUID("8d3a0c2b-51a4-5d0e-b6c7-3e9f47d21c05")
_MAX_NAME: Final = 200

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract that was read without error."""

    definition: ModelWorkflowDefinition
    steps: tuple[ModelWorkflowStep, ...]


@dataclass(frozen=True, slots=True)
class ContractReading:
    """The result of reading: the contract, unless there are errors, and all problems."""

    contract: Contract | None
    diagnostics: list[Diagnostic]
    # How many more problems were found than are listed.
    omitted: int


class InvalidContract(ModelOnexError):
    """A contract file has problems; `diagnostics` has each of them with its position."""

    def __init__(self, reading: ContractReading) -> None:
        self.diagnostics = reading.diagnostics
        errors = [str(found) for found in reading.diagnostics if found.severity is Severity.ERROR]
        super().__init__("\n".join(errors), EnumCoreErrorCode.VALIDATION_ERROR, {"errors": errors})


def load_contract(path: str | Path) -> Contract:
    """The contract in a file; raises `InvalidContract` with every problem if it has any."""
    with Path(path).open("rb") as file:
        # One byte more than allowed is enough to detect that a file is too large.
        content = file.read(MAX_BYTES + 1)
    reading = read_contract(content, str(path))
    if reading.contract is None:
        raise InvalidContract(reading)
    return reading.contract


def read_contract(content: bytes | str, name: str, *, strict: bool = False) -> ContractReading:
    """Read a contract and report all that is wrong with it. `strict` turns warnings into errors."""
    # Lone surrogates in a text become bytes that are not valid UTF-8, and are refused as such.
    encoded = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    opened = open_contract(encoded, name, strict=strict)
    report = opened.report
    contract = None if report.has_errors else opened.contract
    return ContractReading(contract, report.diagnostics, report.omitted)


@dataclass(frozen=True, slots=True)
class OpenedContract:
    """A contract that was read, with or without problems, and its text: the input for compiling it."""

    report: Report
    # None if it is not YAML.
    root: tree.Node | None
    problems: ContractProblems | None
    # The part that could be read. Steps with invalid values have placeholders.
    contract: Contract | None = None
    error_handling: ErrorHandling | None = None
    sections: Sections | None = None


def open_contract(content: bytes, name: str, *, strict: bool = False) -> OpenedContract:
    document = read_yaml(content, name)
    if document.root is None:
        return OpenedContract(document.report, None, None)
    problems = ContractProblems(document.root, document.report, strict=strict)
    reader = _ContractReader(document.root, problems)
    contract = reader.read()
    return OpenedContract(
        document.report, document.root, problems, contract, reader.error_handling, reader.sections
    )


class WorkflowCoordination(BaseModel):
    workflow_definition: ModelWorkflowDefinition


class ContractFile(Sections):
    """What is validated as a whole; steps are validated one by one."""

    workflow_coordination: WorkflowCoordination
    steps: list[ModelWorkflowStep] = Field(default_factory=list)
    error_handling: ErrorHandling | None = None


class _ContractReader:
    def __init__(self, root: tree.Node, problems: ContractProblems) -> None:
        self._root = root
        self._problems = problems
        self._workflow_name = ""
        self.error_handling: ErrorHandling | None = None
        self.sections: Sections | None = None

    def read(self) -> Contract | None:
        data = tree.plain(self._root)
        if not isinstance(data, dict):
            self._problems.not_a_contract()
            return None
        self._problems.warn_about_unknown_keys(RunnableContract)
        definition = self._definition(data)
        steps = self._steps(data.get("steps", []))
        return Contract(definition, tuple(steps)) if definition is not None else None

    def _definition(self, data: dict[str, Plain]) -> ModelWorkflowDefinition | None:
        metadata = ("workflow_coordination", "workflow_definition", "workflow_metadata")
        name = tree.find(self._root, (*metadata, "workflow_name"))
        self._workflow_name = name.text if isinstance(name, tree.Scalar) else ""
        mode = tree.find(self._root, (*metadata, "execution_mode"))
        if isinstance(mode, tree.Scalar) and isinstance(mode.value, str):
            for problem in mode_problems(mode.value):
                self._problems.broken_rule(problem, metadata[:-1])
        # Each separately: a problem in one does not hide those of the other.
        if isinstance(errors := data.get("error_handling"), dict):
            self.error_handling = validated(ErrorHandling, errors, ("error_handling",), self._problems)
            data = {**data, "error_handling": None}
        written = {key: value for key, value in data.items() if key in Sections.model_fields}
        self.sections = self._sections(written)
        data = {key: value for key, value in data.items() if key not in written}
        file = validated(ContractFile, {**data, "steps": []}, (), self._problems)
        return file.workflow_coordination.workflow_definition if file is not None else None

    def _sections(self, written: dict[str, Plain]) -> Sections:
        """Each by itself, too. One that cannot be read is None. Most contracts have none, and build no validator."""
        read = [validated(Sections, {name: value}, (), self._problems) for name, value in written.items()]
        found = {name: getattr(one, name) for name, one in zip(written, read, strict=True) if one is not None}
        return Sections.model_construct(**found)

    def _steps(self, listed: Plain) -> list[ModelWorkflowStep]:
        """The steps as models; one with invalid values is replaced by a placeholder, so that references are
        checked.
        """
        if not isinstance(listed, list):
            self._problems.wrong_type(("steps",), "a list")
            return []
        steps = [
            self._step(index, item) if isinstance(item, dict) else self._not_a_step(index)
            for index, item in enumerate(listed)
        ]
        for problem in examine_steps(steps).problems:
            self._problems.broken_rule(problem, ())
        return steps

    def _step(self, index: int, item: dict[str, Plain]) -> ModelWorkflowStep:
        step_id = self._step_id(index, item)
        needed = self._dependencies(index, item.get("depends_on", []))
        fields: dict[str, Plain] = {
            "correlation_id": str(uuid5(step_id, "correlation")),
            **item,
            "step_id": str(step_id),
            "depends_on": [str(other) for other in needed],
        }
        step = validated(ModelWorkflowStep, fields, ("steps", index), self._problems)
        if step is not None:
            return step
        return _stand_in(
            step_id, needed, enabled=item.get("enabled") is not False, type_=item.get("step_type")
        )

    def _not_a_step(self, index: int) -> ModelWorkflowStep:
        self._problems.wrong_type(("steps", index), "a mapping")
        return _stand_in(self._id_of_unnamed("", index))

    def _step_id(self, index: int, item: dict[str, Plain]) -> UUID:
        if "step_id" not in item:
            return self._id_of_unnamed(str(item.get("step_name", "")), index)
        path = ("steps", index, "step_id")
        name = item["step_id"]
        if not isinstance(name, str):
            self._problems.wrong_type(path, "text")
            return self._id_of_unnamed("", index)
        if not _is_name(name):
            self._problems.not_a_name(path, name)
        return self._id_of(name)

    def _dependencies(self, index: int, listed: Plain) -> list[UUID]:
        """The ids in `depends_on`. An unknown name becomes an id that no step has."""
        path: NodePath = ("steps", index, "depends_on")
        if not isinstance(listed, list):
            self._problems.wrong_type(path, "a list")
            return []
        needed = []
        for place, name in enumerate(listed):
            if isinstance(name, str):
                needed.append(self._id_of(name))
            else:
                self._problems.wrong_type((*path, place), "text")
                # Keeps the positions of the others; no step ever has this id.
                needed.append(uuid5(_NO_STEP, f"{index} {place}"))
        return needed

    def _id_of(self, name: str) -> UUID:
        try:
            return UUID(name)
        except ValueError:
            return uuid5(_NAMED, f"{self._workflow_name}\0{name}")

    def _id_of_unnamed(self, step_name: str, index: int) -> UUID:
        return uuid5(_UNNAMED, f"{self._workflow_name}\0{step_name}\0{index}")


def validated(
    model: type[_Model], data: dict[str, Plain], base: NodePath, problems: ContractProblems
) -> _Model | None:
    """Build a model in strict JSON mode: text never becomes a number or a boolean."""
    try:
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False, include_input=False):
            problems.invalid_value(error, base)
        return None


def _stand_in(
    step_id: UUID, depends_on: Sequence[UUID] = (), *, enabled: bool = True, type_: object = None
) -> ModelWorkflowStep:
    """Replaces a step with invalid values, so that the rules about the others can be checked."""
    values: dict[str, Any] = {"step_name": "", "step_type": type_, "enabled": enabled}
    return ModelWorkflowStep.model_construct(step_id=step_id, depends_on=list(depends_on), **values)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME and name == name.strip() and name.isprintable()
