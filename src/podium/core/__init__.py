"""The verbs: pure functions from values to values. No clock, no ids, no input or output."""
