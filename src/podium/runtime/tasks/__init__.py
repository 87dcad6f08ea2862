"""Who carries out a step: one module per kind of task, and what they have in common."""
