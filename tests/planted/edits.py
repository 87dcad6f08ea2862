"""Changes of source code, each at a place that is named by file, function and syntax.

A place is written `file.py:Class.method`; without a function the whole file is meant. What is looked for has to be
there exactly once; if it is there more often, `nth` says which one (from 1), or a tuple of patterns narrows it down:
the last one is changed, inside the only match of the one before it. Patterns are described in `syntax.py`.
"""

import ast
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import dedent

from tests.planted.syntax import Found, Match, Pattern, filled

SOURCE = Path(__file__).parents[2] / "src" / "podium"
Find = str | tuple[str, ...]


class CannotPlant(AssertionError):
    """The source has changed so that an edit no longer applies, or applies in several places: adapt the edit."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one file: takes its text, gives the changed one."""

    place: str
    change: Callable[[str], str]

    @property
    def file(self) -> str:
        return self.place.partition(":")[0]

    def apply(self, text: str) -> str:
        changed = self.change(text)
        try:
            code = compile(changed, "", "exec") if self.file.endswith(".py") else changed
        except SyntaxError as error:
            raise CannotPlant(f"{self.place}: not Python after the edit: {error}") from error
        if changed == text or (code != changed and _same_trees(changed, text)):
            raise CannotPlant(f"{self.place}: the edit changes nothing")
        return changed


def swap(place: str, find: Find, put: str, nth: int | None = None) -> Edit:
    """Replaces an expression by an expression, or statements by statements."""
    return _edit(place, find, nth, lambda text, tree, match: _swapped(text, tree, match, put))


def drop(place: str, find: Find, nth: int | None = None) -> Edit:
    """Removes a statement, several in a row, or a keyword argument."""

    def change(text: str, tree: ast.AST, match: Match) -> str:
        if isinstance(match.nodes[0], ast.keyword):
            return _without_keyword(text, tree, match.nodes[0])
        statements = _statements(tree, match)
        if statements is not match.nodes and not _is_statement(statements[0], match.nodes[0]):
            raise CannotPlant(f"{place}: the edit removes more than it names")
        return _put(text, statements, "pass")

    return _edit(place, find, nth, change)


def before(place: str, find: Find, put: str, nth: int | None = None) -> Edit:
    """Inserts statements before the statement that has the match."""
    return _edit(
        place, find, nth, lambda text, tree, match: _beside(text, _statements(tree, match), put, None)
    )


def after(place: str, find: Find, put: str, nth: int | None = None) -> Edit:
    """Inserts statements after the statement that has the match."""
    return _edit(
        place, find, nth, lambda text, tree, match: _beside(text, _statements(tree, match), None, put)
    )


def body(place: str, put: str) -> Edit:
    """Replaces everything a function does."""
    return Edit(place, lambda text: _put(text, _body_of(text, place), put))


def start(place: str, put: str) -> Edit:
    """Inserts statements at the start of a function."""
    return Edit(place, lambda text: _beside(text, _body_of(text, place)[:1], put, None))


def decorate(place: str, put: str) -> Edit:
    """Wraps a function: `put` has statements that end with one that rebinds the function's name.

    They follow the definition, at its own level.
    """

    def change(text: str) -> str:
        return _beside(text, [_definition(ast.parse(text), place)], None, put)

    return Edit(place, change)


def reword(place: str, old: str, new: str) -> Edit:
    """Changes a part of a string (SQL, a message): `old` is in exactly one string of the place, once."""

    def change(text: str) -> str:
        tree = ast.parse(text)
        scope = _definition(tree, place)
        found = [node for node in ast.walk(scope) if _holds(node, old)]
        if len(found) != 1:
            raise CannotPlant(f"{place}: {len(found)} strings hold {old!r}, not one")
        (node,) = found
        assert isinstance(node, ast.Constant)
        return _replaced(text, tree, node, ast.Constant(str(node.value).replace(old, new)))

    return Edit(place, change)


def rewrite(file: str, old: str, new: str) -> Edit:
    """For files that are not Python (SQL, YAML): replaces text that is there exactly once."""

    def change(text: str) -> str:
        if text.count(old) != 1:
            raise CannotPlant(f"{file}: {old!r} is there {text.count(old)} times, not once")
        return text.replace(old, new)

    return Edit(file, change)


def create(file: str, text: str) -> Edit:
    """A file that does not exist."""
    return Edit(file, lambda _: text)


# --- finding -------------------------------------------------------------------------------------


def _edit(place: str, find: Find, nth: int | None, change: Callable[[str, ast.AST, Match], str]) -> Edit:
    def apply(text: str) -> str:
        tree = _parsed(text)
        return change(text, tree, _find(tree, place, find, nth))

    return Edit(place, apply)


@lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _same_trees(one: str, other: str) -> bool:
    return ast.dump(_parsed(one)) == ast.dump(_parsed(other))


def _find(tree: ast.Module, place: str, find: Find, nth: int | None) -> Match:
    *outer, last = (find,) if isinstance(find, str) else find
    roots: Found = [_definition(tree, place)]
    for source in outer:
        roots = _only(place, source, _in(roots, source), None).nodes
    return _only(place, last, _in(roots, last), nth)


def _in(roots: Found, source: str) -> list[Match]:
    try:
        pattern = Pattern(dedent(source))
    except (SyntaxError, ValueError) as error:
        raise CannotPlant(f"{source!r} is not Python: {error}") from error
    return [match for root in roots for match in pattern.find(root)]


def _only(place: str, source: str, found: list[Match], nth: int | None) -> Match:
    if not found:
        raise CannotPlant(f"{place}: nothing matches {source!r}")
    if nth is not None:
        if nth > len(found):
            raise CannotPlant(f"{place}: {source!r} matches {len(found)} times, there is no match {nth}")
        return found[nth - 1]
    if len(found) > 1:
        lines = ", ".join(str(match.line) for match in found)
        raise CannotPlant(f"{place}: {source!r} matches {len(found)} times (lines {lines}): say `nth`")
    return found[0]


def _definition(tree: ast.Module, place: str) -> ast.AST:
    file, _, name = place.partition(":")
    found: ast.AST = tree
    for part in filter(None, name.split(".")):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        inside = [node for node in _directly_in(found) if isinstance(node, kinds) and node.name == part]
        if len(inside) != 1:
            raise CannotPlant(f"{file} defines {name!r} {len(inside)} times, not once")
        found = inside[0]
    return found


def _directly_in(scope: ast.AST) -> list[ast.AST]:
    """What is below a definition, without the inside of other definitions."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _body_of(text: str, place: str) -> list[ast.AST]:
    found = _definition(ast.parse(text), place)
    statements: list[ast.AST] = list(getattr(found, "body", []))
    match statements:
        case [ast.Expr(ast.Constant(str())), _, *_]:
            return statements[1:]
    return statements


def _holds(node: ast.AST, old: str) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(old) == 1


def _statements(tree: ast.AST, match: Match) -> Found:
    """The statements of the match, or the innermost statement around it."""
    if isinstance(match.nodes[0], ast.stmt):
        return match.nodes
    inside = match.nodes[0]
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _has(node, inside)]
    return [min(around, key=lambda node: sum(1 for _ in ast.walk(node)))]


def _is_statement(statement: ast.AST, expression: ast.AST) -> bool:
    """Whether the expression is all of the statement: a call, usually."""
    return isinstance(statement, ast.Expr) and statement.value is expression


def _has(node: ast.AST, inside: ast.AST) -> bool:
    return any(one is inside for one in ast.walk(node))


# --- changing ------------------------------------------------------------------------------------


def _swapped(text: str, tree: ast.AST, match: Match, put: str) -> str:
    statements = filled(dedent(put), match.holes)
    node = match.nodes[0]
    match node, statements:
        case ast.expr(), [ast.Expr(value)]:
            return _replaced(text, tree, node, value)
        case ast.keyword(), [ast.Assign(targets=[ast.Name(name)], value=value)]:
            if name != node.arg:
                raise CannotPlant(f"a keyword argument keeps its name: {node.arg}, not {name}")
            return _replaced(text, tree, node.value, value)
        case ((ast.expr() | ast.keyword()), _):
            (around,) = _statements(tree, match)
            if not _is_statement(around, node):
                raise CannotPlant(f"{put!r} is not an expression and cannot replace one")
            return _put(text, [around], ast.unparse(ast.Module(statements, [])))
    return _put(text, match.nodes, ast.unparse(ast.Module(statements, [])))


def _without_keyword(text: str, tree: ast.AST, node: ast.keyword) -> str:
    (call,) = (one for one in ast.walk(tree) if isinstance(one, ast.Call) and node in one.keywords)
    kept = ast.Call(call.func, call.args, [one for one in call.keywords if one is not node])
    return _replaced(text, tree, call, kept)


def _replaced(text: str, tree: ast.AST, node: ast.expr, value: ast.expr) -> str:
    """The text with one expression instead of another."""
    outer = _f_string_around(tree, node)
    if outer is None:
        return _cut(text, [node], f"({ast.unparse(value)})")
    # Nodes inside an f-string have no useful positions: all of it is written again.
    return _cut(text, [outer], ast.unparse(deepcopy(outer, {id(node): value})))


def _f_string_around(tree: ast.AST, node: ast.AST) -> ast.JoinedStr | None:
    around = [one for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) and _has(one, node)]
    return around[0] if around else None


def _put(text: str, statements: Sequence[ast.AST], source: str) -> str:
    return _cut(text, statements, _indented(source, statements[0]))


def _beside(text: str, statements: Sequence[ast.AST], before: str | None, after: str | None) -> str:
    first, last = statements[0], statements[-1]
    lines = [source for source in (before, _segment(text, first, last), after) if source is not None]
    kept = lines.index(_segment(text, first, last))
    pad = "\n" + " " * _column(first)
    return _cut(
        text,
        statements,
        pad.join(line if place == kept else _indented(line, first) for place, line in enumerate(lines)),
    )


def _indented(source: str, beside: ast.AST) -> str:
    pad = " " * _column(beside)
    lines = ast.unparse(ast.parse(dedent(source))).splitlines()
    return "\n".join(line if place == 0 else pad + line for place, line in enumerate(lines))


def _cut(text: str, nodes: Sequence[ast.AST], new: str) -> str:
    start, end = _span(text, nodes[0], nodes[-1])
    data = text.encode()
    return (data[:start] + new.encode() + data[end:]).decode()


def _segment(text: str, first: ast.AST, last: ast.AST) -> str:
    start, end = _span(text, first, last)
    return text.encode()[start:end].decode()


def _span(text: str, first: ast.AST, last: ast.AST) -> tuple[int, int]:
    """Where the nodes start and end, in bytes; a definition starts with its decorators."""
    lines = text.encode().splitlines(keepends=True)
    decorators: list[ast.expr] = getattr(first, "decorator_list", [])
    line = min(_number(node, "lineno") for node in [first, *decorators])
    start = sum(map(len, lines[: line - 1])) + _column(first)
    end = sum(map(len, lines[: _number(last, "end_lineno") - 1])) + _number(last, "end_col_offset")
    return start, end


def _column(node: ast.AST) -> int:
    return _number(node, "col_offset")


def _number(node: ast.AST, name: str) -> int:
    return int(getattr(node, name))
