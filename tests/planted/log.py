"""Violations of docs/conformance/execution-semantics.md."""

from typing import Final

from tests.planted.faults import Fault

FAULTS: Final[list[Fault]] = []
