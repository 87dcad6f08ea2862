"""A problem inside a text is marked under the characters that people see, however YAML let them write it."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.language.reader import read_yaml
from podium.language.scalars import span_in_file
from podium.language.tree import Mapping, Scalar

MARKED = "${context.name}"
PIECES = [
    "a",
    "bb ",
    "  ",
    "\n",
    "\n\n",
    " \n",
    "\t",
    "é",
    "日本",
    "🙂",
    '"',
    "'",
    "\\",
    ": ",
    "# ",
    "- ",
    "|",
    "$$",
    "{",
]


class _Styled(str):
    __slots__ = ()


def _dumped(text: str, style: str | None, width: int, unicode: bool) -> str:
    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(
        _Styled,
        lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style=style),
    )
    dumped: str = yaml.dump(
        {"list": [{"prompt": _Styled(text)}]}, Dumper=Dumper, width=width, allow_unicode=unicode
    )
    return dumped


def _marked_in(content: str) -> str:
    """What the mark of MARKED covers in a file whose first text holds it."""
    document = read_yaml(content.encode(), "file.yaml")
    node = document.root
    while not isinstance(node, Scalar):
        assert node is not None
        node = next(iter(node.entries.values())).value if isinstance(node, Mapping) else node.items[0]
    start = str(node.value).index(MARKED)
    first, last = span_in_file(document.report.source, node, start, start + len(MARKED))
    return document.report.source.text[first:last]


@settings(max_examples=400)
@given(
    before=st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    after=st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    style=st.sampled_from(["|", ">", '"', "'", None]),
    width=st.sampled_from([20, 80]),
    unicode=st.booleans(),
    line_break=st.sampled_from(["\n", "\r\n"]),
)
def test_the_mark_covers_the_reference_and_nothing_else(
    before: str, after: str, style: str | None, width: int, unicode: bool, line_break: str
) -> None:
    dumped = _dumped(f"{before}{MARKED}{after}", style, width, unicode)

    assert _marked_in(dumped.replace("\n", line_break)) == MARKED


def test_an_escape_at_the_end_of_the_mark_is_covered_whole() -> None:
    document = read_yaml(b'text: "say \\"hi\\""', "file.yaml")
    assert isinstance(document.root, Mapping)
    scalar = document.root.entries["text"].value
    assert isinstance(scalar, Scalar)

    first, last = span_in_file(document.report.source, scalar, 4, 8)

    assert document.report.source.text[first:last] == r"\"hi\""


def test_a_place_behind_the_text_is_marked_where_it_ends() -> None:
    document = read_yaml(b"text: 'it''s'", "file.yaml")
    assert isinstance(document.root, Mapping)
    scalar = document.root.entries["text"].value
    assert isinstance(scalar, Scalar)

    assert span_in_file(document.report.source, scalar, 4, 4) == (12, 13)
