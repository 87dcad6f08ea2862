"""Whatever bytes a file holds, reading it ends, never raises, and says where the problems are."""

import json
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podium.language import tree
from podium.language.codes import Code
from podium.language.diagnostics import Diagnostic, Severity
from podium.language.reader import read_yaml
from podium.language.tree import Plain
from podium.nodes.contract import read_contract

EXAMPLE: Final = (Path(__file__).parents[3] / "examples" / "contracts" / "etl_pipeline.yaml").read_bytes()
LINES: Final = EXAMPLE.splitlines(keepends=True)

bounded = settings(
    max_examples=300,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(content: bytes, *, strict: bool = False) -> None:
    """The promise to everyone who reads a file of unknown origin."""
    document = read_yaml(content, "f.yaml")
    for found in document.report.diagnostics:
        check_diagnostic(found)
    assert document.root is not None or document.report.has_errors

    reading = read_contract(content, "f.yaml", strict=strict)
    for found in reading.diagnostics:
        check_diagnostic(found)
    has_errors = any(found.severity is Severity.ERROR for found in reading.diagnostics)
    assert (reading.contract is None) == has_errors


def check_diagnostic(found: Diagnostic) -> None:
    assert found.code in Code
    assert found.line >= 1
    assert found.column >= 1
    assert found.end_column > found.column
    assert found.message
    shown = str(found).replace("\n", "").replace("\t", "")
    assert [c for c in shown if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0] == []


# --- content -------------------------------------------------------------------------------------


@given(st.binary(max_size=2_000))
@bounded
def test_arbitrary_bytes_are_read_or_refused(content: bytes) -> None:
    check(content)


@given(st.text(max_size=400))
@bounded
def test_arbitrary_text_is_read_or_refused(text: str) -> None:
    check(text.encode())


@st.composite
def mutated(draw: st.DrawFn, parts: list[bytes]) -> bytes:
    """The example with a few of its parts deleted, doubled, replaced or swapped."""
    parts = list(parts)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(parts) - 1))
        match draw(st.sampled_from(["delete", "double", "insert", "replace", "swap", "move"])):
            case "delete" if len(parts) > 1:
                del parts[place]
            case "double":
                parts.insert(place, parts[place])
            case "insert":
                parts.insert(place, draw(FRAGMENTS))
            case "replace":
                parts[place] = draw(FRAGMENTS)
            case "swap":
                other = draw(st.integers(0, len(parts) - 1))
                parts[place], parts[other] = parts[other], parts[place]
            case _:
                parts.insert(draw(st.integers(0, len(parts) - 1)), parts.pop(place))
    return b"".join(parts)


FRAGMENTS: Final = st.sampled_from(
    [
        *(bytes([byte]) for byte in b"\n\r\t :-?[]{},#&*!|>'\"%@`\\~<0a\0\x1b\x7f\x80\xff"),
        b"\n---\n",
        b"\n...\n",
        b"<<: ",
        b"&a ",
        b"*a ",
        b"!!str ",
        b"1e999",
        b".nan",
        b"99999999999999999999",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xf0\x9f\x9a\x80",
        b"[[[[",
        b"\n      ",
        b"steps:\n",
        b"step_id: extract_a\n",
        b"depends_on: [transform, nothing]\n",
        b"step_type: conditional\n",
    ]
)


@given(mutated(LINES), st.booleans())
@bounded
def test_a_contract_with_mutated_lines_is_read_or_refused(content: bytes, strict: bool) -> None:
    check(content, strict=strict)


@given(mutated([EXAMPLE[i : i + 1] for i in range(len(EXAMPLE))]), st.booleans())
@bounded
def test_a_contract_with_mutated_bytes_is_read_or_refused(content: bytes, strict: bool) -> None:
    check(content, strict=strict)


MARKS: Final = ["- ", "? ", ": ", '"', "'", "[", "]", "{", "}", ", ", "\n", "\n  ", "\n    ", "#", " #", "\\"]
REFUSED: Final = ["&x ", "*x ", "<<: ", "!t ", "!!map ", "---\n", "1e999", ".inf", "\t"]
WRITTEN: Final = [
    "1",
    "-1",
    "1.5",
    "0x1F",
    "~",
    "true",
    "yes",
    "🚀",
    "\\x41",
    "x y",
    "|\n",
    ">-\n",
    "...\n",
    "\r\n",
]
UPPER_KEYS: Final = [
    "workflow_coordination:\n",
    "workflow_definition:\n",
    "version: ",
    "1.0.0",
    "steps:\n",
    "a: ",
]
LOWER_KEYS: Final = [
    "step_id: ",
    "step_name: ",
    "step_type: ",
    "effect",
    "depends_on: ",
    "enabled: ",
    "timeout_ms: ",
]
# At most 80: fewer than the 100 problems that are listed.
TOKENS: Final = st.lists(
    st.sampled_from([*MARKS, *REFUSED, *WRITTEN, *UPPER_KEYS, *LOWER_KEYS]), max_size=80
).map("".join)


@given(TOKENS)
@bounded
def test_a_soup_of_tokens_is_read_or_refused(text: str) -> None:
    check(text.encode())


NUMBERS: Final = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
WORDS: Final = st.sampled_from(
    ["compute", "effect", "conditional", "a", "b", "1.0.0", "stop", "sequential", "", " "]
)
UUIDS: Final = st.sampled_from(["6f9619ff-8b86-4011-b42d-00c04fc964ff", "6F9619FF8B864011B42D00C04FC964FF"])
SCALARS: Final = st.none() | st.booleans() | NUMBERS | WORDS | UUIDS | st.text(max_size=10)
VALUES: Final = (
    SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=5), SCALARS, max_size=3)
)

DEFINITION_KEYS: Final = [
    "version",
    "workflow_metadata",
    "execution_graph",
    "coordination_rules",
    "saga_pattern",
]
METADATA_KEYS: Final = ["workflow_name", "workflow_version", "description", "execution_mode", "timeout_ms"]
RULES_KEYS: Final = ["synchronization_points", "failure_recovery_strategy", "max_retries"]
NODE_KEYS: Final = ["version", "node_id", "node_type", "description", "dependencies", "colour"]
STEP_KEYS: Final = [
    "step_id",
    "step_name",
    "step_type",
    "depends_on",
    "enabled",
    "timeout_ms",
    "correlation_id",
]
OTHER_STEP_KEYS: Final = [
    "error_action",
    "max_memory_mb",
    "parallel_group",
    "idempotency_key",
    "stepname",
    "x-note",
]


def mappings(keys: list[str], values: st.SearchStrategy[object] = VALUES) -> st.SearchStrategy[object]:
    return st.dictionaries(st.sampled_from(keys), values, max_size=8)


NODES: Final = st.lists(VALUES | mappings(NODE_KEYS), max_size=3)
DEFINITIONS: Final = mappings(
    DEFINITION_KEYS, VALUES | mappings(["version", "nodes", *METADATA_KEYS, *RULES_KEYS], VALUES | NODES)
)
STEPS: Final = st.lists(VALUES | mappings([*STEP_KEYS, *OTHER_STEP_KEYS]), max_size=5)


@given(VALUES | DEFINITIONS, VALUES | STEPS, st.booleans())
@bounded
def test_a_contract_with_any_value_in_any_place_is_read_or_refused(
    definition: object, steps: object, strict: bool
) -> None:
    data = {"workflow_coordination": {"workflow_definition": definition}, "steps": steps}

    check(as_yaml(data).encode(), strict=strict)


# --- round trips ---------------------------------------------------------------------------------

# What JSON can spell with escapes of four digits; of the rest only what a file may hold as it is.
BASIC_PLANE: Final = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])
PRINTABLE: Final = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cn", "Co"])


def trees(characters: st.SearchStrategy[str]) -> st.SearchStrategy[Plain]:
    text = st.text(characters, max_size=20)
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
        max_leaves=12,
    )


def as_yaml(data: object) -> str:
    """JSON with escapes for what a file may not hold, and without those for surrogates, which YAML refuses."""
    written = json.dumps(data, ensure_ascii=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in written)


def same(one: Plain, other: Plain) -> bool:
    """Equal, and of equal types: for Python 1, 1.0 and True are all the same."""
    return repr(one) == repr(other)


@given(trees(BASIC_PLANE))
@bounded
def test_plain_data_written_as_escaped_json_is_read_back(data: Plain) -> None:
    document = read_yaml(json.dumps(data).encode(), "f.yaml")

    assert document.report.diagnostics == []
    assert document.root is not None
    assert same(tree.plain(document.root), data)


@given(trees(PRINTABLE), st.sampled_from([None, 0, 2]))
@bounded
def test_plain_data_written_as_readable_json_is_read_back(data: Plain, indent: int | None) -> None:
    document = read_yaml(json.dumps(data, ensure_ascii=False, indent=indent).encode(), "f.yaml")

    assert document.report.diagnostics == []
    assert document.root is not None
    assert same(tree.plain(document.root), data)


@given(trees(PRINTABLE))
@bounded
def test_every_node_of_a_document_stands_inside_its_text(data: Plain) -> None:
    text = json.dumps(data, ensure_ascii=False)
    document = read_yaml(text.encode(), "f.yaml")
    assert document.root is not None

    unseen = [document.root]
    while unseen:
        node = unseen.pop()
        assert 0 <= node.start < node.end <= len(text)
        # Every piece of JSON is JSON: what stands between the offsets is the value itself.
        assert same(json.loads(text[node.start : node.end]), tree.plain(node))
        if isinstance(node, tree.Sequence):
            unseen += node.items
        elif isinstance(node, tree.Mapping):
            unseen += [part for entry in node.entries.values() for part in (entry.key, entry.value)]
