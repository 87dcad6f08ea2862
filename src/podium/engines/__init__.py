"""Who drives a run. Each engine hosts the same machine."""
