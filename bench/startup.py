"""How long a person waits for the command line before it has done anything."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.report import Report, milliseconds

_ROUNDS = 21
_ROOT = Path(__file__).parents[1]
_EXAMPLE = "examples/contracts/etl_pipeline.yaml"
# Beside the interpreter, and not resolved: in a virtual environment the interpreter itself is a link.
_PODIUM = str(Path(sys.executable).parent / "podium")


def run(report: Report) -> None:
    report.section(f"Start of the command line, median of {_ROUNDS}")
    times = _median_times(
        {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import podium'": [sys.executable, "-c", "import podium"],
            "podium --version": [_PODIUM, "--version"],
            "podium contract validate": [_PODIUM, "contract", "validate", _EXAMPLE],
        }
    )
    for name, duration in times.items():
        report.figure(name, milliseconds(duration))
    ratio = times["podium --version"] / times["python -c pass"]
    report.goal("podium --version / python -c pass", ratio, at_most=6)


def _median_times(commands: dict[str, list[str]]) -> dict[str, float]:
    """The median, not the best: starting a process is noisy in both directions."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        _seconds(command)  # compiled files are written and the disk cache is filled
    for _ in range(_ROUNDS):
        for name, command in commands.items():
            times[name].append(_seconds(command))
    return {name: statistics.median(durations) for name, durations in times.items()}


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
