"""Reading a contract file: what positions, diagnostics and models cost beside the bare YAML."""

import yaml

from bench import workflows
from bench.measure import Contestant, Job, bytes_at_most, compete
from bench.report import Report, microseconds
from podium.nodes.contract import read_contract

_STEPS = 1_000
_ROUNDS = 8

_HEAD = """\
workflow_coordination:
  workflow_definition:
    version: {major: 1, minor: 0, patch: 0}
    workflow_metadata:
      version: {major: 1, minor: 0, patch: 0}
      workflow_name: measured
      workflow_version: {major: 1, minor: 0, patch: 0}
      description: for measuring
    execution_graph:
      version: {major: 1, minor: 0, patch: 0}
steps:
"""


def run(report: Report) -> None:
    text = _HEAD + "".join(
        f"  - step_id: step_{index}\n"
        f"    step_name: Step {index}\n"
        "    step_type: compute\n"
        f"    depends_on: [{', '.join(f'step_{other}' for other in needed)}]\n"
        "    timeout_ms: 60000\n"
        for index, needed in enumerate(workflows.random_dependencies(_STEPS))
    )
    reading = read_contract(text, "measured.yaml")
    if reading.contract is None or len(reading.contract.steps) != _STEPS:
        raise ValueError(f"the measured contract is not valid: {reading.diagnostics[:3]}")

    jobs: dict[str, Job] = {
        "read_contract": lambda: read_contract(text, "measured.yaml"),
        "yaml.load with CSafeLoader": lambda: yaml.load(text, Loader=yaml.CSafeLoader),
    }
    report.section(f"Reading a contract of {_STEPS:,} steps with 3 dependencies each, per step")
    times = compete({name: Contestant(job) for name, job in jobs.items()}, _ROUNDS)
    for name, job in jobs.items():
        report.figure(name, microseconds(times.best(name) / _STEPS))
        report.figure(f"{name}, peak memory", f"{bytes_at_most(job) / _STEPS / 1000:.2f} KB")
    ratio = times.ratio("read_contract", "yaml.load with CSafeLoader")
    report.figure("read_contract / yaml.load", f"{ratio:.2f} x")
