"""Expressions to try things with: trees that make sense, so that neither the parser nor Python has to object."""

from typing import Any

from hypothesis import strategies as st

from podium.expressions.types import Binary, Call, Compare, Expression, Listed, Logic, Reference, Unary

LARGEST = 2**53 - 1

segments = st.one_of(
    st.sampled_from(
        ["steps", "context", "Build Image", "exit_code", "a.b", 'say "hi"', " x ", "a:-b", "${x}", "]", ""]
    ),
    st.text(max_size=6),
)
references = st.builds(
    lambda first, rest, default: Reference((first, *rest), default),
    st.sampled_from(["steps", "context", "item", "a b", "n-1", "it's"]),
    st.lists(st.one_of(segments, st.integers(0, 10**15 - 1)), max_size=3),
    st.one_of(st.none(), st.text(max_size=5).filter(lambda text: "}" not in text and "${" not in text)),
)
fractions = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda number: not number.is_integer())


def numbers(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        divisors = parts.filter(lambda part: part != 0)
        return st.one_of(
            st.builds(Binary, st.sampled_from(["+", "-", "*"]), parts, parts),
            st.builds(Binary, st.sampled_from(["/", "%"]), parts, divisors),
            st.builds(Unary, st.just("-"), parts),
            st.builds(lambda name, part: Call(name, (part,)), st.sampled_from(["int", "float"]), parts),
        )

    return st.recursive(leaves, larger, max_leaves=6)


def texts(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.builds(Binary, st.just("+"), parts, parts),
            st.builds(lambda name, part: Call(name, (part,)), st.sampled_from(["str", "lower"]), parts),
        )

    return st.recursive(leaves, larger, max_leaves=4)


def booleans(
    leaves: st.SearchStrategy[Any], number: st.SearchStrategy[Any], text: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Conditions over numbers and texts; nothing is compared with something of another type."""
    ordering = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])

    def chain(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        rest = st.lists(st.tuples(ordering, kind), min_size=1, max_size=3).map(tuple)
        return st.builds(Compare, kind, rest)

    def member(kind: st.SearchStrategy[Any], container: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.builds(
            lambda item, operator, within: Compare(item, ((operator, within),)),
            kind,
            st.sampled_from(["in", "not in"]),
            container,
        )

    lists = st.lists(number, max_size=3).map(lambda items: Listed(tuple(items)))
    tests = st.builds(
        lambda name, one, other: Call(name, (one, other)),
        st.sampled_from(["startswith", "endswith"]),
        text,
        text,
    )
    simple = st.one_of(leaves, chain(number), chain(text), member(number, lists), member(text, text), tests)

    def larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Logic, st.sampled_from(["and", "or"]), several),
            st.builds(Unary, st.just("not"), parts),
            st.builds(lambda one, other: Compare(one, (("==", other),)), parts, parts),
        )

    return st.recursive(simple, larger, max_leaves=4)


_numbers = numbers(st.one_of(references, st.integers(-LARGEST, LARGEST), fractions))
_texts = texts(st.one_of(references, st.text(max_size=10)))
_booleans = booleans(st.one_of(references, st.booleans()), _numbers, _texts)
trees: st.SearchStrategy[Expression] = st.one_of(
    _numbers,
    _texts,
    _booleans,
    st.none(),
    st.lists(_booleans, max_size=3).map(lambda items: Listed(tuple(items))),
)
