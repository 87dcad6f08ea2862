"""Reading a workflow: what checking every name and compiling a plan cost beside the bare YAML."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.measure import Contestant, Job, bytes_at_most, compete
from bench.report import Report, microseconds, milliseconds
from podium.language.workflow import read_workflow
from podium.plan.loading import steps_of

_STEPS = 1_000
_ROUNDS = 15
_STARTS = 21

_HEAD = """\
version: "2.0"
name: Measured
context:
  branch: main
"""
# Eighteen lines, as people write steps.
_STEP = """\
  - name: Step {index}
    description: what the step is for
    command: [make, "target-{index}", "--branch=${{context.branch}}"]
    when:
      expr: ${{steps.Step {before}.exit_code}} == 0
    env:
      LOG_LEVEL: debug
      BRANCH: ${{context.branch}}
    timeout: 60
    retry:
      attempts: 3
      backoff: exponential
      delay: 2
    on:
      success:
        goto: Step {after}
      failure:
        error: step {index} failed
"""
_SMALL = """\
version: "2.0"
name: Small
steps:
  - name: Build
    command: [make]
  - name: Test
    command: [make, test]
    when:
      step_ok: Build
"""


def run(report: Report) -> None:
    _compiling(report)
    _starting(report)


def _compiling(report: Report) -> None:
    text = workflow_text(_STEPS)
    content = text.encode()
    reading = read_workflow(content, "measured.yaml")
    if reading.plan is None or sum(1 for _ in steps_of(reading.plan.workflow)) != _STEPS:
        raise ValueError(f"the measured workflow is not valid: {reading.diagnostics[:3]}")

    def events() -> None:
        for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
            pass

    jobs: dict[str, Job] = {
        "validated and compiled": lambda: read_workflow(content, "measured.yaml"),
        "bare events of the C parser": events,
    }
    lines = text.count("\n")
    report.section(f"Reading a workflow of {_STEPS:,} steps in {lines:,} lines, per step")
    times = compete({name: Contestant(job) for name, job in jobs.items()}, _ROUNDS)
    for name, job in jobs.items():
        report.figure(name, microseconds(times.best(name) / _STEPS))
        report.figure(f"{name}, peak memory", f"{bytes_at_most(job) / _STEPS / 1000:.2f} KB")
    ratio = times.ratio("validated and compiled", "bare events of the C parser")
    report.goal("compiled / bare events", ratio, at_most=5)


def workflow_text(steps: int) -> str:
    return (
        _HEAD
        + "steps:\n"
        + "".join(
            _STEP.format(index=index, before=max(index - 1, 0), after=min(index + 1, steps - 1))
            for index in range(steps)
        )
    )


def _starting(report: Report) -> None:
    """Measured by the clock, turn by turn: a person waits for the whole process."""
    podium = str(Path(sys.executable).parent / "podium")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.yaml"
        small.write_text(_SMALL)
        commands = {
            "podium validate": [podium, "validate", str(small)],
            "python -c pass": [sys.executable, "-c", "pass"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():
            _seconds(command)  # compiled files are written and the disk cache is filled
        for _ in range(_STARTS):
            for name, command in commands.items():
                times[name].append(_seconds(command))
    report.section(f"Validating a small file, median of {_STARTS}")
    for name, durations in times.items():
        report.figure(name, milliseconds(statistics.median(durations)))
    pairs = zip(*times.values(), strict=True)
    report.goal("podium validate / python -c pass", statistics.median(a / b for a, b in pairs), at_most=14)


def _seconds(command: list[str]) -> float:
    # As users have it: whoever forbids compiled files measures the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started
