"""The compiled form of a workflow: its order, its canonical bytes and its hash."""
