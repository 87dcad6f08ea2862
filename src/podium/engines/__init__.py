"""Engines: they drive runs. All of them host the same machine."""
