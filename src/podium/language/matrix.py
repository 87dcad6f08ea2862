"""`matrix`: a step for each combination of values, as a `for_each` that runs them concurrently.

    - name: Test                                    - name: Test
      depends_on: [Build]                             depends_on: [Build]
      matrix: {os: [a, b], py: [x, y]}     means      for_each:
      command: [test, "${matrix.os}"]                   items: [{os: a, py: x}, {os: a, py: y}, ...]
                                                        as: matrix
                                                        parallel: true
                                                        steps:
                                                          - {name: Test, command: [test, "${matrix.os}"]}

The step is rewritten before it is declared, so that later code only has to know loops.
"""

from itertools import product
from math import prod
from typing import Final

from podium.language.codes import Code
from podium.language.grammar import ACTIONS, BESIDE
from podium.language.problems import Problems
from podium.language.shapes import Checker
from podium.language.tree import Entry, Mapping, Node, Scalar, Sequence
from podium.language.values import value_at

KEY: Final = "matrix"
MAX_COMBINATIONS: Final = 1000
# Both the loop and the repeated step have these.
_OF_BOTH: Final = ("name", "id")
# A combination is never revisited by itself, so a limit of visits can only apply to the loop.
_OF_THE_LOOP: Final = ("when", "on", "depends_on", "join", "max_visits")
_IN_THE_LOOP: Final = "max_workers"


def without_matrix(step: Mapping, checker: Checker, problems: Problems) -> Mapping:
    """The loop that a step with `matrix` stands for. If it cannot be built, which is reported: the step to be
    repeated.
    """
    node = value_at(step, KEY)
    if not isinstance(node, Mapping):
        return _one_combination(step, checker)
    if not _may_have_one(step):
        return step
    items = [] if checker.is_damaged(node) else _combinations(node, step, problems)
    inner = _one_combination(step, checker)
    if not items:
        return inner
    loop = Mapping(step.start, step.end, {key: step.entries[key] for key in _OF_BOTH if key in step.entries})
    loop.entries |= {key: step.entries[key] for key in _OF_THE_LOOP if key in step.entries}
    key = step.entries[KEY].key
    loop.entries["for_each"] = Entry(key, _for_each(step, node, items, inner))
    checker.inherit(step, loop)
    return loop


def _one_combination(step: Mapping, checker: Checker) -> Mapping:
    """The step for each combination."""
    moved = {KEY, _IN_THE_LOOP, *_OF_THE_LOOP}
    entries = {key: entry for key, entry in step.entries.items() if key not in moved}
    inner = Mapping(step.start, step.end, entries)
    checker.inherit(step, inner)
    return inner


def _may_have_one(step: Mapping) -> bool:
    """For any other step the key is reported as one that does not fit."""
    actions = {ACTIONS[key] for key in step.entries if key in ACTIONS}
    return len(actions) == 1 and KEY in BESIDE[actions.pop()]


def _combinations(node: Mapping, step: Mapping, problems: Problems) -> list[Node]:
    """One mapping per combination, the first key changing slowest; none if there is a problem, which is
    reported.
    """
    lists = {
        key: entry.value.items for key, entry in node.entries.items() if isinstance(entry.value, Sequence)
    }
    count = prod(map(len, lists.values()))
    if not lists or count > MAX_COMBINATIONS:
        problems.at_key(
            Code.TOO_MANY_ITEMS if lists else Code.WRONG_LENGTH,
            step,
            KEY,
            f"'matrix' has {count:,} combinations; the maximum is {MAX_COMBINATIONS:,}."
            if lists
            else "'matrix' has no keys.",
            "Write fewer values, or a `for_each` over a list."
            if lists
            else "Write at least one, like {os: [linux, mac]}.",
        )
        return []
    values = [value for listed in lists.values() for value in listed if isinstance(value, Scalar)]
    _warn_of_lost_digits(values, problems)
    templates = [value for value in values if isinstance(value.value, str) and "${" in value.value]
    for value in templates:
        problems.error(
            Code.INVALID_FORMAT,
            value,
            "the values of 'matrix' must be known when the workflow is read.",
            "Write them without ${...}, or use `for_each` with `items: ${...}`.",
        )
    return [] if templates else [_item(node, combination) for combination in product(*lists.values())]


def _warn_of_lost_digits(values: list[Scalar], problems: Problems) -> None:
    """An unquoted version like 3.10 is a YAML number and means 3.1."""
    for value in values:
        if isinstance(value.value, float) and value.text.endswith("0"):
            problems.warning(
                Code.WRONG_KIND,
                value,
                f"{value.text} is a number, the same as {value.value:g}.",
                f'Write it in quotes if it is a version: "{value.text}".',
            )


def keys_of(loop: Mapping) -> frozenset[str] | None:
    """The keys that `${matrix.KEY}` may name in a `for_each` that was a matrix; None for any other."""
    variable, items = loop.entries.get("as"), value_at(loop, "items")
    if variable is None or variable.key.text != KEY or not isinstance(items, Sequence):
        return None
    first = items.items[0]
    return frozenset(first.entries) if isinstance(first, Mapping) else None


def _item(node: Mapping, values: tuple[Node, ...]) -> Mapping:
    entries = {
        key: Entry(entry.key, value) for (key, entry), value in zip(node.entries.items(), values, strict=True)
    }
    return Mapping(node.start, node.end, entries)


def _for_each(step: Mapping, node: Mapping, items: list[Node], inner: Mapping) -> Mapping:
    key = step.entries[KEY].key
    written: dict[str, Node] = {
        "items": Sequence(node.start, node.end, items),
        "as": Scalar(key.start, key.end, KEY, KEY),
        "parallel": Scalar(key.start, key.end, "true", True),
        "steps": Sequence(step.start, step.end, [inner]),
    }
    loop = Mapping(node.start, node.end, {name: Entry(key, value) for name, value in written.items()})
    if _IN_THE_LOOP in step.entries:
        loop.entries[_IN_THE_LOOP] = step.entries[_IN_THE_LOOP]
    return loop
