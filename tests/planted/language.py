"""Violations of docs/conformance/agent-workflows.md."""

from typing import Final

from tests.planted.faults import Fault

FAULTS: Final[list[Fault]] = []
