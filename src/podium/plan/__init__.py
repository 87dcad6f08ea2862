"""What is to be done: the compiled form of a workflow, its order, its canonical bytes and its hash."""
