"""Reports of runs: the state of a run in its graph, its timeline, and HTML that nothing can break out of."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.acceptance.podium import Place

HOSTILE = "</title></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"
FLOW = """
version: "2.0"
name: Nightly
steps:
  - name: Build
    for_each: {items: [1, 2, 3], as: n, steps: [{name: One, command: [sh, -c, 'test ${n} -ne 2']}]}
    allow_failure: true
  - {name: Ship, command: [sh, -c, 'echo first; exit 3']}
  - {name: Never, command: [echo]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(FLOW)
    made.run("run", "w.yaml", "-q", "--run-id", "r-1", code=1)
    return made


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")
        ]


def test_a_graph_of_a_run_has_the_state_of_each_step(place: Place) -> None:
    drawn = place.run("graph", "r-1").stdout
    assert re.search(r"\[Build\]  failed  for_each", drawn)
    assert "1 failed, 2 ok" in drawn
    assert "[Ship]  failed  command" in drawn
    assert "[Never]  not-reached  command" in drawn
    svg = place.run("graph", "last", "--format", "svg").stdout
    assert 'class="box task is-failed"' in svg
    assert 'class="box task is-not-reached"' in svg
    assert ":::out" in place.run("graph", "last", "--format", "mermaid").stdout


def test_a_file_of_the_name_of_a_run_wins(place: Place) -> None:
    place.write("steps: [{name: Other, command: [echo]}]", "r-1")
    assert "[Other]  command" in place.run("graph", "r-1").stdout


def test_what_is_neither_a_file_nor_a_run_is_refused(place: Place) -> None:
    assert "RUN_NOT_FOUND" in place.run("graph", "nothing", code=64).stderr
    assert "cannot read 'nothing.yaml'" in place.run("graph", "nothing.yaml", code=64).stderr


def test_a_timeline_has_the_steps_in_the_order_in_which_they_started(place: Place) -> None:
    steps = [line.split()[0] for line in place.run("timeline", "last").stdout.splitlines()]
    assert steps == ["step", "Build", "Build[1]/One", "Ship"]
    every = [line.split()[0] for line in place.run("timeline", "last", "--items").stdout.splitlines()]
    assert every == ["step", "Build", "Build[0]/One", "Build[1]/One", "Build[2]/One", "Ship"]


def test_a_report_says_how_long_steps_took_and_where_their_output_is(place: Place) -> None:
    report = place.run("report", "last").stdout
    assert re.search(
        r"\| Ship \| failed \| \d+\.\d \| 1 \|  \|  \| exit code 3 \| logs/steps/Ship.1.out \|", report
    )


def test_a_report_of_a_failed_run_says_why_and_what_to_call(place: Place) -> None:
    place.write(
        "steps: [{name: Ship it, shell: 'echo one; echo \"# <b>the cause\" >&2; exit 7'}]", "two.yaml"
    )
    place.run("run", "two.yaml", "-q", "--run-id", "r-2", code=1)
    lines = place.run("report", "r-2").stdout.splitlines()
    assert lines[lines.index("## Ship it: exit code 7") :] == [
        "## Ship it: exit code 7",
        "",
        "    one",
        "    # <b>the cause",
        "",
        "All of it: logs/steps/Ship it.1.out, logs/steps/Ship it.1.err",
        "",
        "Next:",
        "",
        "    podium logs r-2 'Ship it'",
        "    podium resume r-2",
    ]
    page = place.run("report", "r-2", "--format", "html").stdout
    assert "podium logs r-2 &#x27;Ship it&#x27;\npodium resume r-2</pre>" in page
    assert re.search(
        r"Ship it\.1\.out</small>.*<pre>one</pre>.*\n.*Ship it\.1\.err</small>.*the cause</pre>", page
    )


def test_a_report_has_the_answer_of_an_agent(place: Place) -> None:
    place.write("steps: [{name: Ask, provider: echo, prompt: the answer}]", "ask.yaml")
    place.run("run", "ask.yaml", "-q", "--run-id", "r-3")
    assert "| logs/steps/Ask.1.txt |" in place.run("report", "r-3").stdout
    page = place.run("report", "r-3", "--format", "html").stdout
    assert re.search(r"Ask\.1\.txt</small>.*<pre>the answer</pre>", page)


def test_an_html_report_is_one_file_with_graph_timeline_and_outputs(place: Place) -> None:
    place.run("report", "last", "--format", "html", "-o", "r.html")
    page = (place.folder / "r.html").read_text()
    found = Tags(page)
    assert {"svg", "table", "details", "style"} <= found.names
    assert found.links == []
    assert "is-failed" in page
    assert '<div class="bar failed"' in page
    assert re.search(r"<details open><summary>.*Ship.*<pre>first</pre>", page)


def test_nothing_in_a_run_becomes_markup_of_its_report(place: Place) -> None:
    place.write(
        "version: '2.0'\nname: 'x</title><script>alert(0)</script>'\nsteps:\n"
        "  - name: 'a<script>b'\n    command: [sh, say.sh]\n    output_file: 'diffs/x.diff'\n",
        "evil.yaml",
    )
    (place.folder / "say.sh").write_text(f"cat <<'E'\n{HOSTILE}\n+{HOSTILE}\n\x1b[2J\nE\nexit 1\n")
    place.run("run", "evil.yaml", "-q", "--run-id", "evil", code=1)
    diffs = place.runs / "evil" / "artifacts" / "diffs"
    diffs.mkdir(exist_ok=True)
    (diffs / "<img src=x>.diff").write_text(f"+{HOSTILE}\n@@ -1 @@\n-{HOSTILE}")
    page = place.run("report", "evil", "--format", "html").stdout
    plain = Tags(place.run("report", "r-1", "--format", "html").stdout)
    found = Tags(page)
    assert found.names - plain.names <= {"span"}
    assert not {name for name in found.attributes if name.startswith("on")}
    assert found.links == []
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page
