"""docs/walkthrough.md shows how a run really goes: one is traced."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"
SOURCE = Path(__file__).parents[2] / "src" / "podium"
HOPS = re.findall(r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)

# Prints every call of a function of Podium, in order.
TRACING = """
import sys
source, arguments = sys.argv[1], sys.argv[2:]
calls = []

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source):
        calls.append(f"{code.co_filename[len(source) + 1:]} {code.co_qualname}")

sys.setprofile(note)
from podium.cli.app import run
exit_code = run(arguments)
sys.setprofile(None)
print(*calls, sep="\\n")
sys.exit(exit_code)
"""


def test_a_run_takes_the_hops_of_the_walkthrough_in_their_order(tmp_path: Path) -> None:
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "hello.yaml").write_text(workflow)
    traced = subprocess.run(
        [sys.executable, "-c", TRACING, str(SOURCE), "run", "hello.yaml", "--quiet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    calls = iter(traced.stdout.splitlines())
    missing = [f"{number} {file} {name}" for number, file, name in HOPS if f"{file} {name}" not in calls]
    assert missing[:1] == [], "this hop is not taken, or not in this place"


def test_the_walkthrough_has_at_most_25_hops_in_order() -> None:
    assert [int(number) for number, _, _ in HOPS] == list(range(1, len(HOPS) + 1))
    assert 15 <= len(HOPS) <= 25


def test_every_other_file_that_the_walkthrough_names_exists() -> None:
    for file in re.findall(r"`([\w/]+\.py)`", PAGE.read_text()):
        assert (SOURCE / file).is_file(), file
