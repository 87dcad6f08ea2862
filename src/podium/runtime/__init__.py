"""Carries out what was decided: records within a budget, delivers to buses, starts queued runs, raises alerts."""
