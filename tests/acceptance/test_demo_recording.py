"""The recording in docs shows what `make demo` prints now; `python -m tests.demo_recording` records it again."""

import re
from collections.abc import Iterable
from pathlib import Path

from tests.acceptance.podium import PODIUM
from tests.demo_recording import CAST, ROOT, Event, Screen, events_of, record


def shown(events: Iterable[Event]) -> list[str]:
    """The lines that stay on the screen, with figures and widths that differ from run to run in one form."""
    screen = Screen()
    for event in events:
        screen.write(event.text)
    text = "\n".join(screen.text())
    text = re.sub(r"\d+ m \d\d s|\d+(\.\d)? s\b", "N s", text)
    text = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", text)
    text = re.sub(r"demo-[0-9a-f]{4}", "demo-3f2a", text)
    return re.sub("(?m) {2,}", "  ", re.sub(" *━+ *", "  ━  ", text)).strip().splitlines()


def test_the_recording_shows_what_the_demo_prints_now(tmp_path: Path) -> None:
    recorded = shown(events_of(CAST.read_text()))
    end = next(number for number, line in enumerate(recorded) if line.startswith("see runs/"))
    now = shown(record(*PODIUM, "run", str(ROOT / "examples" / "demo.yaml"), folder=tmp_path))

    assert recorded[0] == "$ make demo"
    # Steps that run at the same time end in any order on a busy machine.
    assert sorted(recorded[1 : end + 1]) == sorted(now)
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    assert "$(BIN)/podium run examples/demo.yaml" in recipe
    echoed = [line.replace("$(BIN)", ".venv/bin") for line in re.findall('@echo "(.*)"', recipe)]
    assert [re.sub(" {2,}", "  ", line).rstrip() for line in echoed] == [
        line for line in recorded[end + 1 :] if line
    ]
