"""Executes what was decided: records within a time budget, delivers to buses, starts queued runs, raises
alerts.
"""
