"""Random and broken inputs for everything that reads what people write: `python -m tests.fuzz`."""
