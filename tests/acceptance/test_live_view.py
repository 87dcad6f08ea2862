"""The live view in a real terminal (tmux), compared with what was seen and approved: `tests/acceptance/live_view`.

`PODIUM_GOLDEN=1` writes the files again; their diff is the review.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.acceptance.podium import PODIUM, Place, until

GOLDEN = Path(__file__).parent / "live_view"
FLOW = """
version: "2.0"
name: Nightly build
steps:
  - {name: Prepare, command: [echo, ready]}
  - name: Both
    parallel:
      - name: All packages of the repository that have changed
        for_each:
          items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
          as: n
          parallel: true
          max_workers: 2
          steps:
            - {name: Build, command: [sh, wait.sh, "${n}"]}
        allow_failure: true
      - {name: Fetch, command: [sh, fetch.sh], retry: {attempts: 3, delay: 3000, max_delay: 3000}}
  - {name: Ship, approval: {message: "Ship it?", form: {version: {required: true}}}}
  - {name: Announce, command: [echo, "version ${steps.Ship.form.version}"]}
"""


# Items from the tenth on wait for a file; the fourth one fails.
WAIT = """
echo compiling $1
[ $1 -ne 11 ] || touch reached
[ $1 -lt 10 ] || while [ ! -e go ]; do sleep 0.1; done
[ $1 -ne 4 ]
"""
FETCH = """
while [ ! -e reached ]; do sleep 0.1; done
[ -e go ]
"""


class Terminal:
    """A window of tmux in which a command runs."""

    def __init__(self, name: str, place: Place, width: int, height: int, *command: str) -> None:
        self._name = name
        size = ("-x", str(width), "-y", str(height))
        # The size is that of the window, whatever the environment of the tests says.
        unset = ("COLUMNS", "LINES", "NO_COLOR", "GITHUB_ACTIONS")
        kept = {name: value for name, value in place.environment.items() if name not in unset}
        environment = {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        # The window stays open when the command has ended.
        self._tmux(
            "new-session",
            "-d",
            *size,
            "-c",
            str(place.folder),
            "sh",
            "-c",
            '"$@"; cat',
            "sh",
            *command,
            env=environment,
        )

    def _tmux(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, "-f", "/dev/null", *words],
            capture_output=True, text=True, check=True, timeout=30, env=env,
        )  # fmt: skip
        return done.stdout

    def type(self, line: str) -> None:
        self._tmux("send-keys", line, "Enter")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """What is on it, with figures that differ from run to run in one form."""
        shown = "\n".join(line.rstrip() for line in self._tmux("capture-pane", "-p").splitlines()).strip("\n")
        shown = re.sub(r"\d+ m \d\d s|\d+(\.\d)? s\b", "N s", shown)
        return re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", shown) + "\n"

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(FLOW)
    (tmp_path / "wait.sh").write_text(WAIT)
    (tmp_path / "fetch.sh").write_text(FETCH)
    return made


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


def opened(terminals: list[Terminal], place: Place, width: int, *options: str) -> Terminal:
    assert which("tmux") is not None, "install tmux: a live view can only be seen in a terminal"
    words = [*PODIUM, "run", "w.yaml", "--run-id", "nightly-3f2a", *options]
    terminals.append(Terminal(place.run_id, place, width, 24, *words))
    return terminals[-1]


def check(name: str, shown: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("PODIUM_GOLDEN"):
        file.write_text(shown)
    assert shown == file.read_text()


def without_columns(screen: str) -> str:
    """How wide a column is depends on how long steps took."""
    return re.sub(" {2,}", "  ", re.sub(" *━+ *", "  ━  ", screen))


def is_at_nine(screen: str) -> bool:
    return "9/12" in screen and "compiling 11" in screen and "retry 2 of 3" in screen


def test_the_tree_fits_80_columns_a_resize_and_an_approval(place: Place, terminals: list[Terminal]) -> None:
    window = opened(terminals, place, 80)
    until(lambda: is_at_nine(window.screen()))
    check("80_columns", window.screen())

    window.resize(60, 16)
    # Drawn for the new width: the bar is whole, and its line fits.
    until(lambda: re.search(r"changed  ━+─+ 9/12, 1 failed$", window.screen(), re.MULTILINE))
    check("resized_to_60", window.screen())

    window.resize(80, 30)
    # What is printed from now on is wrapped for the new width only if the run has seen it.
    until(lambda: "All packages of t…hat have changed" in window.screen())
    (place.folder / "go").touch()
    until(lambda: "/12, 1 failed" not in window.screen())
    place.run("retry-step", "nightly", "Both/Fetch")
    until(lambda: "[y/n/details]" in window.screen())
    window.type("details")
    until(lambda: "podium reject" in window.screen())
    check("approval", window.screen())

    window.type("y")
    until(lambda: "version (string, required):" in window.screen())
    window.type("1.4.0")
    until(lambda: "see runs/" in window.screen())
    check("summary", without_columns(window.screen()))
    assert place.run("logs", "last", "Announce").stdout.splitlines()[-1] == "version 1.4.0"


def test_the_tree_fits_200_columns(place: Place, terminals: list[Terminal]) -> None:
    window = opened(terminals, place, 200)
    until(lambda: is_at_nine(window.screen()))
    check("200_columns", window.screen())


def test_a_plain_view_draws_nothing_again(place: Place, terminals: list[Terminal]) -> None:
    place.write("steps: [{name: a, command: [echo, hello]}]")
    window = opened(terminals, place, 80, "--plain")
    until(lambda: "see runs/" in window.screen())
    check("plain", without_columns(window.screen()))


def test_a_failure_ends_with_its_last_lines_its_log_and_the_next_command(
    place: Place, terminals: list[Terminal]
) -> None:
    place.write("steps: [{name: a, command: [sh, -c, 'echo so far; echo reason >&2; exit 3']}]")
    window = opened(terminals, place, 80)
    until(lambda: "next:" in window.screen())
    check("failure", without_columns(window.screen()))


def test_in_github_actions_each_step_is_a_group_and_its_output_is_not_obeyed(place: Place) -> None:
    place.write(
        "steps: [{name: a, command: [sh, -c, 'echo ::error::forged; echo \"##[error]forged\"']}, "
        "{name: b, command: [sh, -c, 'echo reason; exit 3']}]"
    )
    shown = place.run("run", "w.yaml", env={"GITHUB_ACTIONS": "true"}, code=1).stdout
    lines = re.sub(r"[0-9a-f]{32}", "TOKEN", shown).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("::group::ok a"))
    assert lines[start + 1 : start + 6] == [
        "::stop-commands::TOKEN",
        "::error::forged",
        "##[error]forged",
        "::TOKEN::",
        "::endgroup::",
    ]
    assert "::group::x  b: exit code 3" in lines
    assert "::error title=b::exit code 3" in lines
