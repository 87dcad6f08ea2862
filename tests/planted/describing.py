"""Writes the edit for a change that was made by hand.

Change the source so that it breaks the rule, run `python -m tests.planted --describe`, copy the edit it prints, and
restore the source (`git checkout src`).
"""

import ast
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import NamedTuple

from tests.planted.syntax import Pattern

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Longer patterns break more often: a part with `nth` is better than a whole paragraph.
_LONG = 90
_INDENT = " " * 12


class _Difference(NamedTuple):
    """What was replaced by what; empty lists of statements mean an insertion or a removal."""

    old: list[ast.AST]
    new: list[ast.AST]
    # From the module down to what holds the difference.
    parents: tuple[ast.AST, ...]
    # For an insertion: the statements around it.
    previous: ast.AST | None = None
    following: ast.AST | None = None


def describe(file: str, old: str, new: str) -> Iterator[str]:
    """The edits that turn one text into the other, as source."""
    for difference in _differences(ast.parse(old), ast.parse(new), ()):
        yield _written(file, difference)


# --- what differs --------------------------------------------------------------------------------


def _differences(old: ast.AST, new: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[_Difference]:
    if ast.dump(old) == ast.dump(new):
        return
    inside = list(_inside(old, new, (*parents, old))) if type(old) is type(new) else []
    expressions = [one for one in inside if isinstance((one.old or one.new)[0], ast.expr)]
    whole = isinstance(old, ast.expr) and (len(inside) > 1 or any(map(_needs_more, inside)))
    if not inside or whole or len(expressions) > 2:
        yield _Difference([old], [new], parents)
    else:
        yield from inside


def _needs_more(difference: _Difference) -> bool:
    """Whether it cannot be found without what is around it: an operator; a lone constant, which is too common."""
    (old,) = difference.old
    return isinstance(old, ast.Constant | ast.Slice) or not isinstance(old, ast.expr)


def _inside(old: ast.AST, new: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[_Difference]:
    for name, one in ast.iter_fields(old):
        other = getattr(new, name, None)
        if isinstance(one, list) and isinstance(other, list):
            if name in ("body", "orelse", "finalbody") and not isinstance(old, ast.Lambda | ast.IfExp):
                yield from _statements(one, other, parents)
            elif len(one) == len(other) and all(isinstance(item, ast.AST) for item in [*one, *other]):
                for pair in zip(one, other, strict=True):
                    yield from _differences(*pair, parents)
            elif _dumped(one) != _dumped(other):
                yield _Difference([old], [new], parents[:-1])
        elif isinstance(one, ast.AST) and isinstance(other, ast.AST):
            yield from _differences(one, other, parents)
        elif one != other or type(one) is not type(other):
            yield _Difference([old], [new], parents[:-1])


def _statements(
    old: list[ast.AST], new: list[ast.AST], parents: tuple[ast.AST, ...]
) -> Iterator[_Difference]:
    before, after = _dumped(old), _dumped(new)
    head = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    tail = 0
    while tail < min(len(old), len(new)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    one, other = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(one) == len(other) and all(type(a) is type(b) for a, b in zip(one, other, strict=True)):
        for pair in zip(one, other, strict=True):
            yield from _differences(*pair, parents)
    elif one and len(one) < len(other) and type(one[-1]) is type(other[-1]):
        yield _Difference([], other[: -len(one)], parents, None, one[0])
        for pair in zip(one, other[-len(one) :], strict=True):
            yield from _differences(*pair, parents)
    elif one or other:
        previous = old[head - 1] if head else None
        following = old[len(old) - tail] if tail else None
        yield _Difference(one, other, parents, previous, following)


def _dumped(nodes: Sequence[object]) -> list[str]:
    return [ast.dump(node) if isinstance(node, ast.AST) else repr(node) for node in nodes]


# --- how it is written ---------------------------------------------------------------------------


def _written(file: str, difference: _Difference) -> str:
    old, new, around = difference.old, difference.new, difference.parents
    place, scope = _place(file, around)
    if old and not isinstance(old[0], ast.expr | ast.stmt):
        return f"# by hand: {place}, line {getattr(around[-1], 'lineno', '?')}: {ast.dump(old[0])[:60]}"
    if not old:
        return _insertion(place, scope, difference)
    find, narrowed = _find(old, scope, around)
    if not new or (len(new) == 1 and isinstance(new[0], ast.Pass)):
        return f"drop({_quoted(place)}, {find}{narrowed})"
    return f"swap({_quoted(place)}, {find}, {_quoted(_replacement(old, new))}{narrowed})"


def _insertion(place: str, scope: ast.AST, difference: _Difference) -> str:
    put = _quoted(_source(difference.new))
    for kind, beside in (("before", difference.following), ("after", difference.previous)):
        if beside is not None and not isinstance(beside, _DEFINITIONS | ast.Try):
            find, narrowed = _find([beside], scope, difference.parents)
            return f"{kind}({_quoted(place)}, {find}, {put}{narrowed})"
    return f"start({_quoted(place)}, {put})"


def _place(file: str, around: tuple[ast.AST, ...]) -> tuple[str, ast.AST]:
    definitions = [node for node in around if isinstance(node, _DEFINITIONS)]
    name = ".".join(node.name for node in definitions)
    return f"{file}:{name}" if name else file, definitions[-1] if definitions else around[0]


def _find(nodes: list[ast.AST], scope: ast.AST, around: tuple[ast.AST, ...]) -> tuple[str, str]:
    """A pattern that matches only these nodes, with what narrows it down; and `nth`, where it is needed."""
    source = _pattern(nodes)
    found = Pattern(source).find(scope)
    if len(found) == 1:
        return _quoted(_shorter(nodes, scope) or source), ""
    for parent in reversed(around[around.index(scope) + 1 :]):
        outer = _pattern([parent]) if isinstance(parent, ast.expr | ast.stmt) else ""
        if not outer or len(outer) > _LONG or len(Pattern(outer).find(scope)) != 1:
            continue
        if len(Pattern(source).find(parent)) == 1:
            return f"({_quoted(outer)}, {_quoted(source)})", ""
    first = nodes[0].value if isinstance(nodes[0], ast.Expr) else nodes[0]
    number = 1 + [match.nodes[0] for match in found].index(first)
    return _quoted(source), f", nth={number}"


def _shorter(nodes: list[ast.AST], scope: ast.AST) -> str | None:
    """A long statement with `...` for what it computes, if that is enough to find it."""
    match nodes:
        case [ast.Assign(targets=[target])] if len(ast.unparse(nodes[0])) > _LONG // 2:
            short = f"{ast.unparse(target)} = ..."
        case [ast.Return(ast.Call(func))] if len(ast.unparse(nodes[0])) > _LONG // 2:
            short = f"return {ast.unparse(func)}(...)"
        case [ast.Expr(ast.Call(func))] if len(ast.unparse(nodes[0])) > _LONG:
            short = f"{ast.unparse(func)}(...)"
        case _:
            return None
    return short if len(Pattern(short).find(scope)) == 1 else None


def _pattern(nodes: list[ast.AST]) -> str:
    return "\n".join(_header(node) for node in nodes)


def _header(node: ast.AST) -> str:
    """A statement without its body."""
    if not isinstance(getattr(node, "body", None), list) or isinstance(node, ast.Try):
        return ast.unparse(node)
    fields = {name: value for name, value in ast.iter_fields(node) if name != "orelse"}
    fields["body"] = [ast.Expr(ast.Constant(...))]
    if hasattr(node, "orelse"):
        fields["orelse"] = []
    return ast.unparse(ast.fix_missing_locations(type(node)(**fields))).replace(":\n    ...", ": ...")


def _replacement(old: list[ast.AST], new: list[ast.AST]) -> str:
    if len(old) == len(new) == 1 and "..." in _header(old[0]) and "..." in _header(new[0]):
        bodies = [getattr(node, "body", None) for node in (old[0], new[0])]
        if all(isinstance(one, list) for one in bodies) and _dumped(bodies[0] or []) == _dumped(
            bodies[1] or []
        ):
            return _header(new[0])
    return _source(new)


def _source(nodes: list[ast.AST]) -> str:
    return "\n".join(ast.unparse(node) for node in nodes)


def _quoted(text: str) -> str:
    if "\n" in text and '"""' not in text and "\\" not in text:
        return f'"""\n{indent(text, _INDENT)}\n{_INDENT}"""'
    return repr(text) if '"' in text else f'"{text}"'.replace("\n", "\\n") if "\\" not in text else repr(text)
