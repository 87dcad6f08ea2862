"""The machine: the one place for workflow rules. `machine.py` explains how its parts fit together."""

from podium.machine.machine import RULES_VERSION, Machine

__all__ = ["RULES_VERSION", "Machine"]
