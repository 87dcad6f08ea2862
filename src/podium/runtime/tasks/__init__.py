"""Execution of steps: one module per kind of task, and what they have in common."""
