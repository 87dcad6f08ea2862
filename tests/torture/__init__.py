"""Random plans, outcomes, orders, crashes, duplicates and signals against the machine. `python -m tests.torture`."""
