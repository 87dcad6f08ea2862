"""Service catalogs and registration tables: adapters of `ports/catalog.py`."""
