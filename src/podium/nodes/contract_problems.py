"""What is wrong with a contract file, in the words of the file.

Rules are not decided here: they come as pydantic's errors or as problems from `nodes/validation.py`, with the
path of the value they are about. This module finds the place in the text and says what would have been right.
"""

import re
from typing import Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from podium.language import tree
from podium.language.codes import Code
from podium.language.diagnostics import Report, did_you_mean, quoted
from podium.language.tree import NodePath
from podium.nodes.definition import ModelExecutionGraph, ModelSemVer
from podium.nodes.validation import (
    RESERVED_STEP_TYPE,
    ROUTES,
    SUPPORTED_MODES,
    Problem,
    ProblemKind,
    told_cycle,
)

_MOST_NAMES: Final = 10


class ContractProblems:
    """Reports problems of one contract file at their positions."""

    def __init__(self, root: tree.Node, report: Report, *, strict: bool) -> None:
        self._root = root
        self._report = report
        self._strict = strict
        self._told: set[NodePath] = set()

    def not_a_contract(self) -> None:
        found = tree.kind_of(self._root)
        self._error(
            Code.WRONG_TYPE,
            (),
            f"a contract must be a mapping, not {found}.",
            "Begin with the key 'workflow_coordination:'.",
        )

    def not_a_name(self, path: NodePath, name: str) -> None:
        self._error(
            Code.INVALID_FORMAT,
            path,
            f"{_called(path)} is {quoted(name)}, which is no name.",
            "Use 1 to 200 printable characters without spaces at the ends, or a UUID.",
        )

    def wrong_type(self, path: NodePath, expected: str) -> None:
        node = tree.find(self._root, path)
        assert node is not None
        found, hint = tree.kind_of(node), ""
        if isinstance(node, tree.Scalar) and isinstance(node.value, str):
            found = f"the text {quoted(node.text)}"
            if _WITHOUT_QUOTES.get(expected, _NOTHING).fullmatch(node.text):
                hint = "Write it without quotes."
        elif isinstance(node, tree.Scalar) and expected == "text":
            hint = "Write some text." if node.value is None else "Put it in quotes."
        self._error(Code.WRONG_TYPE, path, f"{_called(path)} must be {expected}, not {found}.", hint)

    def invalid_value(self, error: ErrorDetails, base: NodePath) -> None:
        """What pydantic found."""
        kind, limits = error["type"], error.get("ctx", {})
        path: NodePath = (*base, *error["loc"])
        if kind == "missing":
            parent, key = path[:-1], path[-1]
            self._error(
                Code.MISSING_KEY,
                parent,
                f"{_called(parent)} has no key '{key}', which is required.",
                f"Add '{key}: ...'.",
            )
            return
        # For a value that may be of several types pydantic goes on below it, once for each.
        path = tree.existing_part(self._root, path)
        if path in self._told:
            return
        value = self._text_at(path)
        match kind:
            case "literal_error" | "enum":
                words = _QUOTED.findall(str(limits["expected"]))
                self._unknown_value(path, tuple(word for word in words if word != RESERVED_STEP_TYPE))
            case "greater_than_equal":
                message = f"{_called(path)} is {value}, which is too small."
                self._error(Code.OUT_OF_BOUNDS, path, message, f"Use {limits['ge']} or more.")
            case "less_than_equal":
                message = f"{_called(path)} is {value}, which is too large."
                self._error(Code.OUT_OF_BOUNDS, path, message, f"Use {limits['le']} or less.")
            case "string_too_short":
                self._error(
                    Code.WRONG_LENGTH, path, f"{_called(path)} is empty.", "Write at least one character."
                )
            case "string_too_long":
                message = f"{_called(path)} has {len(value)} characters."
                self._error(Code.WRONG_LENGTH, path, message, f"Use at most {limits['max_length']}.")
            case "uuid_parsing":
                message = f"{_called(path)} is {quoted(value)}, which is no UUID."
                self._error(
                    Code.INVALID_FORMAT, path, message, "Write one like 6f9619ff-8b86-4011-b42d-00c04fc964ff."
                )
            case "value_error":
                node = tree.find(self._root, path)
                written = quoted(value) if isinstance(node, tree.Scalar) and value else "not text"
                message = f"{_called(path)} is {written}, which is no version."
                self._error(Code.INVALID_FORMAT, path, message, "Write three numbers like 1.2.3.")
            case _:
                self.wrong_type(path, _EXPECTED[kind])

    def broken_rule(self, problem: Problem, base: NodePath) -> None:
        """What validation found in models that pydantic had let pass."""
        path: NodePath = (*base, *problem.path)
        match problem.kind:
            case ProblemKind.INVALID_VALUE:
                pass  # pydantic has found it too, and it was told then
            case ProblemKind.UNKNOWN_MODE:
                self._unknown_value(path, SUPPORTED_MODES)
            case ProblemKind.RESERVED_MODE:
                self._reserved_value(path, SUPPORTED_MODES)
            case ProblemKind.RESERVED_STEP_TYPE:
                self._reserved_value(path, tuple(ROUTES))
            case ProblemKind.DUPLICATE_STEP_ID:
                self._duplicate_step_id(path)
            case ProblemKind.UNKNOWN_DEPENDENCY:
                self._unknown_dependency(path)
            case ProblemKind.CYCLE:
                told = told_cycle(
                    problem.cycle, [self._name_of(index) for index in range(self._step_count())]
                )
                message = f"these steps wait for each other: {told}."
                self._error(Code.DEPENDENCY_CYCLE, path, message, "Remove one of these dependencies.")

    def warn_about_unknown_keys(self, model: type[BaseModel]) -> None:
        """Keys that nothing reads, with the nearest one that something does."""
        self._check_keys(self._root, model, ())

    # --- each kind of problem ---------------------------------------------------------------------

    def _unknown_value(self, path: NodePath, known: tuple[str, ...]) -> None:
        value = self._text_at(path)
        message = f"{_called(path)} is {quoted(value)}, which is none of: {', '.join(known)}."
        self._error(Code.UNKNOWN_VALUE, path, message, did_you_mean(value, known))

    def _reserved_value(self, path: NodePath, usable: tuple[str, ...]) -> None:
        value = quoted(self._text_at(path))
        message = f"{_called(path)} is {value}, which is reserved for a later version."
        self._error(Code.RESERVED_VALUE, path, message, f"Use one of: {', '.join(usable)}.")

    def _duplicate_step_id(self, path: NodePath) -> None:
        name = self._text_at(path)
        # The same UUID may be written in several ways; then no other text is equal and no line is named.
        first = next(i for i in range(self._step_count()) if self._name_of(i).lower() == name.lower())
        node = tree.find(self._root, ("steps", first, "step_id"))
        line = self._report.source.position(node.start).line if node is not None else 1
        hint = f"The first one is in line {line}; give each step its own."
        self._error(Code.DUPLICATE_STEP_ID, path, f"the step_id {quoted(name)} stands twice.", hint)

    def _unknown_dependency(self, path: NodePath) -> None:
        if path in self._told:
            return
        index, name = path[1], self._text_at(path)
        assert isinstance(index, int)
        asking = f"step {quoted(self._name_of(index))} depends on {quoted(name)}"
        names = {self._name_of(i): self._has_id(i) for i in range(self._step_count())}
        if names.get(name) is False:
            hint = f"Give that step the line 'step_id: {name}'."
            self._error(Code.STEP_WITHOUT_ID, path, f"{asking}, which has no step_id.", hint)
            return
        known = [other for other, has_id in names.items() if has_id]
        listed = ", ".join(known[:_MOST_NAMES]) + (", ..." if len(known) > _MOST_NAMES else "")
        in_file = f"Steps in this file: {listed}." if known else "No step in this file has a step_id."
        hint = " ".join(filter(None, (did_you_mean(name, known), in_file)))
        self._error(Code.STEP_NOT_DEFINED, path, f"{asking}, which no step defines.", hint)

    def _check_keys(self, node: tree.Node, model: type[BaseModel], path: NodePath) -> None:
        if isinstance(node, tree.Sequence):
            for index, item in enumerate(node.items):
                self._check_keys(item, model, (*path, index))
        elif isinstance(node, tree.Mapping):
            for name, entry in node.entries.items():
                if name in model.model_fields:
                    inner = _model_in(model.model_fields[name].annotation)
                    # The execution graph is kept as it is written; nothing there is any of our business.
                    if inner is not None and inner is not ModelExecutionGraph:
                        self._check_keys(entry.value, inner, (*path, name))
                elif not name.startswith("x-"):
                    self._unknown_key(entry.key, path, list(model.model_fields))

    def _unknown_key(self, key: tree.Scalar, path: NodePath, known: list[str]) -> None:
        tell = self._report.error if self._strict else self._report.warning
        message = f"{_called(path)} has no use for the key {quoted(key.text)}."
        tell(Code.UNKNOWN_KEY, key.start, key.end, message, did_you_mean(key.text, known))

    # --- the file ---------------------------------------------------------------------------------

    def _error(self, code: Code, path: NodePath, message: str, hint: str = "") -> None:
        self._told.add(path)
        node = tree.find(self._root, tree.existing_part(self._root, path))
        assert node is not None
        self._report.error(code, *tree.mark(node), message, hint)

    def _text_at(self, path: NodePath) -> str:
        node = tree.find(self._root, path)
        return node.text if isinstance(node, tree.Scalar) else ""

    def _step_count(self) -> int:
        steps = tree.find(self._root, ("steps",))
        return len(steps.items) if isinstance(steps, tree.Sequence) else 0

    def _has_id(self, index: int) -> bool:
        return tree.find(self._root, ("steps", index, "step_id")) is not None

    def _name_of(self, index: int) -> str:
        """What the file calls a step: its step_id, else its step_name."""
        key = "step_id" if self._has_id(index) else "step_name"
        return self._text_at(("steps", index, key))


def _called(path: NodePath) -> str:
    """How a message names a place: a value by its key, an item by its list and index."""
    if not path:
        return "the contract"
    if isinstance(path[-1], int):
        return f"'{path[-2]}[{path[-1]}]'"
    return f"'{path[-1]}'"


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model a field holds, alone or in a list; versions count as values."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel) and part is not ModelSemVer:
            return part
    return None


_EXPECTED: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "text",
    "uuid_type": "text",
}
_QUOTED: Final = re.compile(r"'([^']*)'")
_NOTHING: Final = re.compile(r"(?!)")
_WITHOUT_QUOTES: Final = {
    "a whole number": re.compile(r"[-+]?[0-9]+"),
    "true or false": re.compile(r"true|false"),
}
