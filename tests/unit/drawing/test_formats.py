"""What the writers write: whole, the same every time, and never anything that a name could make them write."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from podium.drawing import FORMATS, drawn, shown
from podium.drawing.picture import Box, Exit, Picture
from tests.unit.drawing import plans

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    '"]; click n0 "javascript:alert(1)"',
    "a & b 'c' \"d\"",
    "`**bold**` #quot; ;",
    "\\N \\l \\",
    "]]> --> <!-- ",
    "\x1b[31mred\x07",
    "\u202egnp.exe",
    "1. first",
    "- item",
    "end",
    "\ufffe\uffff\x00\ud800",
    "%%{init: {}}%%",
    "line\nsubgraph x\nend",
]


def hostile_picture(text: str) -> Picture:
    exits = (Exit(("failure",), "error", f"error: {text}", False),)
    inner = Box(2, "command", text, text, text, (text,), exits)
    return shown(Picture(text, text, (Box(1, "for_each", text, text, text, (), exits, (inner,)),), ()))


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_plan_gives_the_same_bytes(format_: str) -> None:
    one, other = (drawn(plans.plan_of(plans.EVERY_KIND), format_) for _ in range(2))
    assert one == other
    assert one.endswith("\n")


@pytest.mark.parametrize("format_", FORMATS)
def test_every_step_is_there(format_: str) -> None:
    written = drawn(plans.plan_of(plans.EVERY_KIND), format_)
    for name in ("Gate", "Loop", "Inner", "Leave", "Branches", "Left", "One", "After", "_error", "Clean up"):
        assert name in written


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_reaches_the_terminal_that_it_would_obey(format_: str, text: str) -> None:
    written = FORMATS[format_](hostile_picture(text))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", written)
    written.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_names_never_become_markup_in_svg(text: str) -> None:
    harmless = ElementTree.fromstring(FORMATS["svg"](hostile_picture("x")))
    written = FORMATS["svg"](hostile_picture(text))
    root = ElementTree.fromstring(written)
    assert [one.tag for one in root.iter()] == [one.tag for one in harmless.iter()]
    assert {tuple(sorted(one.attrib)) for one in root.iter()} == {
        tuple(sorted(one.attrib)) for one in harmless.iter()
    }
    assert "<script" not in written


def test_names_are_shown_as_they_are_in_svg() -> None:
    root = ElementTree.fromstring(FORMATS["svg"](hostile_picture("<b> & \"c\" 'd'")))
    assert "<b> & \"c\" 'd'" in [one.text for one in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_never_become_syntax_in_mermaid(text: str) -> None:
    def bare(written: str) -> str:
        return re.sub('"[^"]*"', '""', written)

    written = FORMATS["mermaid"](hostile_picture(text))
    assert bare(written) == bare(FORMATS["mermaid"](hostile_picture("x")))
    for label in re.findall('"([^"]*)"', written):
        assert not re.search(r"[<>`\\{}\[\]]|%%", label.replace("<br/>", ""))
        assert not re.match(r"\s*(-|\d+[.)])", label)


@pytest.mark.parametrize("text", HOSTILE)
def test_names_never_become_syntax_in_dot(text: str) -> None:
    def bare(written: str) -> str:
        return re.sub(r'"(?:[^"\\]|\\.)*"', '""', written)

    written = FORMATS["dot"](hostile_picture(text))
    assert bare(written) == bare(FORMATS["dot"](hostile_picture("x")))
    # The only escapes are the ones that the writer makes.
    assert set(re.findall(r"\\(.)", written)) <= {"\\", '"', "n"}


def test_a_svg_tells_what_it_shows_and_needs_nothing_else() -> None:
    written = drawn(plans.plan_of(plans.EVERY_KIND), "svg")
    root = ElementTree.fromstring(written)
    assert root.get("role") == "img"
    ids = {one.get("id"): one.text or "" for one in root if one.get("id")}
    assert (root.get("aria-labelledby") or "").split() == ["picture-title", "picture-text"]
    assert ids["picture-title"] == "Every kind"
    assert ids["picture-text"].startswith("A workflow of 15 steps: Gate, Loop, Loop/Ask, ")
    assert "prefers-color-scheme: dark" in written
    assert not re.search(
        r"href|url\((?!#)|<script|on\w+=", written.split("<desc")[0] + written.split("</style>")[1]
    )


def test_in_svg_implied_ways_are_dashed_and_every_arrow_is_drawn() -> None:
    picture = plans.picture(plans.EVERY_KIND)
    root = ElementTree.fromstring(FORMATS["svg"](picture))
    paths = [one for one in root.iter(f"{SVG}path") if one.get("marker-end")]
    assert len(paths) == len(picture.arrows)
    dashed = [one for one in paths if "implied" in (one.get("class") or "")]
    assert len(dashed) == sum(arrow.implied for arrow in picture.arrows)


def test_in_mermaid_and_dot_every_box_and_arrow_is_there() -> None:
    picture = plans.picture(plans.EVERY_KIND)
    boxes = list(picture.every_box())
    exits = sum(len(box.exits) for box in boxes)
    mermaid, dot = FORMATS["mermaid"](picture), FORMATS["dot"](picture)
    assert len(re.findall(r" (?:-->|-\.->)", mermaid)) == len(picture.arrows) + exits
    assert dot.count(" -> ") == len(picture.arrows) + exits
    holders = sum(box.inside is not None for box in boxes)
    assert mermaid.count("subgraph ") == holders == dot.count("subgraph cluster_")
    assert mermaid.splitlines().count("    end") == holders
    assert dot.count("{") == dot.count("}")


def test_ascii_reads_from_top_to_bottom() -> None:
    steps = (
        "{name: Lint, command: [npm, run, lint], on: {success: {goto: Build}, failure: {goto: Fix}}}",
        '{name: Fix, command: [npm, fix], on: {success: {goto: Lint}, failure: {error: "cannot be fixed"}}}',
        "{name: Build, command: [make]}",
    )
    assert drawn(plans.plan_of(plans.flow(*steps)), "ascii") == (
        "Test\n"
        "\n"
        "(start) ..> Lint\n"
        "[Lint]  command: npm run lint\n"
        "    success --> Build\n"
        "    failure --> Fix\n"
        "[Fix]  command: npm fix\n"
        "    success --> Lint (back)\n"
        "    failure --x error: cannot be fixed\n"
        "[Build]  command: make\n"
        "    success ..> end\n"
        "    failure ..x the run fails\n"
        "(end)\n"
    )


def test_ascii_indents_what_stands_inside() -> None:
    written = drawn(plans.plan_of(plans.EVERY_KIND), "ascii")
    assert "\n|   [Inner]  for_each: item in [1, 2]\n" in written
    assert "\n|   |   [Leave]  command: true\n" in written
    assert "\n|   |       success --> leave the loop\n" in written
