"""Scalars and data of a workflow file, converted to the trees that a plan holds."""

from collections.abc import Mapping as MappingOf
from typing import Any, Final

from podium.expressions.types import Data, DataList, DataMap, Expression, Reference, Template, Text
from podium.language.codes import Code
from podium.language.diagnostics import Severity
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds
from podium.language.references import Names, Place
from podium.language.templates import ExpressionProblem, OnReference, command_words, parse_template
from podium.language.tree import Mapping, Node, Plain, Scalar, Sequence, plain
from podium.text import quoted

# Words that people write when they believe that a shell reads the line.
_SHELL_WORDS: Final = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "*"})
# Only words with one of them can be meant for a shell to expand.
_EXPANDED: Final = frozenset("$*")


def text_of(node: Node, names: Names, place: Place) -> Text:
    """A text with its `${...}` resolved; empty if the text has a problem, which is reported."""
    assert isinstance(node, Scalar)
    value = node.value if isinstance(node.value, str) else node.text
    if "{{" in value:
        warn_of_other_templates(node, names)
    if "${" not in value:
        return value
    text = template_of(node, names, names.reader(node, place))
    if isinstance(text, Template) and any(isinstance(part, Reference) and part.spread for part in text.parts):
        names.problems.error(
            Code.INVALID_TEMPLATE,
            node,
            "a list cannot be spread here.",
            "Use [*] only as a whole element of a list of arguments.",
        )
    return text


def warn_of_other_templates(node: Scalar, names: Names) -> None:
    # Imported with the first of them.
    from podium.language.other_tools import DOUBLE_BRACES, instead_of, is_ours

    for found in DOUBLE_BRACES.finditer(str(node.value)):
        # The ones with a `$` are errors, not text.
        if not found[0].startswith("$") and is_ours(found, names.reference_to):
            names.problems.inside(
                Code.OTHER_TEMPLATE,
                node,
                *found.span(),
                f"{quoted(found[0])} stays as it is written: it is not a value here.",
                instead_of(found[1], names.reference_to),
                Severity.WARNING,
            )


def known_text(node: Scalar, names: Names, place: Place) -> tuple[Text, Kinds]:
    """Like `text_of`, with what is known about its value; for a text that is a single `${...}`, that is the
    reference's.
    """
    kinds: list[Kinds] = []
    reader = names.reader(node, place)

    def on_reference(reference: Reference, start: int, end: int) -> tuple[Reference, Kinds]:
        found, known = reader(reference, start, end)
        kinds.append(known)
        return found, known

    text = template_of(node, names, on_reference)
    if text == "" and node.text != "":
        return text, Kinds.ANY  # already reported
    return text, kinds[0] if lone_reference(text) is not None else Kinds.TEXT


def template_of(node: Scalar, names: Names, reader: OnReference) -> Text:
    try:
        return parse_template(node.value if isinstance(node.value, str) else node.text, reader)
    except ExpressionProblem as problem:
        _report(problem, node, Code.INVALID_TEMPLATE, names)
        return ""


def arguments_of(node: Node, names: Names, place: Place) -> tuple[Text, ...]:
    """The items of a list of arguments; only here a list may be spread."""
    assert isinstance(node, Sequence)
    return tuple(_argument(item, names, place) for item in node.items if isinstance(item, Scalar))


def _argument(node: Scalar, names: Names, place: Place) -> Text:
    if "{{" in node.text:
        warn_of_other_templates(node, names)
    if "${" not in node.text:
        return node.text
    return template_of(node, names, names.reader(node, place))


def command_of(node: Node, names: Names) -> tuple[Text, ...]:
    """`command`: a list of arguments, or a line that is split into words before values are inserted."""
    if isinstance(node, Sequence):
        argv = arguments_of(node, names, Place.ARGUMENT)
        first = node.items[0]
        if isinstance(first, Scalar) and first.text == "":
            names.problems.error(
                Code.WRONG_LENGTH,
                first,
                "the program's name is empty.",
                "Write the program to run, like [make, test].",
            )
        _warn_of_unexpanded(node, names)
        return argv
    assert isinstance(node, Scalar)
    if "{{" in node.text:
        warn_of_other_templates(node, names)
    try:
        words = command_words(str(node.value), names.reader(node, Place.ARGUMENT))
    except ExpressionProblem as problem:
        _report(problem, node, Code.INVALID_TEMPLATE, names)
        return ("",)
    if not words:
        names.problems.error(
            Code.WRONG_LENGTH,
            node,
            "the command has no words.",
            "Write the program to run, like `make test`.",
        )
    program = str(words[0].text) if words else ""
    for word in words:
        if word.bare and (word.text in _SHELL_WORDS or _is_unexpanded(word.text, program)):
            names.problems.inside(
                Code.SHELL_SYNTAX,
                node,
                word.start,
                word.end,
                f"{quoted(str(word.text))} is passed to the program unchanged: no shell is involved.",
                "Use `shell:` instead of `command:`, or quote the word if it is meant.",
                Severity.WARNING,
            )
            break  # its author expects a shell; one report is enough
    return tuple(word.text for word in words)


def _warn_of_unexpanded(node: Sequence, names: Names) -> None:
    """Variables and patterns in a list of arguments, which only a shell would expand."""
    first = node.items[0]
    program = first.text if isinstance(first, Scalar) else ""
    for item in node.items[1:]:
        if (
            isinstance(item, Scalar)
            and ("$" in item.text or "*" in item.text)
            and _is_unexpanded(item.text, program)
        ):
            names.problems.warning(
                Code.SHELL_SYNTAX,
                item,
                f"{quoted(item.text)} is passed to the program unchanged: no shell is involved.",
                _instead_of_unexpanded(item.text),
            )
            break  # one report is enough


def _is_unexpanded(text: Text, program: str) -> bool:
    if not isinstance(text, str) or _EXPANDED.isdisjoint(text):
        return False
    from podium.language.other_tools import VARIABLE_IN_WORD, is_unexpanded_glob

    is_shell = program.rsplit("/", 1)[-1].endswith("sh")
    return not is_shell and (
        VARIABLE_IN_WORD.fullmatch(text) is not None or is_unexpanded_glob(text, program)
    )


def _instead_of_unexpanded(text: str) -> str:
    from podium.language.other_tools import VARIABLE_IN_WORD

    found = VARIABLE_IN_WORD.fullmatch(text)
    if found is None:
        return "Use `shell:` instead of `command:`; a shell replaces it by names of files."
    return (
        f"Use `shell:` instead of `command:`, or write ${{env.{found[1]}}} and add `env_allow: [{found[1]}]`."
    )


def expression_of(node: Node, names: Names) -> Expression:
    assert isinstance(node, Scalar)
    try:
        return parse_expression(str(node.value), names.reader(node, Place.STORED))
    except ExpressionProblem as problem:
        _report(problem, node, Code.INVALID_EXPRESSION, names)
        return None


def data_of(node: Node, names: Names, place: Place) -> Data:
    """Plain data in which texts may be templates. A text that is a single `${...}` keeps the type of its
    value.
    """
    match node:
        case Scalar(value=str()):
            text = text_of(node, names, place)
            return lone_reference(text) or text
        case Scalar():
            value: Data = number_of(node.value)
            return value
        case Sequence():
            return DataList(tuple(data_of(item, names, place) for item in node.items))
        case Mapping():
            return DataMap({key: data_of(entry.value, names, place) for key, entry in node.entries.items()})


def data_map(node: Node, names: Names, place: Place) -> dict[str, Data]:
    assert isinstance(node, Mapping)
    return {key: data_of(entry.value, names, place) for key, entry in node.entries.items()}


def text_map(node: Node, names: Names, place: Place) -> dict[str, Text]:
    assert isinstance(node, Mapping)
    return {key: text_of(entry.value, names, place) for key, entry in node.entries.items()}


def lone_reference(text: Text) -> Reference | None:
    """The reference, if the text consists of nothing else."""
    if isinstance(text, Template) and len(text.parts) == 1 and isinstance(text.parts[0], Reference):
        return text.parts[0]
    return None


def number_of(value: Any) -> Any:
    """1.0 becomes 1: in the canonical form of a plan they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def literal_of(node: Node) -> Any:
    """Plain data in the form of a plan."""
    return _numbers(plain(node))


def _numbers(value: Plain) -> Any:
    match value:
        case list():
            return [_numbers(item) for item in value]
        case dict():
            return {key: _numbers(item) for key, item in value.items()}
        case _:
            return number_of(value)


def value_at(node: Mapping, key: str) -> Node | None:
    entry = node.entries.get(key)
    return entry.value if entry is not None else None


def scalar_at(node: Mapping, key: str, default: Any = None) -> Any:
    """The value of a scalar whose shape was checked."""
    entry = node.entries.get(key)
    if entry is None:
        return default
    assert isinstance(entry.value, Scalar)
    value = entry.value.value
    return number_of(value) if type(value) is float else value


def texts_at(node: Mapping, key: str) -> tuple[str, ...]:
    entry = node.entries.get(key)
    if entry is None:
        return ()
    assert isinstance(entry.value, Sequence)
    return tuple(str(item.value) for item in entry.value.items if isinstance(item, Scalar))


def given(**fields: Any) -> MappingOf[str, Any]:
    """The fields that are not None; the others get the plan's defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def _report(problem: ExpressionProblem, node: Scalar, code: Code, names: Names) -> None:
    names.problems.inside(code, node, problem.start, problem.end, problem.message, problem.hint)
