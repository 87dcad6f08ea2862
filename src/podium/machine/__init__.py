"""The machine: the one place where workflow rules live. `machine.py` tells how its parts fit together."""

from podium.machine.machine import RULES_VERSION, Machine

__all__ = ["RULES_VERSION", "Machine"]
