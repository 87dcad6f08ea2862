"""What is wrong with a contract file, in the words of the file.

Rules are not decided here: they come as pydantic's errors or as problems from `nodes/validation.py`, with the
path of the value they are about. This module finds the place in the text and says what would have been right.
"""

import re
from functools import cached_property
from typing import Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from podium.language import tree
from podium.language.codes import Code
from podium.language.diagnostics import Report, did_you_mean
from podium.language.tree import NodePath
from podium.nodes.definition import ModelExecutionGraph, ModelSemVer
from podium.nodes.sections import READ_BY_NODES
from podium.nodes.validation import (
    RESERVED_STEP_TYPE,
    ROUTES,
    SUPPORTED_MODES,
    Problem,
    ProblemKind,
    describe_cycle,
)
from podium.text import quoted

_MAX_NAMES: Final = 10


class ContractProblems:
    """Reports problems of one contract file at their positions."""

    def __init__(self, root: tree.Node, report: Report, *, strict: bool) -> None:
        self._root = root
        self._report = report
        self._strict = strict
        self._reported: set[NodePath] = set()

    def not_a_contract(self) -> None:
        self._error(
            Code.WRONG_TYPE,
            (),
            f"a contract must be a mapping, not {tree.describe(self._root)}.",
            "Start with the key 'workflow_coordination:'.",
        )

    def not_a_name(self, path: NodePath, name: str) -> None:
        self._error(
            Code.INVALID_FORMAT,
            path,
            f"{_called(path)} is {quoted(name)}, which is not a name.",
            "Use 1 to 200 printable characters without spaces at the ends, or a UUID.",
        )

    def wrong_type(self, path: NodePath, expected: str) -> None:
        node = tree.find(self._root, path)
        assert node is not None
        found = f"not {tree.describe(node)}" if not _is_nothing(node) else "but nothing is written"
        hint = _how_to_write(expected, node) if isinstance(node, tree.Scalar) else ""
        self._error(Code.WRONG_TYPE, path, f"{_called(path)} must be {expected}, {found}.", hint)

    def invalid_value(self, error: ErrorDetails, base: NodePath) -> None:
        """A problem found by pydantic."""
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
        # For a value that may be a UUID or text pydantic reports two errors; the second one is enough.
        if path[-1:] == ("uuid",):
            return
        if path[-1:] == ("str",):
            path = path[:-1]
        if path in self._reported:
            return
        value = self._text_at(path)
        match kind:
            case "literal_error" | "enum":
                words = tuple(_QUOTED.findall(str(limits["expected"])))
                self._unknown_value(path, tuple(ROUTES) if RESERVED_STEP_TYPE in words else words)
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
                message = f"{_called(path)} has {len(value)} characters, which is too long."
                self._error(Code.WRONG_LENGTH, path, message, f"Use at most {limits['max_length']}.")
            case "uuid_parsing":
                message = f"{_called(path)} is {quoted(value)}, which is not a UUID."
                self._error(
                    Code.INVALID_FORMAT, path, message, "Write one like 6f9619ff-8b86-4011-b42d-00c04fc964ff."
                )
            case "extra_forbidden":
                self._forbidden_key(path)
            case "value_error":
                node = tree.find(self._root, path)
                written = tree.describe(node) if node is not None else "missing"
                message = f"{_called(path)} is {written}, which is not a version."
                hint = "Write three numbers like 1.2.3, without leading zeros or anything behind them."
                self._error(Code.INVALID_FORMAT, path, message, hint)
            case _:
                self.wrong_type(path, _EXPECTED[kind])

    def broken_rule(self, problem: Problem, base: NodePath) -> None:
        """A problem that validation found in models accepted by pydantic."""
        path: NodePath = (*base, *problem.path)
        match problem.kind:
            case ProblemKind.INVALID_VALUE:
                pass  # pydantic has found it too, and it was reported then
            case ProblemKind.UNKNOWN_MODE:
                self._unknown_value(path, SUPPORTED_MODES)
            case ProblemKind.RESERVED_MODE:
                self._reserved_value(path, SUPPORTED_MODES)
            case ProblemKind.RESERVED_STEP_TYPE:
                self._reserved_value(path, tuple(ROUTES))
            case ProblemKind.DUPLICATE_STEP_ID:
                self._duplicate_step_id(path, problem.related[0])
            case ProblemKind.UNKNOWN_DEPENDENCY:
                self._unknown_dependency(path)
            case ProblemKind.CYCLE:
                self._cycle(path, problem.related)

    # --- runs -------------------------------------------------------------------------------------

    def nothing_to_run(self, path: NodePath) -> None:
        self._error(
            Code.MISSING_KEY,
            path,
            "there is nothing to run: the contract has neither 'steps' nor nodes in its 'execution_graph'.",
            "Add 'steps:' beside 'workflow_coordination:'.",
        )

    def report(self, code: Code, path: NodePath, message: str, hint: str = "") -> None:
        """A problem with the message of its rule."""
        self._error(code, path, message, hint)

    def contradiction(self, path: NodePath, message: str, hint: str) -> None:
        self._error(Code.CONFLICTING_KEYS, path, message, hint)

    def no_effect(self, key: tree.Scalar) -> None:
        report = self._report.error if self._strict else self._report.warning
        message = f"{quoted(key.text)} has no effect when the contract runs."
        report(Code.UNKNOWN_KEY, key.start, key.end, message, "Remove it.")

    def unknown_node(
        self, path: NodePath, node_type: str, name: str, types: tuple[str, ...], known: tuple[str, ...]
    ) -> None:
        message = f"no {node_type} node named {quoted(name)} is installed here."
        if types:
            hint = f"There is a node of that name, of type {' and '.join(types)}."
        else:
            install = "Install the package that has it (entry point group podium.nodes)."
            hint = " ".join(filter(None, (did_you_mean(name, known), install)))
        self._error(Code.UNKNOWN_NODE, path, message, hint)

    def node_not_loaded(self, path: NodePath, message: str) -> None:
        self._error(Code.UNKNOWN_NODE, path, f"{message}.")

    def unknown_operation(
        self, path: NodePath, node: str, operation: str | None, known: tuple[str, ...]
    ) -> None:
        listed = ", ".join(known) or "none"
        if operation is None:
            message = f"node {quoted(node)} has several operations, and the step names none."
            self._error(Code.UNKNOWN_OPERATION, path, message, f"Add 'operation: ...', one of: {listed}.")
            return
        message = f"node {quoted(node)} has no operation {quoted(operation)}."
        hint = " ".join(filter(None, (did_you_mean(operation, known), f"Its operations: {listed}.")))
        self._error(Code.UNKNOWN_OPERATION, path, message, hint)

    def unused_config(self, path: NodePath, node: str) -> None:
        self._error(Code.UNKNOWN_KEY, path, f"node {quoted(node)} has no use for a config.", "Remove it.")

    def invalid_config(self, path: NodePath, message: str) -> None:
        path = self._in_section(path)
        if any(one[: len(path)] == path for one in self._reported):
            return  # several nodes read the same section, or it could not be read
        self._error(Code.WRONG_TYPE, path, f"{_called(path)} does not fit the node: {message}.")

    def _in_section(self, path: NodePath) -> NodePath:
        """A part of a config that is a section of its own in the file."""
        start = path.index("config") + 1 if "config" in path else len(path)
        is_section = start < len(path) and path[start] in READ_BY_NODES
        return path[start:] if is_section and tree.find(self._root, path[: start + 1]) is None else path

    def duplicate_node(self, path: NodePath, first: NodePath) -> None:
        node = tree.find(self._root, first)
        assert node is not None
        line = self._report.source.position(node.start).line
        message = f"the node_id {quoted(self._text_at(path))} appears twice."
        hint = f"The first one is in line {line}; give each node its own."
        self._error(Code.DUPLICATE_STEP_ID, path, message, hint)

    def unknown_graph_node(self, path: NodePath, node: str, name: str, known: list[str]) -> None:
        message = f"node {quoted(node)} depends on {quoted(name)}, which no node of the graph is."
        listed = f"Nodes of the graph: {', '.join(known[:_MAX_NAMES])}."
        self._error(
            Code.STEP_NOT_DEFINED, path, message, " ".join(filter(None, (did_you_mean(name, known), listed)))
        )

    def graph_cycle(self, path: NodePath, cycle: list[int], names: list[str]) -> None:
        if len(cycle) == 1:
            message = f"node {quoted(names[cycle[0]])} waits for itself."
        else:
            message = f"these nodes wait for each other: {describe_cycle(cycle, names)}."
        self._error(Code.DEPENDENCY_CYCLE, path, message, "Remove one of these dependencies.")

    def unreachable_node(self, path: NodePath, name: str) -> None:
        message = f"node {quoted(name)} never runs: what it depends on waits for itself."
        self._error(Code.UNREACHABLE_STEP, path, message, "Remove the cycle, or this dependency.")

    def warn_about_unknown_keys(self, model: type[BaseModel]) -> None:
        """Keys that nothing reads, with the nearest known one."""
        self._check_keys(self._root, model, ())

    # --- each kind of problem ---------------------------------------------------------------------

    def _unknown_value(self, path: NodePath, known: tuple[str, ...]) -> None:
        node = tree.find(self._root, path)
        if not isinstance(node, tree.Scalar) or not isinstance(node.value, str):
            self.wrong_type(path, "text")
            return
        value = node.text
        message = f"{_called(path)} is {quoted(value)}, which is not one of: {', '.join(known)}."
        self._error(Code.UNKNOWN_VALUE, path, message, did_you_mean(value, known))

    def _reserved_value(self, path: NodePath, usable: tuple[str, ...]) -> None:
        value = quoted(self._text_at(path))
        message = f"{_called(path)} is {value}, which is reserved for a later version."
        self._error(Code.RESERVED_VALUE, path, message, f"Use one of: {', '.join(usable)}.")

    def _duplicate_step_id(self, path: NodePath, first: int) -> None:
        node = tree.find(self._root, ("steps", first, "step_id"))
        assert node is not None
        line = self._report.source.position(node.start).line
        message = f"the step_id {quoted(self._text_at(path))} appears twice."
        hint = f"The first one is in line {line}; give each step its own."
        self._error(Code.DUPLICATE_STEP_ID, path, message, hint)

    def _cycle(self, path: NodePath, cycle: tuple[int, ...]) -> None:
        if len(cycle) == 1:
            message = f"step {quoted(self._name_of(cycle[0]))} waits for itself."
            self._error(Code.DEPENDENCY_CYCLE, path, message, "Remove this dependency.")
            return
        described = describe_cycle(cycle, [self._name_of(index) for index in range(self._step_count())])
        message = f"these steps wait for each other: {described}."
        self._error(Code.DEPENDENCY_CYCLE, path, message, "Remove one of these dependencies.")

    def _unknown_dependency(self, path: NodePath) -> None:
        if path in self._reported:
            return
        if self._report.is_full:
            self._report.count_only()
            return
        index, name = path[1], self._text_at(path)
        assert isinstance(index, int)
        asking = f"step {quoted(self._name_of(index))} depends on {quoted(name)}"
        step_id = self._ids_by_step_name.get(name, ...)
        if name and step_id is None:
            hint = f"Give that step the line 'step_id: {name}'."
            self._error(Code.STEP_WITHOUT_ID, path, f"{asking}, which has no step_id.", hint)
            return
        if isinstance(step_id, str):
            suggestion = f"Did you mean {quoted(step_id)}, the step_id of that step?"
        else:
            suggestion = did_you_mean(name, self._ids)
        shown, more = self._ids[:_MAX_NAMES], len(self._ids) - _MAX_NAMES
        listed = f"Steps in this file: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}."
        hint = " ".join(
            filter(None, (suggestion, listed if shown else "No step in this file has a step_id."))
        )
        self._error(Code.STEP_NOT_DEFINED, path, f"{asking}, which no step defines.", hint)

    def _check_keys(self, node: tree.Node, model: type[BaseModel], path: NodePath) -> None:
        if isinstance(node, tree.Sequence):
            for index, item in enumerate(node.items):
                self._check_keys(item, model, (*path, index))
        elif isinstance(node, tree.Mapping):
            for name, entry in node.entries.items():
                if name in model.model_fields:
                    inner = _model_in(model.model_fields[name].annotation)
                    # The execution graph is kept as it is written and not checked. A model that forbids
                    # unknown keys reports them itself.
                    if inner is not None and inner is not ModelExecutionGraph and not _forbids(inner):
                        self._check_keys(entry.value, inner, (*path, name))
                elif not name.startswith("x-"):
                    self._unknown_key(entry.key, path, list(model.model_fields))

    def _forbidden_key(self, path: NodePath) -> None:
        parent = tree.find(self._root, path[:-1])
        assert isinstance(parent, tree.Mapping)
        key = parent.entries[str(path[-1])].key
        self._reported.add(path)
        message = f"{_called(path[:-1])} has no use for the key {quoted(key.text)}."
        self._report.error(Code.UNKNOWN_KEY, key.start, key.end, message, "Remove it, or correct its name.")

    def _unknown_key(self, key: tree.Scalar, path: NodePath, known: list[str]) -> None:
        report = self._report.error if self._strict else self._report.warning
        message = f"{_called(path)} has no use for the key {quoted(key.text)}."
        report(Code.UNKNOWN_KEY, key.start, key.end, message, did_you_mean(key.text, known))

    # --- the file ---------------------------------------------------------------------------------

    def _error(self, code: Code, path: NodePath, message: str, hint: str = "") -> None:
        self._reported.add(path)
        node = tree.find(self._root, tree.existing_part(self._root, path))
        assert node is not None
        self._report.error(code, *tree.mark(node), message, hint)

    def _text_at(self, path: NodePath) -> str:
        node = tree.find(self._root, path)
        return node.text if isinstance(node, tree.Scalar) else ""

    @cached_property
    def _ids(self) -> list[str]:
        """The step_ids of the file."""
        return [self._name_of(index) for index in range(self._step_count()) if self._has_id(index)]

    @cached_property
    def _ids_by_step_name(self) -> dict[str, str | None]:
        """The step_id, if it has one, of each step by its step_name."""
        return {
            self._text_at(("steps", index, "step_name")): self._name_of(index)
            if self._has_id(index)
            else None
            for index in range(self._step_count())
        }

    def _step_count(self) -> int:
        steps = tree.find(self._root, ("steps",))
        return len(steps.items) if isinstance(steps, tree.Sequence) else 0

    def _has_id(self, index: int) -> bool:
        return tree.find(self._root, ("steps", index, "step_id")) is not None

    def _name_of(self, index: int) -> str:
        """The name of a step in the file: its step_id, else its step_name."""
        key = "step_id" if self._has_id(index) else "step_name"
        return self._text_at(("steps", index, key))


def _called(path: NodePath) -> str:
    """How a message refers to a place: a value by its key, an item by its list and index."""
    if not path:
        return "the contract"
    if isinstance(path[-1], int):
        # People count from 1.
        return f"item {path[-1] + 1} of '{path[-2]}'"
    return f"'{path[-1]}'"


def _forbids(model: type[BaseModel]) -> bool:
    return model.model_config.get("extra") == "forbid"


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model in a field, alone or in a list; versions count as values."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel) and part is not ModelSemVer:
            return part
    return None


_EXPECTED: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "text",
    "uuid_type": "a UUID",
}
_QUOTED: Final = re.compile(r"'([^']*)'")


def _is_nothing(node: tree.Node) -> bool:
    return isinstance(node, tree.Scalar) and node.value is None


def _how_to_write(expected: str, node: tree.Scalar) -> str:
    """What to write instead of a scalar of another type."""
    text = node.text
    match expected:
        case "text":
            return "Write some text." if node.value is None else "Put it in quotes."
        case "true or false":
            if text.lower() in ("true", "yes", "on"):
                return "Write true, without quotes."
            return "Write false, without quotes." if text.lower() in ("false", "no", "off") else ""
        case "a whole number":
            return "Write it without quotes." if re.fullmatch(r"[-+]?[0-9]+", text) else ""
        case "a list":
            return f"Write [{text}]." if text else "Write [] for an empty list."
    return ""
