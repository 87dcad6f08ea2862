"""Texts with references in them, filled in.

A text is filled in once: a value is inserted as it is and never parsed again. So no value can add an
argument, end a quotation or refer to another value.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from podium.expressions.evaluate import MISSING, EvaluationError, Lookup, shown, text_of, unparse_reference
from podium.expressions.types import Data, DataList, DataMap, Reference, Template, Text, Value

# Sixteen times the largest value that a step can pass on: a longer text is a mistake, and must still fit in
# memory.
MAX_LENGTH: Final = 16 * 1024 * 1024


class ValueMissing(EvaluationError):
    """A text needs a value that does not exist: the step has not run, or there is no such key."""

    code = "VALUE_MISSING"


def render(text: Text, lookup: Lookup) -> str:
    if isinstance(text, str):
        return text
    written = []
    left = MAX_LENGTH
    for part in text.parts:
        piece = part if isinstance(part, str) else text_of(_value(part, lookup))
        left -= len(piece)
        if left < 0:
            raise EvaluationError(
                f"the text has more than {MAX_LENGTH:,} characters once its values are put in"
            )
        written.append(piece)
    return "".join(written)


def render_value(text: Text, lookup: Lookup) -> Value:
    """Like `render`, but a text that is a single reference keeps the type of its value."""
    if isinstance(text, Template) and len(text.parts) == 1 and isinstance(text.parts[0], Reference):
        return _value(text.parts[0], lookup)
    return render(text, lookup)


def fill_in(data: Data, lookup: Lookup) -> Value:
    """Nested data with its texts filled in."""
    match data:
        case Reference():
            return _value(data, lookup)
        case Template():
            return render_value(data, lookup)
        case DataList():
            return [fill_in(item, lookup) for item in data.items]
        case DataMap():
            return {key: fill_in(item, lookup) for key, item in data.entries.items()}
        case _:
            return data


def render_arguments(argv: Sequence[Text], lookup: Lookup) -> list[str]:
    """The arguments of a command. Each text is one argument, except `${list[*]}`, which is one for each item."""
    arguments: list[str] = []
    for text in argv:
        for argument in _spread(text, lookup) if is_spread(text) else (render(text, lookup),):
            _check_argument(argument, len(arguments))
            arguments.append(argument)
    return arguments


def is_spread(text: Text) -> bool:
    """Whether the text is `${list[*]}`, which becomes as many arguments as the list has items."""
    if not isinstance(text, Template) or len(text.parts) != 1:
        return False
    (part,) = text.parts
    return isinstance(part, Reference) and part.spread


def _spread(text: Text, lookup: Lookup) -> Iterator[str]:
    assert isinstance(text, Template)
    (reference,) = text.parts
    assert isinstance(reference, Reference)
    items = _looked_up(reference, lookup)
    if not isinstance(items, list):
        raise EvaluationError(f"{unparse_reference(reference)} needs a list, and it is {shown(items)}")
    return map(text_of, items)


def _value(reference: Reference, lookup: Lookup) -> Value:
    if reference.spread:
        raise EvaluationError(f"{unparse_reference(reference)} can only be an argument of its own")
    return _looked_up(reference, lookup)


def _looked_up(reference: Reference, lookup: Lookup) -> Value:
    value = lookup(reference.path)
    if value is not MISSING:
        return value
    if reference.default is None:
        raise ValueMissing(f"{unparse_reference(reference)} has no value here, and no default")
    return reference.default


def _check_argument(argument: str, index: int) -> None:
    if "\0" in argument:
        raise EvaluationError(f"argument {index} contains a NUL character, which no program can be given")
    try:
        argument.isascii() or argument.encode()
    except UnicodeEncodeError:
        raise EvaluationError(f"argument {index} contains half a character (a lone surrogate)") from None
