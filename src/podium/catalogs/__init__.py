"""Where nodes are registered: adapters of `ports/catalog.py`."""
