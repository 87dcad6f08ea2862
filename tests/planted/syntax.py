"""Finds places in source code by their syntax and changes them.

A pattern is Python source. It matches code with the same syntax tree, whatever its layout and its comments, so
formatting a file, moving a function inside it or renaming something elsewhere does not break a pattern. In a pattern

- `...` as an expression matches any expression, and as the only argument of a call any arguments;
- `...` as the body of a statement (`if ready: ...`) matches any body, and any `else`;
- `name=value` matches an assignment or a keyword argument.

In a replacement each `...` stands for what the `...` of the pattern matched, in the same order.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Fields that say nothing about what code does.
_IGNORED = frozenset({"ctx", "type_comment", "kind", "type_ignores"})
_BODIES = ("body", "orelse", "finalbody")

Found = list[ast.AST]


class Body(NamedTuple):
    """What a `...` matched as the body of a statement."""

    body: list[ast.AST]
    orelse: list[ast.AST]


# What one `...` matched: an expression, arguments, a body.
Hole = ast.AST | list[ast.AST] | Body


class Match(NamedTuple):
    """One expression or keyword, or statements that follow each other, and what the `...` matched in them."""

    nodes: Found
    holes: list[Hole]

    @property
    def line(self) -> int:
        return int(getattr(self.nodes[0], "lineno", 0))


class Pattern:
    """One of: an expression, a keyword, or statements in a row."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.statements: list[ast.stmt] = ast.parse(source).body
        if not self.statements:
            raise ValueError("a pattern cannot be empty")

    @property
    def expression(self) -> ast.expr | None:
        match self.statements:
            case [ast.Expr(value)]:
                return value
        return None

    @property
    def keyword(self) -> ast.keyword | None:
        match self.statements:
            case [ast.Assign(targets=[ast.Name(name)], value=value)]:
                return ast.keyword(arg=name, value=value)
        return None

    def find(self, root: ast.AST) -> list[Match]:
        """Every match at or below the node, in the order of the source."""
        found = list(self._matches(root))
        return sorted(found, key=lambda match: (match.line, getattr(match.nodes[0], "col_offset", 0)))

    def _matches(self, root: ast.AST) -> Iterator[Match]:
        single = self.expression or self.keyword
        for node in ast.walk(root):
            if single is not None:
                holes: list[Hole] = []
                if isinstance(node, ast.expr | ast.keyword) and same(single, node, holes):
                    yield Match([node], holes)
            if self.expression is None:
                for name in _BODIES:
                    yield from self._in_body(getattr(node, name, None))

    def _in_body(self, body: object) -> Iterator[Match]:
        if not isinstance(body, list):
            return
        size = len(self.statements)
        for start in range(len(body) - size + 1):
            row = body[start : start + size]
            holes: list[Hole] = []
            if all(same(one, other, holes) for one, other in zip(self.statements, row, strict=True)):
                yield Match(row, holes)


def same(pattern: ast.AST, node: ast.AST, holes: list[Hole]) -> bool:
    """Whether the code has the pattern's syntax; collects what `...` matched."""
    if _is_any(pattern):
        holes.append(node)
        return isinstance(node, ast.expr)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call) and _takes_anything(pattern):
        if not same(pattern.func, node.func, holes):
            return False
        holes.append([*node.args, *node.keywords])
        return True
    open_body = _is_open(getattr(pattern, "body", None))
    for name, wanted in ast.iter_fields(pattern):
        if name in _IGNORED or (open_body and name == "orelse" and not wanted):
            continue
        actual = getattr(node, name, None)
        if name == "body" and open_body:
            holes.append(Body(node.body, getattr(node, "orelse", [])))  # type: ignore[attr-defined]
        elif not _same_field(wanted, actual, holes):
            return False
    return True


def _same_field(wanted: object, actual: object, holes: list[Hole]) -> bool:
    if isinstance(wanted, ast.AST):
        return isinstance(actual, ast.AST) and same(wanted, actual, holes)
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(wanted) == len(actual)
            and all(_same_field(one, other, holes) for one, other in zip(wanted, actual, strict=True))
        )
    return wanted == actual and type(wanted) is type(actual)


def _is_any(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _takes_anything(call: ast.Call) -> bool:
    return len(call.args) == 1 and _is_any(call.args[0]) and not call.keywords


def _is_open(body: object) -> bool:
    match body:
        case [ast.Expr(ast.Constant(value))]:
            return value is ...
    return False


# --- replacements --------------------------------------------------------------------------------


class _Filling(ast.NodeTransformer):
    """Puts what the `...` of a pattern matched into its replacement."""

    def __init__(self, holes: Sequence[Hole]) -> None:
        self._holes = list(holes)

    def _next(self) -> Hole:
        if not self._holes:
            raise ValueError("the replacement has more `...` than its pattern")
        return self._holes.pop(0)

    def visit(self, node: ast.AST) -> Any:
        if not _is_open(getattr(node, "body", None)):
            return super().visit(node)
        for name, value in ast.iter_fields(node):
            if name not in _BODIES and isinstance(value, ast.AST):
                setattr(node, name, super().visit(value))
        hole = self._next()
        if isinstance(hole, Body):
            fields = {"body": hole.body, "orelse": getattr(node, "orelse", []) or hole.orelse}
            vars(node).update({name: value for name, value in fields.items() if hasattr(node, name)})
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not _takes_anything(node):
            return self.generic_visit(node)
        func = self.visit(node.func)
        hole = self._next()
        given = hole if isinstance(hole, list) else [hole]
        args = [one for one in given if isinstance(one, ast.expr)]
        return ast.Call(func, args, [one for one in given if isinstance(one, ast.keyword)])

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.AST]:
        match self._holes:
            case [Body(body), *_] if _is_any(node.value):
                del self._holes[0]
                return body
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value is not ...:
            return node
        hole = self._next()
        if not isinstance(hole, ast.AST):
            raise ValueError("`...` is an expression in the replacement and something else in the pattern")
        return hole


def filled(source: str, holes: Sequence[Hole]) -> list[ast.stmt]:
    """The statements of a replacement."""
    tree = _Filling(holes).visit(ast.parse(source)) if "..." in source else ast.parse(source)
    return list(ast.fix_missing_locations(tree).body)
