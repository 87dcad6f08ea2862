"""What an agent says may be hostile. It stays text: in the terminal, in the state, in the report."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.agents.box import Box
from tests.agents.running import MODELS, PROGRAMS, Runs
from tests.agents.servers import Says

# Colours, a clipboard, a title, a link, a screen that is cleared; one-byte controls; text that runs backwards; markup.
NASTY = (
    "\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07 "
    "\x1b]0;title\x1b\\ \x1b]8;;http://evil/\x07link\x1b]8;;\x07 \x1b[2J\x1b[H"
    " \x9b31m \x9d52;c;ZXZpbA==\x9c \x90q\x9c \x00\x08\x7f\r over \u202egnp.exe\u202c \u2066x\u2069"
    " <script>alert(1)</script><img src=x onerror=alert(1)> </td></table> | a | b | [x](javascript:alert(1)) `code`\n"
    "::error::x\n"
)
BROKEN = b"\xff\xfe \xc3( \xed\xa0\x80 \xf8\x88\x80\x80\x80 half \xe2\x82"
# What a terminal would obey, or show otherwise than it is: everything but tabs and ends of lines.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def runs(tmp_path: Path, box: Box) -> Runs:
    made = Runs(tmp_path, box, None)
    (made.folder / "nasty").write_bytes(NASTY.encode() + BROKEN)
    return made


def harm(shown: bytes) -> list[str]:
    """What in it could harm a terminal. It must be UTF-8, too."""
    return UNSEEN.findall(shown.decode())


class Markup(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


WORKFLOW = """
providers:
  fine: {argv: [cat, nasty]}
  bad: {argv: [sh, -c, 'cat nasty; cat nasty >&2; exit 3']}
steps:
  - {name: Fine, provider: fine, prompt: hello, allow_failure: true}
  - {name: Bad, provider: bad, prompt: hello, allow_failure: true}
  - {name: Asked, provider: anthropic, model: big, prompt: hello, allow_failure: true}
"""


def test_nothing_that_is_printed_can_harm_a_terminal_or_a_page(runs: Runs) -> None:
    runs.run(WORKFLOW, {"anthropic": [Says(NASTY)]})
    run = runs.run_id
    shown = {
        "run": runs.printed.encode(),
        "logs": runs.podium("logs", run),
        "events": runs.podium("events", run),
        "events --json": runs.podium("events", run, "--json"),
        "runs show": runs.podium("runs", "show", run),
        "why": runs.podium("why", run),
        **{form: runs.podium("report", run, "--format", form) for form in ("md", "html", "json")},
    }
    assert {name: found for name, text in shown.items() if (found := harm(text))} == {}
    assert "\\x1b[31mred" in shown["logs"].decode(), "it is shown, spelled out"

    page = Markup(shown["html"].decode())
    assert not page.tags & {"script", "img", "a", "iframe"}
    assert not {
        name for name in page.attributes if name.startswith("on") or name in ("src", "href", "action")
    }
    assert b"&lt;script&gt;" in shown["html"], "the words of the failure are in it"
    assert not re.findall(rb"<|\]\(", shown["md"]), "Markdown passes markup on, and makes links"
    rows = [line for line in shown["md"].decode().splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert len({row.count("|") for row in rows}) == 1
    assert [json.loads(line)["eventType"] for line in shown["events --json"].splitlines()][
        -1
    ] == "RunCompleted"


def test_the_state_is_whole_and_holds_what_was_said(runs: Runs) -> None:
    runs.run(WORKFLOW, {"anthropic": [Says(NASTY)]})
    assert runs.step("Asked")["output"] == NASTY
    assert runs.step("Fine")["output"].startswith(NASTY)
    assert "\ufffd" in runs.step("Fine")["output"], "what is no UTF-8 is marked"
    assert runs.codes("Bad") == ["AGENT_ERROR"]
    for file in runs.path.glob("logs/*.jsonl"):
        for line in file.read_bytes().splitlines():
            json.loads(line)


def test_what_real_programs_pass_on_is_text_too(
    tmp_path: Path, box: Box, words: Callable[[str], list[str]]
) -> None:
    runs = Runs(tmp_path, box, words)
    steps = "".join(
        f"      - {{name: {name}, provider: {name}, model: {MODELS[name]}, access: read, prompt: hello}}\n"
        for name in PROGRAMS
    )
    workflow = f"steps:\n  - name: All\n    parallel:\n{steps}"
    runs.run(workflow, {name: [Says(NASTY)] for name in PROGRAMS})
    shown = [runs.printed.encode(), runs.podium("logs", runs.run_id), runs.podium("events", runs.run_id)]
    assert [found for text in shown if (found := harm(text))] == []
    for name in PROGRAMS:
        assert "52;c;ZXZpbA==" in runs.ends(f"All/{name}")[0]["output"], "gemini leaves some of it out itself"


@pytest.mark.parametrize("options", [(), ("--stream",), ("--json",)])
def test_a_terminal_that_looks_on_is_not_harmed(runs: Runs, options: tuple[str, ...]) -> None:
    (runs.folder / "w.yaml").write_text(f'version: "2.0"\nname: agents\n{WORKFLOW.rsplit("  - ", 1)[0]}')
    shown = at_a_terminal([sys.executable, "-m", "podium", "run", "w.yaml", *options], runs.folder)
    # What draws the picture may move the cursor; a title, a clipboard, a link and the agent's colours are not ours.
    assert b"\x1b]" not in shown
    assert b"\x1b[31mred" not in shown
    assert b"\x1b[2J" not in shown
    assert not re.findall("[\x00\x08\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown.decode("utf-8", "replace"))


def at_a_terminal(command: list[str], folder: Path) -> bytes:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait(60)
    return shown


@pytest.mark.parametrize("what", ["text", "one line", "escapes"])
def test_a_hundred_megabytes_are_kept_and_shown_within_limits(runs: Runs, what: str) -> None:
    piece = {"text": "all work and no play\n", "one line": "all work and no play ", "escapes": "\x1b]52;c;"}[
        what
    ]
    count = 100_000_000 // len(piece) // 50_000
    program = f"import sys; [sys.stdout.write({piece!r} * 50_000) for _ in range({count})]"
    (runs.folder / "flood.py").write_text(program)
    workflow = f"""
providers:
  flood: {{argv: ["{sys.executable}", flood.py]}}
steps: [{{name: Flood, provider: flood, prompt: hello}}]
"""
    runs.run(workflow, {})
    step = runs.step("Flood")
    assert step["truncated"]
    assert len(step["output"]) <= 100_000
    assert (runs.path / "state.json").stat().st_size < 1_000_000
    assert (runs.path / "logs/steps/Flood.1.out").stat().st_size > 99_000_000
    # Not more of it in memory than a part, however long its lines are.
    with subprocess.Popen(
        ["prlimit", "--data=300000000", sys.executable, "-m", "podium", "logs", runs.run_id],
        cwd=runs.folder,
        stdout=subprocess.PIPE,
    ) as showing:
        assert showing.stdout is not None
        assert harm(showing.stdout.read(2_000_000)) == []
        if what != "escapes":
            last = b""
            while rest := showing.stdout.read(1 << 20):
                last = rest
            assert b"no play" in last
        else:
            # Spelling all of it out takes a minute.
            showing.kill()
    assert showing.returncode == (0 if what != "escapes" else -9)
